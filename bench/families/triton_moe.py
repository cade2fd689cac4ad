# SPDX-License-Identifier: MIT
"""Layers of experts through kiln_moe and through the package triton_kernels of Triton's repository, in one process.

    triton_moe.py [--limit=SECONDS] [--device=cuda:0] [LAYER...]        LAYER: gpt-oss-20b, gpt-oss-120b, qwen3-30b, deepseek-v3; none: all

Every layer chooses top_k experts by a softmax of the chosen, has biases and gpt-oss's clamped SwiGLU, since that is the one that the
package fuses: both do the same work. A row: tokens, the weights' format, a call's time with Kiln and with the peer (of a graph of
calls with eight sets of logits), the peer's time over Kiln's, how far the results are apart. After SECONDS no further row begins.
bench/families/moe_formats.sh takes the peer from here.
"""
import argparse
import functools
import math
import time

import torch

BF = torch.bfloat16
SETS = 8                                         # of logits, so that no expert stays in L2 by chance
LAYERS = {"gpt-oss-20b": (32, 4, 2880, 2880), "gpt-oss-120b": (128, 4, 2880, 2880), "qwen3-30b": (128, 8, 2048, 768),
          "deepseek-v3": (256, 8, 7168, 2048)}   # experts, of them for a token, D, F
ALPHA, LIMIT = 1.702, 7.0                        # of the activation


@functools.cache
def prepare():
    """What the package wants of a newer Triton than 3.7: tests for AMD's cards, lines of sources for messages. Triton 3.6 lacks more."""
    import triton
    import triton.language.target_info as info

    @triton.constexpr_function
    def other_card():
        return False

    for name in ("is_hip_gfx1250", "is_hip_cdna4", "is_hip_cdna3"):
        if not hasattr(info, name):
            setattr(info, name, other_card)
    for name in ("def_file_line_number", "def_file_col_number"):
        if not hasattr(triton.JITFunction, name):
            setattr(triton.JITFunction, name, 1)
    return triton.__version__


def weights(w):
    """Of 16 bits: [experts][N][K]."""
    prepare()
    from triton_kernels.matmul import PrecisionConfig
    return w.transpose(1, 2), PrecisionConfig(out_dtype=w.dtype)


def mxfp4_weights(codes, scales, warps):
    """Of [experts][N][K / 2] codes and [experts][N][K / 32] scales in the layout of Hopper's kernel with so many warps."""
    prepare()
    from triton_kernels.matmul import PrecisionConfig
    from triton_kernels.tensor import FP4, convert_layout, wrap_torch_tensor
    from triton_kernels.tensor_details.layout import make_default_matmul_mxfp4_w_layout, make_default_matmul_mxfp4_w_scale_layout
    w = convert_layout(wrap_torch_tensor(codes.transpose(1, 2), dtype=FP4), make_default_matmul_mxfp4_w_layout(mx_axis=-2))
    s = convert_layout(wrap_torch_tensor(scales.transpose(1, 2)), make_default_matmul_mxfp4_w_scale_layout(mx_axis=-2, num_warps=warps))
    return w, PrecisionConfig(b_mx_scale=s, b_microblock_size=32, out_dtype=BF)


def layer(first, bias1, second, bias2, k, alpha=ALPHA, limit=LIMIT):
    """A function of tokens and logits. first, second: weights; biases in f32, or None. bench/peers.py takes it, too."""
    prepare()
    from triton_kernels.matmul import FnSpecs, FusedActivation, matmul
    from triton_kernels.reduce import reduce
    from triton_kernels.swiglu import swiglu_fn
    from triton_kernels.tensor import make_ragged_tensor_metadata
    from triton_kernels.topk import topk
    act = FusedActivation(FnSpecs("swiglu", swiglu_fn, ("alpha", "limit"), reduction_n=2), (alpha, limit))

    def call(x, logits):
        chosen = topk(logits, k, apply_softmax=True)
        pairs = chosen.mask_metadata.col_sorted_indx
        ragged = make_ragged_tensor_metadata(chosen.mask_metadata.col_sum, pairs.shape[0])
        h = matmul(x, first[0], bias1, a_ragged_metadata=ragged, gather_indx=pairs // k, precision_config=first[1], fused_activation=act)
        y = matmul(h, second[0], bias2, a_ragged_metadata=ragged, scatter_indx=pairs, precision_config=second[1],
                   gammas=chosen.vals.flatten()[pairs])
        y = reduce(y.view(x.shape[0], k, -1), dim=1)
        return y[0] if isinstance(y, tuple) else y
    return call


def warps_for(tokens):
    """Of the mxfp4 layout, as engines choose it."""
    return 4 if tokens <= 512 else 8


def milliseconds(call, device, n=2 * SETS):
    """Of call(i): the least of three graphs' replays on a GPU, without a graph where something cannot be captured."""
    if device == "cpu":
        call(0)
        start = time.perf_counter()
        call(1)
        return 1e3 * (time.perf_counter() - start)
    for i in range(3):
        call(i)
    torch.cuda.synchronize()
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(n):
                call(i)
        run = graph.replay
    except Exception as error:
        torch.cuda.synchronize()
        print("# no graph: %s" % str(error).split("\n")[0][:100], flush=True)
        run = lambda: [call(i) for i in range(n)]
    run()
    best = math.inf
    for _ in range(3):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        run()
        end.record()
        end.synchronize()
        best = min(best, begin.elapsed_time(end) / n)
    return best


class Rows:
    def __init__(self, device, limit, own):
        self.device, self.end, self.own, self.said = device, time.time() + limit, own, set()

    def guarded(self, make):
        try:
            return make()
        except Exception as error:               # a missing package, or a kernel that this Triton does not compile
            text = "# triton_kernels: %s: %s" % (type(error).__name__, str(error).strip().split("\n")[-1][:160])
            if text not in self.said:
                print(text, flush=True)
            self.said.add(text)
            return None

    def row(self, name, form, tokens, ours, theirs):
        if time.time() > self.end:
            return
        mine = milliseconds(ours, self.device) if ours else None
        other = theirs and self.guarded(lambda: milliseconds(theirs, self.device))
        apart = "-"
        if mine and other:
            a, b = ours(0).float(), theirs(0).float()
            apart = "%.0e" % ((a - b).norm() / (b.norm() + 1e-30)).item()
        number = lambda t: "%9.4f" % t if t else "        -"
        print("%-13s %-5s %5d tokens  kiln %s ms  triton_kernels %s ms  ratio %s  differ %s" %
              (name, form, tokens, number(mine), number(other), "%5.2f" % (other / mine) if mine and other else "    -", apart), flush=True)

    def layer(self, name, sizes, tokens):
        experts, k, d, f = sizes
        new = functools.partial(torch.randn, device=self.device, dtype=BF)
        w1, w2 = new(experts, 2 * f, d).mul_(d ** -0.5), new(experts, d, f).mul_(f ** -0.5)
        b1, b2 = new(experts, 2 * f), new(experts, d)
        options = dict(gate_up_bias=b1, down_bias=b2, top_k=k, renormalise=True, activation="swiglu_clamped", interleaved=True)
        peer = self.guarded(lambda: layer(weights(w1), b1.float(), weights(w2), b2.float(), k))
        self.forms(name, "bf16", tokens, experts, d, (w1, w2), options, lambda m: peer)
        if name.startswith("gpt-oss"):
            del w1, w2, peer
            self.mxfp4(name, sizes, tokens, b1, b2, options)

    def mxfp4(self, name, sizes, tokens, b1, b2, options):
        experts, k, d, f = sizes
        new = lambda low, high, *shape: torch.randint(low, high, shape, device=self.device, dtype=torch.uint8)
        q1, s1, q2, s2 = (new(*range_, experts, n, size // per) for n, size in ((2 * f, d), (d, f))
                          for range_, per in (((0, 256), 2), ((118, 121), 32)))
        pad = lambda x, unit: torch.nn.functional.pad(x, (0, -x.shape[-1] % unit)).contiguous()
        own = dict(options, gate_up_scales=pad(s1, 4), down_scales=pad(s2, 4), format="mxfp4")
        make = functools.cache(lambda warps: self.guarded(lambda: layer(mxfp4_weights(q1, s1, warps), b1.float(),
                                                                        mxfp4_weights(q2, s2, warps), b2.float(), k)))
        self.forms(name, "mxfp4", tokens, experts, d, (pad(q1, 64), pad(q2, 64)), own, lambda m: make(warps_for(m)))

    def forms(self, name, form, tokens, experts, d, both, options, peer):
        for m in tokens:
            x, out = torch.randn(m, d, device=self.device, dtype=BF), torch.empty(m, d, device=self.device, dtype=BF)
            logits = [torch.randn(m, experts, device=self.device, dtype=BF) for _ in range(SETS)]

            def ours(i):
                self.own.moe(x, *both, logits[i % SETS], out, **options)
                return out
            call = peer(m)
            self.row(name, form, m, ours if self.own else None, call and (lambda i: call(x, logits[i % SETS])))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layer", nargs="*")
    parser.add_argument("--limit", type=float, default=600)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--tokens", default="1,16,128,1024,4096")
    options = parser.parse_args()
    from kiln import ops
    rows = Rows(options.device, options.limit, ops)
    for name in options.layer or LAYERS:
        sizes = LAYERS[name] if options.device != "cpu" else (4, 2, 128, 128)
        rows.layer(name, sizes, [int(n) for n in options.tokens.split(",")])
        if options.device != "cpu":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
