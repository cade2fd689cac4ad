# SPDX-License-Identifier: MIT
"""Operators on an H200 beside what TileLang 0.1.15 took for its own examples of the same on 2026-11-22, on such a card.

    tilelang_rows.py [--divide=N] [--device=cuda:0] [NAME]       N divides the sizes, to try the rows where there is no GPU

As TileLang's figures were taken: 512 MB are written before each run, events enclose the call alone, the median of 12. Weights
of 4 and 2 bits are random codes. A row: milliseconds of Kiln, of TileLang, and TileLang's over Kiln's. Last the geometric mean.
"""
import argparse
import math
import time

import torch

from kiln import ops

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("name", nargs="?", default="")
parser.add_argument("--divide", type=int, default=1)
parser.add_argument("--device", default="cuda:0")
options = parser.parse_args()
dev, divide = options.device, options.divide
F16, BF = torch.float16, torch.bfloat16
ROWS = []


def row(name, peer):
    def add(make):
        ROWS.append((name, peer, make))
        return make
    return add


def size(n, unit=256):
    return max(n // divide // unit * unit, min(n, unit))


def random(*shape, dtype=F16):
    return torch.randn(*shape, device=dev).to(dtype)


def codes(*shape):
    return torch.randint(0, 256, shape, device=dev, dtype=torch.uint8)


def scales(*shape, dtype=F16):
    return (0.001 + 0.01 * torch.rand(*shape, device=dev)).to(dtype)


# ---- products

def product(m, n, k, dtype, out=None):
    m, n, k = size(m), size(n), size(k)
    a, b = (0.1 * random(m, k)).to(dtype), (0.1 * random(n, k)).to(dtype)
    c = torch.empty(m, n, device=dev, dtype=out or dtype)
    return lambda: ops.gemm(a, b, c, transpose_b=True)


def quantised(m, n, k, kind, bits, dtype, group=128, zeros=False):
    n, k = size(n), size(k)
    w = codes(n, k * bits // 8)
    by = torch.randint(115, 122, (n, k // 32), device=dev, dtype=torch.uint8) if kind == "mxfp4" else scales(n, k // group, dtype=dtype)
    z = torch.randint(0, 1 << bits, (n, k // group), device=dev, dtype=torch.uint8) if zeros else None
    a, c = random(m, k, dtype=dtype), torch.empty(m, n, device=dev, dtype=dtype)
    weights = ops.QuantisedWeights(kind, 32 if kind == "mxfp4" else group, w, by, z)
    return lambda: ops.quantised_gemm(a, weights, c)


def by_bytes(m, n, k, kind, bits):
    n, k = size(n), size(k)
    weights = ops.quant_pack(codes(n, k * bits // 8), format=kind, n=n, k=k)
    a = torch.randint(-127, 127, (m, k), device=dev, dtype=torch.int8)
    c = torch.empty(m, n, device=dev, dtype=BF)
    return lambda: ops.quantised_gemm(a, weights, c)


def by_blocks(m, n, k):
    m, n, k = size(m), size(n), size(k)
    a, b = (x.to(torch.float8_e4m3fn) for x in (random(m, k), random(n, k)))
    sa, sb = torch.rand(m, k // 128, device=dev) + 0.5, torch.rand(-(-n // 128), k // 128, device=dev) + 0.5
    c = torch.empty(m, n, device=dev, dtype=BF)
    weights = ops.QuantisedWeights("fp8_block", 128, b, sb)
    return lambda: ops.quantised_gemm(a, weights, c, a_scales=sa)


row("gemm bf16 8192^3", 1.409)(lambda: product(8192, 8192, 8192, BF))
row("gemm f16 8192^3", 1.441)(lambda: product(8192, 8192, 8192, F16))
row("gemm bf16 4096^3", 0.1874)(lambda: product(4096, 4096, 4096, BF))
row("gemm f16 4096^3", 0.1915)(lambda: product(4096, 4096, 4096, F16))
row("gemm f16 256 x 1024 x 512, stream-K there", 0.01605)(lambda: product(256, 1024, 512, F16))
row("gemm e4m3 8192^3", 0.7255)(lambda: product(8192, 8192, 8192, torch.float8_e4m3fn))
row("gemv f16 4096^2", 0.01586)(lambda: product(1, 4096, 4096, F16))
row("gemv f16 16384^2", 0.1336)(lambda: product(1, 16384, 16384, F16))
row("fp8 by blocks 4096 x 4096 x 7168", 0.3226)(lambda: by_blocks(4096, 4096, 7168))
row("fp8 by blocks 1024 x 1024 x 8192", 0.02762)(lambda: by_blocks(1024, 1024, 8192))
row("bf16 x mxfp4 4096^3", 0.2714)(lambda: quantised(size(4096), 4096, 4096, "mxfp4", 4, BF))
row("f16 x fp4 4096^3", 0.2779)(lambda: quantised(size(4096), 4096, 4096, "fp4", 4, F16))
row("f16 x int4 4096^3", 0.5199)(lambda: quantised(size(4096), 4096, 4096, "int4", 4, F16, zeros=True))
row("f16 x int4 1 x 8192 x 8192", 0.01699)(lambda: quantised(1, 8192, 8192, "int4s", 4, F16))
row("f16 x int4 1 x 16384 x 16384", 0.0473)(lambda: quantised(1, 16384, 16384, "int4s", 4, F16))
row("i8 x int4 4096^3", 0.2648)(lambda: by_bytes(size(4096), 4096, 4096, "w4a8", 4))
row("BitNet 4096^3", 0.395)(lambda: by_bytes(size(4096), 4096, 4096, "w2a8", 2))
row("BitNet 1 x 8192 x 8192", 0.01014)(lambda: by_bytes(1, 8192, 8192, "w2a8", 2))
row("BitNet 1 x 16384 x 16384", 0.02683)(lambda: by_bytes(1, 16384, 16384, "w2a8", 2))


def groups(n_groups, rows):
    return torch.arange(0, n_groups + 1, device=dev, dtype=torch.int32) * (rows // n_groups)


@row("grouped, 8 groups, 8192 x 4096 x 4096 f16", 0.4305)
def _():
    m, n = size(8192), size(4096)
    a, b, at, c = random(m, n), random(8, n, n), groups(8, m), torch.empty(m, n, device=dev, dtype=F16)
    return lambda: ops.grouped_gemm(a, b, c, offsets=at)


@row("grouped, gradient of weights", 1.796)
def _():
    m, n = size(8192), size(4096)
    a, dc, at, db = random(m, n), random(m, n), groups(8, m), torch.empty(8, n, n, device=dev, dtype=F16)
    return lambda: ops.grouped_gemm_weights(a, dc, at, db)


@row("layer of experts, 8192 tokens, 4 of 8, 7168 x 2048", 14.63)
def _():
    m, d, f = size(8192), size(7168), size(2048)
    x, up, down = random(m, d), random(8, 2 * f, d) / math.sqrt(d), random(8, d, f) / math.sqrt(f)
    logits, out = random(m, 8), torch.empty(m, d, device=dev, dtype=F16)
    return lambda: ops.moe(x, up, down, logits, out, top_k=4)


def blocks(bm, bn, bk):
    n = size(4096)
    a, b, c = random(n, n), random(n, n), torch.empty(n, n, device=dev, dtype=F16)
    mask = torch.rand(n // bm, n // bn, n // bk, device=dev) < 0.5
    return lambda: ops.block_sparse_gemm(a, b, mask, c, block_m=bm, block_n=bn, block_k=bk)


row("block-sparse f16 4096^3, half the blocks of 128 x 128 x 32", 0.2511)(lambda: blocks(128, 128, 32))
row("... of 128 x 256 x 64", 0.1343)(lambda: blocks(128, 256, 64))


@row("2:4 sparse f16 8192^3", 1.178)
def _():
    n = size(8192)
    values, places, _ = ops.sparse24_pack(random(n, n), prune=True)
    b, c = random(n, n), torch.empty(n, n, device=dev, dtype=F16)
    return lambda: ops.gemm(values, b, c, a_places=places)


@row("conv2d N128 64 x 64 C128 F128 3 x 3 f16", 0.3187)
def _():
    x, w = random(max(128 // divide, 1), 64, 64, 128), random(3, 3, 128, 128)
    out = torch.empty_like(x)
    return lambda: ops.conv2d(x, w, out, pad=1)


# ---- small operators

@row("cast to fp8 by rows 8192^2 f32", 0.08979)
def _():
    x = torch.randn(size(8192), size(8192), device=dev)
    out, by = torch.empty(x.shape, device=dev, dtype=torch.float8_e4m3fn), torch.empty(x.shape[0], device=dev)
    return lambda: ops.cast_fp8(x, out, by)


@row("softmax 8192^2 f16", 0.0697)
def _():
    x = random(size(8192), size(8192))
    out = torch.empty_like(x)
    return lambda: ops.softmax(x, out)


@row("RMS norm 8192^2 f32", 0.1338)
def _():
    x = torch.randn(size(8192), size(8192), device=dev)
    out = torch.empty_like(x)
    return lambda: ops.rms_norm(x, out=out)


@row("layer norm 4096 x 8192 bf16", 0.04285)
def _():
    x, w = random(size(4096), size(8192), dtype=BF), random(size(8192), dtype=BF)
    b, out = torch.zeros_like(w), torch.empty_like(x)
    return lambda: ops.layer_norm(x, w, b, out)


def hadamard(m, n):
    x = torch.randn(size(m, 64), n, device=dev)
    out = torch.empty_like(x)
    return lambda: ops.hadamard(x, out)


def largest(m):
    x = torch.randn(m, 128, device=dev)
    v, i = torch.empty(m, 6, device=dev), torch.empty(m, 6, device=dev, dtype=torch.int32)
    return lambda: ops.topk(x, 6, v, i)


def selected(m, n):
    x = torch.randn(m, n, device=dev)
    at = torch.empty(m, 2048, device=dev, dtype=torch.int32)
    return lambda: ops.topk_select(x, 2048, at)


row("Hadamard 64 x 32768 f32", 0.03485)(lambda: hadamard(64, 32768))
row("Hadamard 4096 x 8192 f32", 0.2188)(lambda: hadamard(4096, 8192))
row("top-k, 6 of 128, 320 rows", 0.00896)(lambda: largest(320))
row("top-k, 6 of 128, 65536 rows", 0.03646)(lambda: largest(size(65536)))
row("selection, 2048 of 32768, 64 rows", 0.03003)(lambda: selected(size(64, 4), 32768))
row("selection, 2048 of 8192, 4096 rows", 0.2376)(lambda: selected(size(4096), 8192))


# ---- attention and layers with a state

def heads(b, s, h, d=128, dtype=F16):
    return random(max(b // divide, 1), size(s, 64), h, d, dtype=dtype)


def attention(b, s, skv, h, hkv, causal, dtype=F16, **more):
    q, k, v = heads(b, s, h, dtype=dtype), heads(b, skv, hkv, dtype=dtype), heads(b, skv, hkv, dtype=dtype)
    out = torch.empty_like(q)
    more = {name: make() for name, make in more.items()}
    return lambda: ops.attention(q, k, v, out, causal=causal, **more)


def gradients(b, s, h, hkv, causal):
    q, k, v, dout = heads(b, s, h), heads(b, s, hkv), heads(b, s, hkv), heads(b, s, h)
    out, lse = ops.attention(q, k, v, causal=causal, return_lse=True)
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    return lambda: ops.attention_backward(q, k, v, out, lse, dout, dq, dk, dv, causal=causal)


row("attention B8 H32 S4096", 3.651)(lambda: attention(8, 4096, 4096, 32, 32, False))
row("... causal", 2.02)(lambda: attention(8, 4096, 4096, 32, 32, True))
row("... 8 key heads", 3.633)(lambda: attention(8, 4096, 4096, 32, 8, False))
row("... 8 key heads, causal", 2.009)(lambda: attention(8, 4096, 4096, 32, 8, True))
row("... sinks, causal, bf16", 2.043)(lambda: attention(8, 4096, 4096, 32, 32, True, BF, sinks=lambda: torch.randn(32, device=dev)))
row("... sinks, window 128, bf16", 0.4707)(
    lambda: attention(8, 4096, 4096, 32, 32, True, BF, sinks=lambda: torch.randn(32, device=dev), window=lambda: 128))
row("attention B1 H32 S128 over 8192", 0.06654)(lambda: attention(1, 128, 8192, 32, 32, False))
row("gradients B8 H32 S4096", 20.64)(lambda: gradients(8, 4096, 32, 32, False))
row("... causal", 10.75)(lambda: gradients(8, 4096, 32, 32, True))
row("... 8 key heads, causal", 8.72)(lambda: gradients(8, 4096, 32, 8, True))


def linear(s, backward, **more):
    q, k, v, dout = (0.1 * heads(8, s, 32) for _ in range(4))
    more = {name: make() for name, make in more.items()}
    if backward:
        return lambda: ops.linear_attention_backward(q, k, v, dout, **more)
    return lambda: ops.linear_attention(q, k, v, **more)


row("linear attention B8 S1024 H32", 0.1923)(lambda: linear(1024, False))
row("linear attention B8 S4096 H32", 0.7197)(lambda: linear(4096, False))
row("... gradients, S1024", 0.5132)(lambda: linear(1024, True))
row("... gradients, S4096", 2.016)(lambda: linear(4096, True))


def milliseconds(call, flush):
    call()
    if dev == "cpu":
        start = time.perf_counter()
        call()
        return 1e3 * (time.perf_counter() - start)
    call()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(12)]
    for begin, end in events:
        flush.zero_()
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return sorted(begin.elapsed_time(end) for begin, end in events)[6]


def main():
    flush = torch.empty(1 if dev == "cpu" else 512 << 20, device=dev, dtype=torch.uint8)
    ratios = []
    for name, peer, make in ROWS:
        if options.name not in name:
            continue
        try:
            mine = milliseconds(make(), flush)
            ratios.append(peer / mine)
            print("%-62s %8.4f %8.4f  %5.2f" % (name, mine, peer, peer / mine), flush=True)
        except Exception as error:
            print("%-62s %s: %s" % (name, type(error).__name__, str(error).split("\n")[0][:120]), flush=True)
    if ratios:
        print("geometric mean of %d: %.2f, least %.2f, below 1.2: %d" %
              (len(ratios), math.exp(sum(map(math.log, ratios)) / len(ratios)), min(ratios), sum(r < 1.2 for r in ratios)))


main()
