#!/bin/sh
# SPDX-License-Identifier: MIT
# Mixtures of experts, grouped products, sampling on a GPU: correctness of the kernels, then times beside PyTorch
# (torch._grouped_mm, torch.topk, multinomial). Runs in the root of the repository. triton_moe.py: layers beside triton_kernels.
. bench/families/common.sh
check_kernels kernels/moe kernels/topk/sample.tile kernels/topk/rows.tile kernels/gemm/block_sparse.tile
check_operators moe sampling block_sparse
cat >/tmp/moe_bench.py <<'PY'
import sys, torch, math
import kiln
from kiln import ops
torch.manual_seed(1)
dev = "cuda:0"

def time_ms(f, n=20):
    for _ in range(3): f()
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(g):
            for _ in range(n): f()
        run = g.replay
    except Exception:
        torch.cuda.synchronize()
        run = lambda: [f() for _ in range(n)]
    run(); torch.cuda.synchronize()
    best = 1e9
    for _ in range(5):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record(); run(); b.record(); torch.cuda.synchronize()
        best = min(best, a.elapsed_time(b) / n)
    return best

rows = []
def say(*x):
    rows.append(" | ".join(str(v) for v in x)); print(rows[-1], flush=True)

def guarded(what, f):
    try: return f()
    except Exception as e:
        print("#", what, type(e).__name__, str(e)[:160].replace("\n", " ")); return None

# ---- grouped products: E experts, tokens M, K of each
say("grouped gemm", "E", "rows", "K", "N", "kiln ms", "TFLOPS", "torch._grouped_mm ms", "ratio", "dense kiln_gemm TFLOPS")
for E, M, k, D, N in ((256, 4096, 8, 7168, 4096), (256, 1024, 8, 7168, 4096), (256, 128, 8, 7168, 4096), (32, 4096, 4, 2880, 5760),
                      (128, 4096, 8, 2048, 1536), (8, 4096, 2, 4096, 28672), (8, 64, 2, 4096, 28672)):
    R = M * k
    ids = torch.rand(M, E, device=dev).topk(k, 1).indices.flatten()
    ends = torch.bincount(ids, minlength=E).cumsum(0).to(torch.int32)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int32, device=dev), ends]).contiguous()
    a = torch.randn(R, D, device=dev, dtype=torch.bfloat16)
    b = torch.randn(E, N, D, device=dev, dtype=torch.bfloat16) / math.sqrt(D)
    c = torch.empty(R, N, device=dev, dtype=torch.bfloat16)
    mine = guarded("kiln", lambda: time_ms(lambda: ops.grouped_gemm(a, b, c, offsets=offsets, transpose_b=True)))
    other = guarded("grouped_mm", lambda: time_ms(lambda: torch._grouped_mm(a, b.transpose(1, 2), offs=ends)))
    if mine and other:
        ref = torch._grouped_mm(a, b.transpose(1, 2), offs=ends)
        err = ((c.float() - ref.float()).norm() / ref.float().norm()).item()
        if err > 1e-2: print("# WRONG", err)
    flops = 2 * R * N * D
    dense = guarded("dense", lambda: time_ms(lambda: ops.gemm(a[: min(R, 8192)], b[0], transpose_b=True)))
    say("", E, R, D, N, "%.3f" % mine if mine else "-", "%.0f" % (flops / mine / 1e9) if mine else "-", "%.3f" % other if other else "-",
        "%.2f" % (other / mine) if mine and other else "-", "%.0f" % (2 * min(R, 8192) * N * D / dense / 1e9) if dense else "-")
    dc = torch.randn(R, N, device=dev, dtype=torch.bfloat16)
    if E * N * D <= 1 << 30:
        db = torch.empty(E, N, D, device=dev, dtype=torch.bfloat16)
        w = guarded("weights", lambda: time_ms(lambda: ops.grouped_gemm_weights(a, dc, offsets, db, transpose_b=True), 5))
        wo = guarded("grouped_mm weights", lambda: time_ms(lambda: torch._grouped_mm(dc.t(), a, offs=ends), 5))
        say(" weights", E, R, D, N, "%.3f" % w if w else "-", "%.0f" % (flops / w / 1e9) if w else "-", "%.3f" % wo if wo else "-",
            "%.2f" % (wo / w) if w and wo else "-", "")
    del a, b, c, dc

# ---- a layer: gpt-oss-20b, -120b, DeepSeek-V3, Qwen3-30B; the parts, too
def torch_layer(x, w1, w2, logits, k):
    s, ids = torch.softmax(logits.float(), 1).topk(k, 1)
    s = s / s.sum(1, keepdim=True)
    flat = ids.flatten(); order = flat.argsort(stable=True)
    ends = torch.bincount(flat, minlength=w1.shape[0]).cumsum(0).to(torch.int32)
    h = torch._grouped_mm(x[order // k], w1.transpose(1, 2), offs=ends)
    g, u = h.chunk(2, 1)
    y = torch._grouped_mm(torch.nn.functional.silu(g) * u, w2.transpose(1, 2), offs=ends)
    out = torch.zeros(x.shape, device=x.device, dtype=torch.float32)
    return out.index_add_(0, order // k, y.float() * s.flatten()[order, None])

say("layer", "tokens", "kiln ms", "TFLOPS", "GB/s of weights used", "torch ms", "ratio")
for name, E, k, D, F in (("gpt-oss-20b", 32, 4, 2880, 2880), ("gpt-oss-120b", 128, 4, 2880, 2880), ("deepseek-v3", 256, 8, 7168, 2048), ("qwen3-30b", 128, 8, 2048, 768)):
    w1 = torch.randn(E, 2 * F, D, device=dev, dtype=torch.bfloat16) / math.sqrt(D)
    w2 = torch.randn(E, D, F, device=dev, dtype=torch.bfloat16) / math.sqrt(F)
    for M in (1, 8, 64, 256, 1024, 4096):
        x, logits = torch.randn(M, D, device=dev, dtype=torch.bfloat16), torch.randn(M, E, device=dev)
        out = torch.empty_like(x)
        used = min(E, int(E * (1 - (1 - k / E) ** M)) or k)
        mine = guarded("kiln", lambda: time_ms(lambda: ops.moe(x, w1, w2, logits, out, top_k=k, renormalise=True)))
        other = guarded("torch", lambda: time_ms(lambda: torch_layer(x, w1, w2, logits, k), 5))
        if mine and other:
            ref = torch_layer(x, w1, w2, logits, k)
            err = ((out.float() - ref).norm() / ref.norm()).item()
            if err > 2e-2: print("# WRONG", err)
        say(" " + name, M, "%.3f" % mine if mine else "-", "%.0f" % (6 * M * k * D * F / mine / 1e9) if mine else "-",
            "%.0f" % (used * 3 * D * F * 2 / mine / 1e6) if mine else "-", "%.3f" % other if other else "-",
            "%.2f" % (other / mine) if mine and other else "-")
    del w1, w2

# ---- parts and tokens
say("part", "tokens", "kiln us", "torch us")
for M in (1, 64, 1024, 4096):
    logits = torch.randn(M, 256, device=dev)
    ids, w = ops.moe_route(logits, 8, sigmoid=True, renormalise=True, groups=8, top_groups=4)
    t1 = guarded("route", lambda: time_ms(lambda: ops.moe_route(logits, 8, ids, w, sigmoid=True, renormalise=True, groups=8, top_groups=4)))
    made = ops.moe_permute(ids, 256)
    t2 = guarded("sort", lambda: time_ms(lambda: ops.moe_permute(ids, 256, None, *made)))
    o = guarded("torch sort", lambda: time_ms(lambda: ids.flatten().argsort(stable=True)))
    say(" route", M, "%.1f" % (t1 * 1e3) if t1 else "-", ""), say(" sort", M, "%.1f" % (t2 * 1e3) if t2 else "-", "%.1f" % (o * 1e3) if o else "-")
for B, V in ((1, 128256), (64, 128256), (256, 151936)):
    logits = torch.randn(B, V, device=dev) * 3
    seeds = torch.arange(B, device=dev)
    tok = torch.empty(B, device=dev, dtype=torch.int32)
    f = lambda v, t: torch.full((B,), v, device=dev, dtype=t)
    for what, args in (("greedy", {}), ("plain", {"seeds": seeds}), ("top-k 50", {"seeds": seeds, "top_k": f(50, torch.int32)}),
                       ("top-p 0.9", {"seeds": seeds, "top_p": f(0.9, torch.float32)}),
                       ("both, min-p", {"seeds": seeds, "top_k": f(50, torch.int32), "top_p": f(0.9, torch.float32), "min_p": f(0.05, torch.float32)})):
        t = guarded(what, lambda: time_ms(lambda: ops.sample(logits, tok, **args)))
        def other():
            p = torch.softmax(logits, 1)
            if what == "greedy": return logits.argmax(1)
            if "top-p" in what:
                s, i = p.sort(1, descending=True); s[s.cumsum(1) - s > 0.9] = 0
                return i.gather(1, torch.multinomial(s, 1))
            if "top-k" in what or "both" in what:
                s, i = p.topk(50, 1); return i.gather(1, torch.multinomial(s, 1))
            return torch.multinomial(p, 1)
        o = guarded("torch", lambda: time_ms(other, 3))
        say(" sample " + what, "%d x %d" % (B, V), "%.1f" % (t * 1e3) if t else "-", "%.1f" % (o * 1e3) if o else "-")
    v, i = ops.topk(logits, 50)
    t = guarded("topk", lambda: time_ms(lambda: ops.topk(logits, 50, v, i)))
    o = guarded("torch.topk", lambda: time_ms(lambda: logits.topk(50, 1)))
    say(" topk 50", "%d x %d" % (B, V), "%.1f" % (t * 1e3) if t else "-", "%.1f" % (o * 1e3) if o else "-")
print("\n==== summary"); print("\n".join(rows))
PY
timeout 1500 $python /tmp/moe_bench.py 2>&1 | tail -150
