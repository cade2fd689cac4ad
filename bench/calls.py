# SPDX-License-Identifier: MIT
"""What a warm call from Python takes of the host over the C call: python3 bench/calls.py [--gpu] [NAME]

Without a GPU the C functions are taken away, so that what is left is Python's; with --gpu they launch, and the same C call, its
struct made before, is timed beside, and so are two pieces of the rest: comparing the arguments with those of the call before, and
memory for outputs. Microseconds, the least of 50 rounds of all rows. Needs PyTorch; with a NAME rows that contain it.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import torch
import kiln
from kiln import _warm, ops
from kiln._library import lib
from kiln.compat import flash_attn, flash_mla

GPU = "--gpu" in sys.argv[1:]
ONLY = ([a for a in sys.argv[1:] if a != "--gpu"] + [""])[0]
ROUNDS, CALLS = 50, 100
DEVICE = "cuda" if GPU else "cpu"
SOURCE = """kernel scale(in bf16 X[M][N], out bf16 Y[M][N], f32 a)
{
    grid (m : M);
    fragment f32 x[64] = X[m][0 +: 64];
    forall (i : 64) x[i] *= a;
    Y[m][0 +: 64] = x;
}"""


def take(call):
    """Of one round, microseconds a call."""
    begin = time.perf_counter()
    for _ in range(CALLS):
        call()
    took = time.perf_counter() - begin
    if GPU:
        torch.cuda.synchronize()
    return took / CALLS * 1e6


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
    yield "torch: empty", lambda: torch.empty(q.shape, dtype=q.dtype, device=q.device), None
    yield "torch: its own attention", lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v), None


def kernel_pieces(kernel, call):
    """The C call of a kernel's warm call."""
    call(), call()
    kept = list(kernel._launches.kept.values())[-1]
    launch, handle, words, n = lib.kiln_launch_with, kept.built.handle, kept.words, len(kept.words) // 2
    return {"C": lambda: launch(handle, None, words, n, None, 0)}


def pieces(call):
    """Parts of an operator's warm call, each alone, and what holds their memory; without a GPU its C call is taken out of it. {}:
    it makes none."""
    agree, seen = _warm._agree, []
    call(), call()
    _warm._agree = lambda *given: seen.append(given) or agree(*given)
    call()
    _warm._agree = agree
    if not seen:
        return {}
    at, values = seen[-1]
    one = next(one for one in _warm.thread.last.values() if one.latest and one.latest[3] == at)
    if not GPU:
        one.call.function = nothing
        one.run = one.runner()
        one.latest = (*one.latest[:4], one.run, *one.latest[5:])
        _warm.thread.latest.clear()
    empty, like = _warm._allocator(torch, one.index, one.place), [how[1:] for how in one.made]
    function, handle, pointer = one.call.function, one.handle, one.pointer
    return {"C": lambda: function(handle, None, pointer), "compare": lambda: agree(at, values),
            "outputs": lambda: [empty(*how) for how in like], "of": one}


def main():
    print("%s, PyTorch %s; us" % (torch.cuda.get_device_name() if GPU else "no GPU: C functions are taken away", torch.__version__))
    timed = []
    for name, call, kernel in rows():
        if ONLY in name:
            timed.append((name, dict(kernel_pieces(kernel, call) if kernel else pieces(call), all=call)))
    least = [dict.fromkeys(calls, 1e9) for _, calls in timed]
    for _ in range(ROUNDS):                     # all rows in each: a slow phase of the processor is no row's
        for (_, calls), best in zip(timed, least):
            for part in ("C", "compare", "outputs", "all"):
                if part in calls:
                    best[part] = min(best[part], take(calls[part]))
    print("| call | in all | C | more in Python | compare arguments | outputs |\n| --- | --- | --- | --- | --- | --- |")
    for (name, _), best in zip(timed, least):
        more = best["all"] - best["C"] if "C" in best else None
        texts = ["%.1f" % x if x is not None else "" for x in (best.get("C"), more, best.get("compare"), best.get("outputs"))]
        print("| %-36s | %6.1f | %6s | %6s | %6s | %6s |" % (name, best["all"], *texts), flush=True)


main()
