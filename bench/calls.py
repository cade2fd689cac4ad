# SPDX-License-Identifier: MIT
"""What a warm call from Python takes of the host over the C call: python3 bench/calls.py [--gpu] [NAME]

Without a GPU the C functions are taken away, so that what is left is Python's; with --gpu they launch, and the same C call, its
struct made before, is timed beside. Microseconds, the least of 25 rounds. Needs PyTorch; with a NAME rows that contain it.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import torch
import kiln
from kiln import _calls, _warm, ops
from kiln._library import lib
from kiln.compat import flash_attn, flash_mla

GPU = "--gpu" in sys.argv[1:]
ONLY = ([a for a in sys.argv[1:] if a != "--gpu"] + [""])[0]
ROUNDS, CALLS = 25, 100
DEVICE = "cuda" if GPU else "cpu"
SOURCE = """kernel scale(in bf16 X[M][N], out bf16 Y[M][N], f32 a)
{
    grid (m : M);
    fragment f32 x[64] = X[m][0 +: 64];
    forall (i : 64) x[i] *= a;
    Y[m][0 +: 64] = x;
}"""


def least(call):
    best = 1e9
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        best = min(best, time.perf_counter() - begin)
        if GPU:
            torch.cuda.synchronize()
    return best / CALLS * 1e6


def nothing(*_):
    return 0


def rows():
    """Name, call, and the kernel that it launches; None: it is an operator's."""
    def bf(*shape):
        return torch.randn(*shape, device=DEVICE).to(torch.bfloat16)

    def i32(x):
        return torch.tensor(x, device=DEVICE, dtype=torch.int32)
    x, y, scale = bf(64, 64), bf(64, 64), kiln.kernel(SOURCE, "scale")
    a, b, c = bf(64, 64), bf(64, 64), bf(64, 64)
    q, k, v = (bf(1, 64, 8, 64) for _ in range(3))
    out = torch.empty_like(q)
    q1, k1, v1, n1 = bf(2, 1, 8, 64), bf(2, 128, 8, 64), bf(2, 128, 8, 64), i32([100, 128])
    ql, cache, table, n = bf(2, 1, 16, 576), bf(4, 64, 1, 576), i32([[0, 1], [2, 3]]), i32([70, 9])
    plan, _ = flash_mla.get_mla_metadata()
    ol, lse = flash_mla.flash_mla_with_kvcache(ql, cache, table, n, 512, plan)
    yield "a kernel of two tensors and a number", lambda: scale(x, y, 2.0), scale
    yield "ops.gemm, output given", lambda: ops.gemm(a, b, c), None
    yield "ops.attention, output given", lambda: ops.attention(q, k, v, out), None
    yield "ops.attention", lambda: ops.attention(q, k, v), None
    yield "flash_attn_func", lambda: flash_attn.flash_attn_func(q, k, v, causal=True), None
    yield "flash_attn_with_kvcache", lambda: flash_attn.flash_attn_with_kvcache(q1, k1, v1, cache_seqlens=n1), None
    yield "ops.mla_decode, outputs given", lambda: ops.mla_decode(plan.plan, ql, cache, table, n, ol, lse), None
    yield "flash_mla_with_kvcache", lambda: flash_mla.flash_mla_with_kvcache(ql, cache, table, n, 512, plan), None
    yield "torch: empty_like", lambda: torch.empty_like(q), None
    yield "torch: its own attention", lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v), None


def c_call(call, kernel):
    """The C call that a warm call makes, alone; without a GPU an operator's is taken out of it. None: it makes none."""
    if kernel is not None:
        call(), call()
        kept = list(kernel._launches.kept.values())[-1]
        launch, handle, words, n = lib.kiln_launch_with, kept.built.handle, kept.words, len(kept.words) // 2
        return lambda: launch(handle, None, words, n, None, 0)
    _warm.thread.kept.clear(), _warm.thread.last.clear(), _warm.thread.latest.clear()
    call(), call()
    made = list(_warm.thread.last.values())
    if not made:
        return None
    c, pointer = made[-1].call, made[-1].pointer
    handle, queue = _calls.handle_of(made[-1].device), None
    if not GPU:
        c.function = nothing
        for one in made:
            one.run = one.runner()
            one.latest = one.latest and (*one.latest[:4], one.run, *one.latest[5:])
        _warm.thread.latest.clear()
    function = c.function
    return lambda: function(handle, queue, pointer)


def main():
    print("%s, PyTorch %s; us" % (torch.cuda.get_device_name() if GPU else "no GPU: C functions are taken away", torch.__version__))
    print("| call | in all | C | more in Python |\n| --- | --- | --- | --- |")
    for name, call, kernel in rows():
        if ONLY not in name:
            continue
        c = c_call(call, kernel)
        alone = least(c) if c else 0.0
        call()
        whole = least(call)
        print("| %-36s | %6.1f | %6s | %6s |" % (name, whole, "%.1f" % alone if c else "", "%.1f" % (whole - alone) if c else ""), flush=True)


main()
