#!/bin/sh
# SPDX-License-Identifier: MIT
# Norms, casts, rotary embedding, activations, softmax, cross entropy, embedding lookup on a GPU, as operators, beside a copy of as many bytes,
# PyTorch, and Liger's and quack's kernels where they are installed. Runs in the root of the repository.
#
#     sh bench/families/nn.sh [SECONDS]      for the times, 40 by default; kernels are built before, in parallel
#
# L2 is overwritten before each run; medians of 15. `of copy`: the time of a copy that moves the same bytes over the operator's; the goal is
# 0.9. The rest: the peer's time over the operator's. liger-kernel and quack-kernels are looked for in .gpu/peers, too. DEVICE=cpu
# DIVIDE=64 BUILD=build CHECK=0: small, on a machine without a GPU.
. bench/families/common.sh
check_operators nn
cat >/tmp/nn_bench.py <<'PY'
import importlib, os, sys, time
import torch, torch.nn.functional as F
from kiln import ops
dev, divide, part, begin = sys.argv[1], int(sys.argv[2]), sys.argv[3], time.time()
limit = float(sys.argv[4]) if len(sys.argv) > 4 else 0
gpu, BF = dev != "cpu", torch.bfloat16
flush = torch.zeros((256 << 20) if gpu and part == "time" else 1, dtype=torch.uint8, device=dev)
few = part != "time"                                          # to build: a launch of few rows

def time_us(f, n=15):
    f()
    if not gpu or few:
        start = time.perf_counter(); f()
        return (time.perf_counter() - start) * 1e6
    f(); events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(n)]
    for a, b in events:
        flush.zero_(); a.record(); f(); b.record()
    torch.cuda.synchronize()
    return sorted(a.elapsed_time(b) * 1e3 for a, b in events)[n // 2]

def random(*shape): return torch.randn(*shape, device=dev, dtype=BF)
def liger(module, name):
    return getattr(__import__("liger_kernel.ops." + module, fromlist=[name]), name).apply
def quack(name, module="quack"):
    return getattr(importlib.import_module(module), name)

M = 16 if few else max(16384 // divide, 16)
rows = {}
def row(name):
    def add(make): rows[name] = make
    return add

# Each gives: bytes that are moved; the operator; peers by name, each a function that makes one.
for N in (4096, 7168, 8192, 16384):
    @row("rms_norm %d" % N)
    def _(N=N):
        x, w, y = random(M, N), random(N), random(M, N)
        return 4 * M * N, lambda: ops.rms_norm(x, w, y), {"torch": lambda: lambda: F.rms_norm(x, (N,), w, 1e-6),
            "liger": lambda: lambda f=liger("rms_norm", "LigerRMSNormFunction"): f(x, w, 1e-6, 0.0, "llama", False),
            "quack": lambda: lambda f=quack("rmsnorm"): f(x, w, eps=1e-6)}
    @row("rms_norm + residual %d" % N)
    def _(N=N):
        x, r, w, y, s = random(M, N), random(M, N), random(N), random(M, N), random(M, N)
        return 8 * M * N, lambda: ops.rms_norm(x, w, y, residual=r, sum=s), {
            "liger": lambda: lambda f=liger("fused_add_rms_norm", "LigerFusedAddRMSNormFunction"): f(x, r, w, 1e-6, 0.0, "llama", False),
            "quack": lambda: lambda f=quack("rmsnorm"): f(x, w, residual=r, eps=1e-6)}
    @row("layer_norm %d" % N)
    def _(N=N):
        x, w, b, y = random(M, N), random(N), random(N), random(M, N)
        return 4 * M * N, lambda: ops.layer_norm(x, w, b, y), {"torch": lambda: lambda: F.layer_norm(x, (N,), w, b, 1e-6),
            "liger": lambda: lambda f=liger("layer_norm", "LigerLayerNormFunction"): f(x, w, b, 1e-6),
            "quack": lambda: lambda f=quack("layernorm_fwd", "quack.rmsnorm"), w=w.float(), b=b.float(): f(x, w, b, 1e-6)}
for N in (4096, 8192):
    @row("rms_norm to e4m3 %d" % N)
    def _(N=N):
        x, w = random(M, N), random(N)
        y, s = torch.empty(M, N, device=dev, dtype=torch.float8_e4m3fn), torch.empty(M, device=dev)
        return 3 * M * N, lambda: ops.rms_norm(x, w, y, out_scale=s), {}
    @row("cast_fp8 by 128 %d" % N)
    def _(N=N):
        x = random(M, N)
        y, s = torch.empty(M, N, device=dev, dtype=torch.float8_e4m3fn), torch.empty(M, N // 128, device=dev)
        return 3 * M * N, lambda: ops.cast_fp8(x, y, s, group=128), {}
for N in (2880, 14336):
    @row("silu * up %d" % N)
    def _(N=N):
        g, u, y = random(M, N), random(M, N), random(M, N)
        return 6 * M * N, lambda: ops.activate(g, u, y), {"torch": lambda: lambda: F.silu(g) * u,
            "liger": lambda: lambda f=liger("swiglu", "LigerSiLUMulFunction"): f(g, u)}
@row("gelu * up 14336")
def _():
    g, u, y = random(M, 14336), random(M, 14336), random(M, 14336)
    return 6 * M * 14336, lambda: ops.activate(g, u, y, activation="gelu"), {
        "liger": lambda: lambda f=liger("geglu", "LigerGELUMulFunction"): f(g, u)}
@row("silu * up, gradient 14336")
def _():
    g, u, d, dg, du = (random(M, 14336) for _ in range(5))
    return 10 * M * 14336, lambda: ops.activate_backward(g, u, d, dg, du), {}
for H in (32, 64):
    @row("rotary %d heads of 128" % H)
    def _(H=H):
        x, at = random(M, H, 128), torch.arange(M, device=dev, dtype=torch.int32)
        def peer():
            f = liger("rope", "LigerRopeFunction")
            q, k, c, s = random(1, H - 8, M, 128), random(1, 8, M, 128), random(1, M, 128), random(1, M, 128)
            return lambda: f(q, k, c, s)
        return 4 * M * H * 128, lambda: ops.rotary_embedding(x, at), {"liger": peer}
V, R = 128256 // divide, 16 if few else max(4096 // divide, 16)
@row("softmax 128256")
def _():
    x, y = random(R, V), random(R, V)
    return 4 * R * V, lambda: ops.softmax(x, y), {"torch": lambda: lambda: torch.softmax(x, -1), "liger": lambda: lambda f=liger("softmax", "LigerSoftmaxFunction"): f(x),
        "quack": lambda: lambda f=quack("softmax"): f(x)}
@row("softmax 4096")
def _():
    x, y = random(M, 4096), random(M, 4096)
    return 4 * M * 4096, lambda: ops.softmax(x, y), {"torch": lambda: lambda: torch.softmax(x, -1), "liger": lambda: lambda f=liger("softmax", "LigerSoftmaxFunction"): f(x),
        "quack": lambda: lambda f=quack("softmax"): f(x)}
@row("cross_entropy 128256")
def _():
    x, l = random(R, V), torch.randint(0, V, (R,), device=dev)
    n, loss, lse = l.to(torch.int32), torch.empty(R, device=dev), torch.empty(R, device=dev)
    return 2 * R * V, lambda: ops.cross_entropy(x, n, loss, lse), {"torch": lambda: lambda: F.cross_entropy(x, l, reduction="none"),
        "quack": lambda: lambda f=quack("cross_entropy"): f(x, l, reduction="none")}
@row("cross_entropy and gradient 128256")
def _():
    x, l = random(R, V), torch.randint(0, V, (R,), device=dev)
    n, loss, lse, dx = l.to(torch.int32), torch.empty(R, device=dev), torch.empty(R, device=dev), random(R, V)
    def peer():
        f = liger("cross_entropy", "LigerCrossEntropyFunction")
        return lambda: f(x.detach().requires_grad_(True), l, None, -100, 0.0, 0.0, "mean", None, False)
    fused = lambda: lambda f=quack("cross_entropy_fwd", "quack.cross_entropy"): f(x, l, return_lse=True, return_dx=True)
    return 4 * R * V, lambda: ops.cross_entropy(x, n, loss, lse, dlogits=dx), {"liger": peer, "quack": fused}
@row("argmax 128256")
def _():
    x, i = random(R, V), torch.empty(R, device=dev, dtype=torch.int32)
    return 2 * R * V, lambda: ops.argmax(x, i), {"torch": lambda: lambda: x.argmax(-1)}
@row("embedding 4096")
def _():
    t, l = random(V, 4096), torch.randint(0, V, (M,), device=dev)
    n, y = l.to(torch.int32), random(M, 4096)
    return 4 * M * 4096, lambda: ops.embedding(t, n, y), {"torch": lambda: lambda: F.embedding(l, t)}

def copy_us(size):
    a = torch.empty(size // 2, dtype=torch.uint8, device=dev); b = torch.empty_like(a)
    return time_us(lambda: b.copy_(a))

if part == "list": print("\n".join(rows)); sys.exit()
if few:
    try: rows[part]()[1]()
    except Exception as e: print("#", part, type(e).__name__, str(e)[:160].replace("\n", " "))
    sys.exit()
print("%-34s %9s %8s %8s %6s %6s %6s" % ("us, bf16", "operator", "copy", "of copy", "torch", "liger", "quack"))
said = set()
for name, make in rows.items():
    if time.time() - begin > limit: print("# no time left:", name); continue
    size, run, peers = make()
    try: us = time_us(run)
    except Exception as e: print("#", name, str(e)[:160]); continue
    cells = []
    for peer in ("torch", "liger", "quack"):
        try: cells.append("%.2f" % (time_us(peers[peer]()) / us) if peer in peers else "-")
        except Exception as e:
            cells.append("-")
            if peer + type(e).__name__ not in said: print("# %s: %s" % (peer, str(e)[:100].replace("\n", " ")))
            said.add(peer + type(e).__name__)
    copy = copy_us(size)
    print("%-34s %9.1f %8.1f %8.2f %6s %6s %6s" % (name, us, copy, copy / us, *cells), flush=True)
    del run, peers
print("# %.0f s" % (time.time() - begin))
PY
"$python" /tmp/nn_bench.py "$device" "$divide" list |
    timeout 60 xargs -P "$(nproc)" -d '\n' -I NAME timeout 50 "$python" /tmp/nn_bench.py "$device" "$divide" NAME
timeout $((${1:-40} + 20)) "$python" /tmp/nn_bench.py "$device" "$divide" time "${1:-40}"
