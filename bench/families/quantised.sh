#!/bin/sh
# SPDX-License-Identifier: MIT
# Quantised products on a GPU: checks, then times beside cuBLAS bf16 (torch.mm) and gemlite (PyPI, Triton) where it is there.
# Runs in the root of the repository; about 8 minutes with the build. Last: a table. The ratio is of the peer's time to Kiln's.
. bench/families/common.sh
check_kernels kernels/quant tests/language/run/packed_products.tile tests/language/run/packed.tile kernels/mla/decode_fp8.tile
check_operators quant
cat >/tmp/quant_bench.py <<'PY'
import os, sys, torch
import kiln
from kiln import ops
torch.manual_seed(1)
dev = "cuda:0"
BANDWIDTH = 4.8e12 if "H200" in torch.cuda.get_device_name() else 3.35e12

def time_ms(f, n=20):
    """of a graph of n calls; weights that fit into L2 are alternated by the caller"""
    for i in range(4): f(i)
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for i in range(n): f(i)
    g.replay(); torch.cuda.synchronize()
    best = 1e9
    for _ in range(7):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record(); g.replay(); b.record(); torch.cuda.synchronize()
        best = min(best, a.elapsed_time(b) / n)
    return best

def guarded(what, f):
    try: return f()
    except Exception as e:
        print("#", what, type(e).__name__, str(e)[:200].replace("\n", " ")); torch.cuda.synchronize(); return None

rows = []
def say(*x):
    rows.append(" | ".join(str(v) for v in x)); print(rows[-1], flush=True)
def ms(x): return "%.4f" % x if x else "-"
def ratio(x, y): return "%.2f" % (x / y) if x and y else "-"

try:
    from gemlite.core import GemLiteLinearTriton, DType
except Exception as e:
    GemLiteLinearTriton = None; print("# no gemlite:", str(e)[:120])

def gemlite_of(q, scales, zeros, n, k, group):
    layer = GemLiteLinearTriton(4, group_size=group, in_features=k, out_features=n, input_dtype=DType.FP16, output_dtype=DType.FP16)
    layer.pack(q, scales.half(), zeros.half(), bias=None)
    return layer

COPIES = 8          # more than L2 holds together
say("format", "M", "N", "K", "kiln ms", "TFLOPS", "share of bandwidth of packed bytes", "cuBLAS 16 bit ms", "cuBLAS/kiln", "gemlite ms", "gemlite/kiln", "error")
for fmt, layout, group, T in (("int4", "plain", 128, torch.float16), ("int4", "plain", 128, torch.bfloat16), ("mxfp4", "plain", 32, torch.bfloat16),
                              ("nf4", "plain", 64, torch.bfloat16), ("int4min", "gguf", 32, torch.bfloat16), ("int8", "plain", 128, torch.bfloat16)):
    for n, k in ((4096, 4096), (28672, 4096), (4096, 14336)):
        if fmt not in ("int4",) and n != 4096: continue
        bits = 8 if fmt == "int8" else 4
        copies = COPIES if n * k * bits / 8 < 3e7 else 2
        many = []
        for _ in range(copies):
            if layout == "gguf":
                raw = torch.randint(0, 255, (n, k // 256, 144), device=dev, dtype=torch.uint8)
                raw[:, :, 1] = 0x18; raw[:, :, 3] = 0x18
                many.append((ops.quant_pack(raw.view(n, -1), format=fmt, layout=layout, n=n, k=k, group=group, type="f16"), None, None, None))
                continue
            q = torch.randint(0, 16 if bits == 4 else 256, (n, k), device=dev, dtype=torch.uint8)
            packed = (q[:, ::2] | q[:, 1::2] << 4).contiguous() if bits == 4 else q
            if fmt == "mxfp4": s = torch.randint(115, 122, (n, k // group), device=dev, dtype=torch.uint8)
            else: s = (torch.rand(n, k // group, device=dev) * 0.01 + 0.001).to(T)
            z = torch.randint(0, 16, (n, k // group), device=dev, dtype=torch.uint8) if fmt == "int4" else None
            many.append((ops.quant_pack(packed, s, z, format=fmt, layout=layout, n=n, k=k, group=group, weight_group=group,
                                        type="f16" if T == torch.float16 else "bf16"), q, s, z))
        dense = [torch.randn(n, k, device=dev, dtype=T) * 0.02 for _ in range(2 if n * k > 3e7 else 4)]
        lite = None
        if GemLiteLinearTriton and fmt == "int4" and T == torch.float16:
            lite = guarded("gemlite pack", lambda: [gemlite_of(q, s, z, n, k, group) for _, q, s, z in many])
        for m in (1, 2, 4, 8, 16, 64, 256, 1024, 4096):
            if fmt != "int4" and m not in (1, 16, 1024, 4096): continue
            a = torch.randn(m, k, device=dev, dtype=T)
            c = torch.empty(m, n, device=dev, dtype=T)
            mine = guarded("kiln", lambda: time_ms(lambda i: ops.quantised_gemm(a, many[i % copies][0], c)))
            blas = guarded("cublas", lambda: time_ms(lambda i: torch.mm(a, dense[i % len(dense)].t())))
            other = guarded("gemlite", lambda: time_ms(lambda i: lite[i % copies](a))) if lite and m in (1, 16, 1024, 4096) else None
            error = "-"
            if fmt == "int4" and mine:
                w, q, s, z = many[0]
                ops.quantised_gemm(a, w, c)
                exact = (q.float() - z.float().repeat_interleave(group, 1)) * s.float().repeat_interleave(group, 1)
                ref = a.float() @ exact.t()
                error = "%.1e" % ((c.float() - ref).norm() / ref.norm()).item()
                if (c.float() - ref).norm() > 1e-2 * ref.norm(): print("# WRONG", fmt, m, n, k)
            size = n * k * bits / 8 + n * (k / group) * (1 if fmt == "mxfp4" else 3 if fmt == "int4" else 4 if fmt == "int4min" else 2)
            say(fmt + " " + str(T)[6:], m, n, k, ms(mine), "%.0f" % (2 * m * n * k / mine / 1e9) if mine else "-",
                "%.2f" % (size / (mine * 1e-3) / BANDWIDTH) if mine else "-", ms(blas), ratio(blas, mine), ms(other), ratio(other, mine), error)
        del many, dense, lite

say("fp8 by blocks", "M", "N", "K", "kiln ms", "TFLOPS", "torch._scaled_mm (scales of tensors) ms", "TFLOPS")
for m, n, k in ((4096, 7168, 16384), (4096, 24576, 1536), (128, 7168, 16384), (64, 2112, 7168)):
    a = torch.randn(m, k, device=dev).to(torch.float8_e4m3fn); b = torch.randn(n, k, device=dev).to(torch.float8_e4m3fn)
    sa = torch.rand(m, k // 128, device=dev) + 0.5; sb = torch.rand((n + 127) // 128, k // 128, device=dev) + 0.5
    w = ops.QuantisedWeights("fp8_block", 128, b, sb)
    c = torch.empty(m, n, device=dev, dtype=torch.bfloat16)
    mine = guarded("kiln fp8", lambda: time_ms(lambda i: ops.quantised_gemm(a, w, c, a_scales=sa), 10))
    one = torch.ones((), device=dev)
    blas = guarded("scaled_mm", lambda: time_ms(lambda i: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16), 10))
    say("", m, n, k, ms(mine), "%.0f" % (2 * m * n * k / mine / 1e9) if mine else "-", ms(blas), "%.0f" % (2 * m * n * k / blas / 1e9) if blas else "-")

say("by i8", "M", "N", "K", "kiln ms", "TOPS", "torch._int_mm ms", "TOPS")
for fmt in ("w8a8", "w4a8", "w2a8"):
    for m in (1, 16, 1024, 4096):
        n, k = 8192, 8192
        bits = {"w8a8": 8, "w4a8": 4, "w2a8": 2}[fmt]
        w = ops.quant_pack(torch.randint(0, 255, (n, k * bits // 8), device=dev, dtype=torch.uint8), format=fmt, n=n, k=k)
        a = torch.randint(-127, 127, (m, k), device=dev, dtype=torch.int8)
        c = torch.empty(m, n, device=dev, dtype=torch.bfloat16)
        mine = guarded(fmt, lambda: time_ms(lambda i: ops.quantised_gemm(a, w, c), 10))
        b = torch.randint(-127, 127, (n, k), device=dev, dtype=torch.int8)
        blas = guarded("int_mm", lambda: time_ms(lambda i: torch._int_mm(a, b.t()), 10)) if m > 16 else None
        say(fmt, m, n, k, ms(mine), "%.0f" % (2 * m * n * k / mine / 1e9) if mine else "-", ms(blas), "%.0f" % (2 * m * n * k / blas / 1e9) if blas else "-")
print("\n".join(["", "----"] + rows))
PY
timeout 1200 $python /tmp/quant_bench.py 2>&1 | grep -v Warning
# tiles by hand: the cost model's choices beside each other
for bm in 64 128 256; do for m in 16 64 256 1024 4096; do
    echo "BM=$bm M=$m: $(timeout 100 "$build/kiln" run --device="$device" --no-check --seconds=1 kernels/quant/weights.tile quant_matmul BM=$bm Z=none MINIMA=none BIAS=none SPLIT=false parts=1 columns=4096 M=$m N=4096 K=4096 KB=32 2>&1 | grep -E ' time ' | head -n 1)"
done; done
