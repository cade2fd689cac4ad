#!/bin/sh
# SPDX-License-Identifier: MIT
# Native sparse attention on a GPU: checks, then times beside fla-core's Triton kernels. Runs in the root of the repository; 8 to 10 minutes.
# fla-core 0.6.0 and einops are looked for in .gpu/fla (pip install --target). Without them: Kiln's times alone.
#   sh nsa.sh [PART...]    check: kernels and operators; bench: the table. Without parts both.
. bench/families/common.sh
check_kernels --quick kernels/nsa
check_operators nsa
cat >/tmp/nsa_bench.py <<'END_PY'
import sys, time, torch
from kiln import ops
try:
    from fla.ops.nsa.parallel import parallel_nsa, parallel_nsa_topk
    from fla.ops.nsa.compression import parallel_nsa_compression
    from fla.ops.utils.pooling import mean_pooling
    fla = True
except Exception as e:
    print("fla-core is not there:", repr(e)[:200]); fla = False
torch.manual_seed(1)
begun, rows = time.time(), []
def t(f, n=20):
    for _ in range(3): f()
    torch.cuda.synchronize()
    ts = []
    for _ in range(n):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record(); f(); b.record(); torch.cuda.synchronize(); ts.append(a.elapsed_time(b))
    return sorted(ts)[n // 2]
def safe(f, *a):
    try: return t(f, *a)
    except Exception as e: return "failed: " + repr(e)[:100]
def near(a, b):
    a, b = a.double().flatten(), b.double().flatten()
    return float(1 - 2 * (a @ b) / (a @ a + b @ b))
def row(name, kiln, peer, note=""):
    ratio = peer / kiln if isinstance(kiln, float) and isinstance(peer, float) else None
    rows.append((name, kiln, peer, ratio, note))
    print(*rows[-1], flush=True)
bf = dict(dtype=torch.bfloat16, device="cuda")
SHAPES = [  # B, T, HQ, H, D, S, BS
    (1, 8192, 64, 4, 128, 16, 64), (1, 32768, 64, 4, 128, 16, 64), (4, 4096, 64, 4, 128, 16, 64), (1, 16384, 32, 2, 64, 16, 64),
    (2, 1024, 128, 8, 64, 8, 32), (2, 2048, 256, 16, 64, 16, 64), (1, 4096, 128, 8, 128, 32, 128), (1, 8192, 64, 1, 128, 16, 64)]
for B, T, HQ, H, D, S, BS in SHAPES:
    if time.time() - begun > 330: print("no time left"); break
    name = f"B{B} T{T} {HQ}/{H} D{D} S{S} BS{BS}"
    q, do = torch.randn(B * T, HQ, D, **bf), torch.randn(B * T, HQ, D, **bf)
    k, v = torch.randn(B * T, H, D, **bf), torch.randn(B * T, H, D, **bf)
    gc, gs = torch.rand(B * T, HQ, **bf), torch.rand(B * T, HQ, **bf)
    same = dict(sequences=B, block_size=BS)
    oc, idx = ops.nsa_choose(q, k, v, S, **same)
    o, lse = ops.nsa_selected(q, k, v, idx, return_lse=True, **same)
    dq, dk, dv = ops.nsa_selected_backward(q, k, v, o, lse, do, idx, **same)
    live = int((idx >= 0).sum())
    flops = live * BS * (HQ // H) * 4 * D
    f4 = lambda x: x.view(B, T, x.shape[1], *x.shape[2:])
    Q, K, V, DO, IDX = f4(q), f4(k), f4(v), f4(do), f4(idx).long()
    note = ""
    p = dict(choose=None, selected=None, backward=None, whole=None)
    if fla:
        try:
            with torch.no_grad():
                ref = parallel_nsa(Q, K, V, block_indices=IDX, block_counts=S, block_size=BS)
                kc, vc = mean_pooling(K, BS), mean_pooling(V, BS)
                refc, lsec = parallel_nsa_compression(q=Q, k=kc, v=vc, TK=T, block_size=BS, scale=D ** -0.5)
            note = "off by %.1e %.1e" % (near(o, ref), near(oc, refc))
            def choose():
                kc, vc = mean_pooling(K, BS), mean_pooling(V, BS)
                _, l = parallel_nsa_compression(q=Q, k=kc, v=vc, TK=T, block_size=BS, scale=D ** -0.5)
                return parallel_nsa_topk(q=Q, k=kc, lse=l, TK=T, block_counts=S, block_size=BS, scale=D ** -0.5)
            with torch.no_grad():
                theirs = choose().sort(-1)[0]
                note += " lists differ %.4f" % float((theirs[..., -S:] != IDX.sort(-1)[0]).any(-1).float().mean())
                p["choose"] = safe(choose)
                p["selected"] = safe(lambda: parallel_nsa(Q, K, V, block_indices=IDX, block_counts=S, block_size=BS))
                p["whole"] = safe(lambda: parallel_nsa(Q, K, V, f4(gc), f4(gs), block_counts=S, block_size=BS))
            Qg, Kg, Vg = (x.detach().clone().requires_grad_() for x in (Q, K, V))
            out = parallel_nsa(Qg, Kg, Vg, block_indices=IDX, block_counts=S, block_size=BS)
            grads = torch.autograd.grad(out, (Qg, Kg, Vg), DO, retain_graph=True)
            note += " gradients %.1e %.1e %.1e" % tuple(near(a, b) for a, b in zip((dq, dk, dv), grads))
            p["backward"] = safe(lambda: torch.autograd.grad(out, (Qg, Kg, Vg), DO, retain_graph=True), 10)
            del out, grads
        except Exception as e: note += " fla: " + repr(e)[:160]
    x = safe(lambda: ops.nsa_choose(q, k, v, S, out=oc, block_indices=idx, **same)); row("choose " + name, x, p["choose"])
    lc = ops.nsa_choose(q, k, v, S, return_lse=True, **same)[2]
    x = safe(lambda: ops.nsa_compressed_backward(q, k, v, oc, lc, do, dq, dk, dv, **same), 10); row("compressed backward " + name, x, None)
    x = safe(lambda: ops.nsa_selected(q, k, v, idx, out=o, lse=lse, **same))
    row("selected " + name, x, p["selected"], (f"{flops / x / 1e9:.0f} TFLOPS of live blocks; " if isinstance(x, float) else "") + note)
    for fused in (False, True):
        x = safe(lambda: ops.nsa_selected_backward(q, k, v, o, lse, do, idx, dq, dk, dv, fused=fused, **same), 10)
        row("backward " + ("fused " if fused else "") + name, x, p["backward"], f"{flops * 2.5 / x / 1e9:.0f} TFLOPS" if isinstance(x, float) else "")
    x = safe(lambda: ops.nsa_forward(q, k, v, gs, o, g_compressed=gc, blocks=S, **same)); row("whole, no window " + name, x, p["whole"])
    x = safe(lambda: ops.nsa_forward(q, k, v, gs, o, g_compressed=gc, g_window=gs, blocks=S, **same)); row("whole " + name, x, None)
    del q, do, k, v, gc, gs, oc, idx, o, lse, dq, dk, dv, Q, K, V, DO, IDX
    torch.cuda.empty_cache()
for B, M, HQ, H, D, S in ((64, 32768, 64, 4, 128, 16), (1, 65536, 64, 4, 128, 16), (256, 8192, 64, 4, 128, 16)):
    q, k, v = torch.randn(B, HQ, D, **bf), torch.randn(B, M, H, D, **bf), torch.randn(B, M, H, D, **bf)
    idx = torch.stack([torch.randperm(M // 64, device="cuda")[:S] for _ in range(B * H)]).view(B, H, S).int()
    x = safe(lambda: ops.nsa_decode(q, k, v, idx))
    row(f"decode B{B} M{M} {HQ}/{H} D{D} S{S}", x, None, f"{B * H * S * 64 * D * 4 / x / 1e9:.2f} TB/s" if isinstance(x, float) else "")
    kp, vp, n = (torch.randn(B, M // 64, H, D, **bf) for _ in "kv"), None, torch.full((B,), M - 1, dtype=torch.int32, device="cuda")
    kp, vp = kp
    x = safe(lambda: ops.nsa_decode_choose(q, kp, vp, n, S))
    row(f"decode choose B{B} M{M} {HQ}/{H} D{D} S{S}", x, None, f"{B * H * (M // 64) * D * 4 / x / 1e9:.2f} TB/s" if isinstance(x, float) else "")
    del q, k, v, kp, vp
    torch.cuda.empty_cache()
print()
f = lambda x: f"{x:10.4f}" if isinstance(x, float) else f"{str(x)[:60]:>10}"
print(f"{'':52} {'kiln ms':>10} {'fla ms':>10} {'ratio':>7}")
for name, a, b, r, note in rows: print(f"{name:52} {f(a)} {f(b)} {r and f'{r:7.2f}' or '      -'}  {note}")
END_PY
timeout 480 python3 /tmp/nsa_bench.py 2>&1 | tail -n 120
