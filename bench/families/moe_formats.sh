#!/bin/sh
# SPDX-License-Identifier: MIT
# Experts in MXFP4 (gpt-oss) and in e4m3 by blocks (DeepSeek V3), products with a 2:4 sparse operand, on a GPU: checks, then times
# beside triton_kernels (the package of Triton's repository), PyTorch and Kiln's own layer of 16 bits. Runs in the root of the repository.
#
#     sh bench/families/moe_formats.sh [checks] [mxfp4] [fp8] [sparse]      without arguments: all, some 12 minutes
#
# PyPI's triton-kernels is another package; tokenspeed-triton-kernels has this one. PEERS=folder, where it is not in .gpu/peers.
# A table last, of each part. DEVICE=cpu DIVIDE=30 BUILD=build: small, on a machine without a GPU.
. bench/families/common.sh
parts=${*:-checks mxfp4 fp8 sparse}
export PYTHONPATH="${PEERS:+$PEERS:}$PWD/bench/families:$PYTHONPATH"
case " $parts " in *" checks "*)
    check_kernels kernels/moe/mxfp4.tile kernels/moe/moe_fp8.tile kernels/gemm/sparse_any.tile kernels/quant/pack.tile
    check_operators moe gemm_sparse quant
    timeout 100 "$build/examples/example_transformer_block" "$device" ;;
esac
cat >/tmp/moe_formats_bench.py <<'PY'
import sys, math, time, torch
import triton_moe
from kiln import ops
torch.manual_seed(1)
part, dev, divide, BF = sys.argv[1], sys.argv[2], int(sys.argv[3]), torch.bfloat16
gpu = dev != "cpu"
card = torch.cuda.get_device_name() if gpu else "cpu"
BANDWIDTH = 4.8e12 if "H200" in card else 3.35e12
TOKENS = (1, 4, 16, 64, 256, 1024, 4096) if gpu else (1, 40)
print("#", card, "torch", torch.__version__, flush=True)

def size_of(x, unit=32): return max(x // divide // unit * unit, unit)

def time_ms(f, n=16):
    """of a graph of n calls, each told its number; the least of several; without a graph where something cannot be captured"""
    if not gpu:
        start = time.perf_counter(); f(0)
        return (time.perf_counter() - start) * 1e3
    for i in range(n): f(i)
    torch.cuda.synchronize()
    try:
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            for i in range(n): f(i)
        run = g.replay
    except Exception as e:
        torch.cuda.synchronize(); print("# no graph:", str(e)[:80].replace("\n", " "))
        run = lambda: [f(i) for i in range(n)]
    run(); torch.cuda.synchronize()
    best = 1e9
    for _ in range(5):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record(); run(); b.record(); torch.cuda.synchronize()
        best = min(best, a.elapsed_time(b) / n)
    return best

said = set()
def guarded(what, f):
    try: return f()
    except Exception as e:
        line = "# %s %s %s" % (what, type(e).__name__, str(e)[:220].replace("\n", " "))
        if line not in said: print(line, flush=True)
        said.add(line); return None

rows = []
def say(*x):
    rows.append(" | ".join(str(v) for v in x)); print(rows[-1], flush=True)
def ms(x): return "%.4f" % x if x else "-"
def per(x, y): return "%.2f" % (x / y) if x and y else "-"
def error(got, ref): return ((got.float() - ref.float()).norm() / ref.float().norm()).item()

SETS = 8                      # of logits, so that no expert stays in L2 by chance
def draws(M, E): return [torch.randn(M, E, device=dev, dtype=BF) for _ in range(SETS)]
def experts_used(logits, k): return sum(l.float().topk(k, 1).indices.unique().numel() for l in logits) / len(logits)

E2M1 = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6], device=dev)
def mxfp4(e, n, k, low, high):
    return (torch.randint(0, 256, (e, n, k // 2), device=dev, dtype=torch.uint8), torch.randint(low, high, (e, n, k // 32), device=dev, dtype=torch.uint8))
def padded(x, unit): return torch.nn.functional.pad(x, (0, -x.shape[-1] % unit)).contiguous()
def dense(codes, scales):
    out = torch.empty(*codes.shape[:2], codes.shape[2] * 2, device=dev, dtype=BF)
    for e in range(codes.shape[0]):
        c = codes[e].long()
        w = torch.stack([E2M1[c & 15], E2M1[c >> 4]], -1).flatten(-2)
        out[e] = (w * torch.exp2(scales[e].float() - 127).repeat_interleave(32, -1)).to(BF)
    return out

def load_peer():
    print("# triton", triton_moe.prepare())
    import triton_kernels
    return triton_kernels

def gpt_oss():
    peer = guarded("triton_kernels", load_peer)
    say("MXFP4 layer", "tokens", "kiln ms", "TFLOPS", "share of bandwidth of packed weights used", "kiln bf16 ms", "bf16/mxfp4",
        "triton_kernels ms", "triton/kiln", "error to bf16", "triton's")
    D = F = size_of(2880)
    for name, E, k in (("gpt-oss-20b", size_of(32, 4), 4), ("gpt-oss-120b", size_of(128, 4), 4)):
        q1, s1 = mxfp4(E, 2 * F, D, 118, 121); q2, s2 = mxfp4(E, D, F, 118, 121)
        b1, b2 = torch.randn(E, 2 * F, device=dev, dtype=BF), torch.randn(E, D, device=dev, dtype=BF)
        w1, w2 = dense(q1, s1), dense(q2, s2)
        own = dict(gate_up_scales=padded(s1, 4), down_scales=padded(s2, 4), format="mxfp4")
        p1, p2 = padded(q1, 64), padded(q2, 64)
        rest = dict(gate_up_bias=b1, down_bias=b2, top_k=k, renormalise=True, activation="swiglu_clamped", interleaved=True)
        theirs = {}
        for M in TOKENS:
            logits, x = draws(M, E), torch.randn(M, D, device=dev, dtype=BF)
            out, ref = torch.empty_like(x), torch.empty_like(x)
            mine = guarded("kiln", lambda: time_ms(lambda i: ops.moe(x, p1, p2, logits[i % SETS], out, **own, **rest)))
            bf16 = guarded("kiln bf16", lambda: time_ms(lambda i: ops.moe(x, w1, w2, logits[i % SETS], ref, **rest)))
            other = got = None
            if peer:
                warps = triton_moe.warps_for(M)                            # a layout of scales for each
                if warps not in theirs:
                    a, b = guarded("triton weights", lambda: [triton_moe.mxfp4_weights(*w, warps) for w in ((q1, s1), (q2, s2))]) or (None, None)
                    theirs[warps] = a and guarded("triton_kernels", lambda: triton_moe.layer(a, b1.float(), b, b2.float(), k))
                f = theirs[warps]
                if f:
                    other = guarded("triton_kernels", lambda: time_ms(lambda i: f(x, logits[i % SETS])))
                    got = guarded("triton_kernels", lambda: f(x, logits[0]))
            if mine and bf16:
                ops.moe(x, p1, p2, logits[0], out, **own, **rest); ops.moe(x, w1, w2, logits[0], ref, **rest)
                if not error(out, ref) < 1e-2: print("# WRONG", name, M, error(out, ref))
            size = experts_used(logits, k) * 3 * D * F * (0.5 + 1 / 32)
            say(" " + name, M, ms(mine), "%.0f" % (6 * M * k * D * F / mine / 1e9) if mine else "-", "%.2f" % (size / (mine * 1e-3) / BANDWIDTH) if mine else "-",
                ms(bf16), per(bf16, mine), ms(other), per(other, mine), "%.1e" % error(out, ref) if mine and bf16 else "-",
                "%.1e" % error(got, ref) if got is not None else "-")
        # The products alone: gate and up, in the order of the experts.
        for M in TOKENS[::2]:
            ids = torch.rand(M, E, device=dev).topk(k, 1).indices.flatten()
            ends = torch.bincount(ids, minlength=E).cumsum(0).to(torch.int32)
            offsets = torch.cat([torch.zeros(1, dtype=torch.int32, device=dev), ends]).contiguous()
            a = torch.randn(M * k, D, device=dev, dtype=BF); c = torch.empty(M * k, 2 * F, device=dev, dtype=BF)
            t = guarded("grouped_mxfp4", lambda: time_ms(lambda i: ops.grouped_mxfp4(a, p1, own["gate_up_scales"], offsets, c)))
            o = guarded("grouped_mm", lambda: time_ms(lambda i: torch._grouped_mm(a, w1.transpose(1, 2), offs=ends)))
            r = guarded("grouped_mm", lambda: torch._grouped_mm(a, w1.transpose(1, 2), offs=ends))
            say(" grouped_mxfp4 of " + name, M * k, ms(t), "%.0f" % (4 * M * k * D * F / t / 1e9) if t else "-", "torch._grouped_mm bf16", ms(o), per(o, t),
                "error", "%.1e" % error(c, r) if t and r is not None else "-")
        del q1, q2, s1, s2, w1, w2, p1, p2, own, theirs
        if gpu: torch.cuda.empty_cache()

def deepseek():
    say("fp8 layer", "tokens", "kiln ms", "TFLOPS", "share of bandwidth of weights used", "kiln bf16 ms", "bf16/fp8", "torch by _scaled_grouped_mm (scales of rows) ms", "torch/kiln", "error to bf16")
    for name, E, k, D, F, S in (("deepseek-v3", 256, 8, 7168, 2048, 2048), ("qwen3-30b", 128, 8, 2048, 768, 0)):
        E, D, F, S = size_of(E, 16), size_of(D, 128), size_of(F, 128), size_of(S, 128) if S else 0
        def fp8(e, n, kk): return (torch.randn(e, n, kk, device=dev, dtype=BF) * 50).to(torch.float8_e4m3fn), (torch.rand(e, (n + 127) // 128, kk // 128, device=dev) + 0.5) / 50 / math.sqrt(kk)
        def whole(q, s):
            out = torch.empty(q.shape, device=dev, dtype=BF)
            for e in range(q.shape[0]):
                out[e] = (q[e].float() * s[e].repeat_interleave(128, 0)[: q.shape[1]].repeat_interleave(128, 1)).to(BF)
            return out
        q1, s1 = fp8(E, 2 * F, D); q2, s2 = fp8(E, D, F)
        w1, w2 = whole(q1, s1), whole(q2, s2)
        own, dense_shared = {}, {}
        if S:
            (a, sa), (b, sb) = fp8(1, 2 * S, D), fp8(1, D, S)
            own = dict(shared_gate_up=a[0], shared_gate_up_scales=sa[0], shared_down=b[0], shared_down_scales=sb[0])
            dense_shared = dict(shared_gate_up=whole(a, sa)[0], shared_down=whole(b, sb)[0])
        rest = dict(top_k=k, sigmoid=bool(S), renormalise=True, scale=2.5 if S else 1.0, **(dict(groups=8, top_groups=4) if S else {}))
        r1, r2 = torch.rand(E, 2 * F, device=dev) / 50 / math.sqrt(D), torch.rand(E, D, device=dev) / 50 / math.sqrt(F)
        def rows_fp8(x):
            top = x.abs().amax(1, keepdim=True).float().clamp_min(1e-4) / 448
            return (x / top).to(torch.float8_e4m3fn), top[:, 0].contiguous()
        def torch_layer(x, logits):
            s, ids = torch.softmax(logits.float(), 1).topk(k, 1)
            s = s / s.sum(1, keepdim=True)
            flat = ids.flatten(); order = flat.argsort(stable=True)
            ends = (flat[order][None, :] <= torch.arange(E, device=dev)[:, None]).sum(1).to(torch.int32)
            h = torch._scaled_grouped_mm(*(lambda q, t: (q, q1.transpose(1, 2), t))(*rows_fp8(x[order // k])), r1, offs=ends, out_dtype=BF)
            g, u = h.chunk(2, 1)
            q, t = rows_fp8(torch.nn.functional.silu(g) * u)
            y = torch._scaled_grouped_mm(q, q2.transpose(1, 2), t, r2, offs=ends, out_dtype=BF)
            return torch.zeros(x.shape, device=dev, dtype=torch.float32).index_add_(0, order // k, y.float() * s.flatten()[order, None])
        for M in TOKENS:
            logits, x = draws(M, E), torch.randn(M, D, device=dev, dtype=BF)
            out, ref = torch.empty_like(x), torch.empty_like(x)
            fp = dict(format="fp8", gate_up_scales=s1, down_scales=s2, **own)
            mine = guarded("kiln fp8", lambda: time_ms(lambda i: ops.moe(x, q1, q2, logits[i % SETS], out, **fp, **rest)))
            bf16 = guarded("kiln bf16", lambda: time_ms(lambda i: ops.moe(x, w1, w2, logits[i % SETS], ref, **dense_shared, **rest)))
            other = guarded("torch", lambda: time_ms(lambda i: torch_layer(x, logits[i % SETS]), 4)) if M > 4 else None
            if mine and bf16:
                ops.moe(x, q1, q2, logits[0], out, **fp, **rest); ops.moe(x, w1, w2, logits[0], ref, **dense_shared, **rest)
                if not error(out, ref) < 8e-2: print("# WRONG", name, M, error(out, ref))
            size = (experts_used(logits, k) * F + S) * 3 * D
            say(" " + name, M, ms(mine), "%.0f" % (6 * M * (k * F + S) * D / mine / 1e9) if mine else "-", "%.2f" % (size / (mine * 1e-3) / BANDWIDTH) if mine else "-",
                ms(bf16), per(bf16, mine), ms(other), per(other, mine), "%.1e" % error(out, ref) if mine and bf16 else "-")
        del q1, q2, w1, w2
        if gpu: torch.cuda.empty_cache()

def sparse():
    say("2:4", "M", "N", "K", "kiln sparse ms", "TFLOPS as dense", "kiln dense ms", "dense/sparse", "cuBLAS dense ms", "cuBLAS/sparse", "cuSPARSELt ms", "cuSPARSELt/sparse", "error")
    for T, type_ in ((BF, "bf16"), (torch.float8_e4m3fn, "fp8"), (torch.int8, "i8")):
        for n, k in ((4096, 4096), (28672, 4096), (4096, 14336)):
            if T != BF and n != 4096: continue
            n, k = size_of(n), size_of(k)
            w = torch.randn(n, k // 4, 4, device=dev)
            w.scatter_(2, w.abs().topk(2, 2, largest=False).indices, 0)
            w = w.view(n, k)
            w = (w * 30).round().clamp(-127, 127).to(T) if T == torch.int8 else (w / math.sqrt(k) * (1 if T == BF else 16)).to(T)
            kept, places, excess = ops.sparse24_pack(w)
            if int(excess.abs().sum()): print("# WRONG: excess")
            lt = None
            if T == BF:
                def make():
                    torch.sparse.SparseSemiStructuredTensor._FORCE_CUTLASS = False
                    return torch.sparse.to_sparse_semi_structured(w)
                lt = guarded("cuSPARSELt", make)
            else:
                lt = guarded("cuSPARSELt", lambda: torch._cslt_compress(w))
            for m in TOKENS:
                x = torch.randn(m, k, device=dev)
                x = (x * 30).round().clamp(-127, 127).to(T) if T == torch.int8 else x.to(T)
                to = torch.int32 if T == torch.int8 else BF
                c, d = torch.empty(m, n, device=dev, dtype=to), torch.empty(m, n, device=dev, dtype=to)
                mine = guarded("kiln sparse", lambda: time_ms(lambda i: ops.gemm(x, kept, c, b_places=places, transpose_b=True)))
                whole = guarded("kiln dense", lambda: time_ms(lambda i: ops.gemm(x, w, d, transpose_b=True)))
                one = torch.ones((), device=dev)
                if T == BF: blas = guarded("cuBLAS", lambda: time_ms(lambda i: torch.mm(x, w.t())))
                elif T == torch.int8: blas = guarded("cuBLAS", lambda: time_ms(lambda i: torch._int_mm(x, w.t()))) if m > 16 else None
                else: blas = guarded("cuBLAS", lambda: time_ms(lambda i: torch._scaled_mm(x, w.t(), scale_a=one, scale_b=one, out_dtype=BF)))
                other = None
                if lt is not None and m >= 16:
                    if T == BF: other = guarded("cuSPARSELt", lambda: time_ms(lambda i: torch.nn.functional.linear(x, lt)))
                    elif T == torch.int8: other = guarded("cuSPARSELt", lambda: time_ms(lambda i: torch._cslt_sparse_mm(lt, x.t(), out_dtype=torch.int32)))
                    else: other = guarded("cuSPARSELt", lambda: time_ms(lambda i: torch._cslt_sparse_mm(lt, x.t(), out_dtype=BF)))
                wrong = error(c, d) if mine and whole else None
                if wrong is not None and not wrong < 1e-2: print("# WRONG", type_, m, n, k, wrong)
                say(" " + type_, m, n, k, ms(mine), "%.0f" % (2 * m * n * k / mine / 1e9) if mine else "-", ms(whole), per(whole, mine), ms(blas), per(blas, mine),
                    ms(other), per(other, mine), "%.1e" % wrong if wrong is not None else "-")

{"mxfp4": gpt_oss, "fp8": deepseek, "sparse": sparse}[part]()
print("\n".join(["", "---- " + part] + rows))
PY
for part in mxfp4 fp8 sparse; do
    case " $parts " in *" $part "*) timeout 560 "$python" /tmp/moe_formats_bench.py $part "$device" "$divide" 2>&1 | grep -v Warning ;; esac
done
