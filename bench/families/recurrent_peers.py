# SPDX-License-Identifier: MIT
"""Layers with a state through Kiln's operators and through fla-core and mamba-ssm, in one process: forward, gradients, steps.

    recurrent_peers.py [--limit=SECONDS] [--head=D] [--device=cuda:0] FAMILY...      FAMILY: gdn, kda, linear, mamba2, step; none: all

A row: a call's time on the device with Kiln and with the peer, the peer's time over Kiln's, how far the results are apart, the least
time for inputs and outputs at 4.3 TB/s as a part of Kiln's; of a step also the time of a copy of its states. Calls are queued behind
work that holds the device, so that the host's time is not in them.
After SECONDS no further row begins. --head: of gdn, kda and linear, rows with heads of this size alone, since the peer compiles for each.
A peer that is missing or refuses is said once for each reason.
"""
import argparse
import importlib
import time

import torch

from kiln import ops

BF = torch.bfloat16
said = set()


def say(text):
    if text not in said:
        said.add(text)
        print(text, flush=True)


def peer(module, name):
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:                   # a missing package, or one that this Triton does not suit
        say("%s is not here: %s: %s" % (module.split(".")[0], type(error).__name__, str(error).split("\n")[0][:110]))
        return None


def milliseconds(call, device, runs=10):
    if device == "cpu":
        call()
        start = time.perf_counter()
        call()
        return 1e3 * (time.perf_counter() - start)
    for _ in range(3):
        call()
    best = float("inf")
    for _ in range(2):
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(40_000_000)            # some 20 ms
        begin.record()
        for _ in range(runs):
            call()
        end.record()
        end.synchronize()
        best = min(best, begin.elapsed_time(end) / runs)
    return best


def difference(mine, other):
    """The largest difference of a result of both, of its norm."""
    pairs = zip(mine, other) if isinstance(mine, tuple) else [(mine, other[0] if isinstance(other, tuple) else other)]
    return max(((x.double() - y.double()).norm() / (y.double().norm() + 1e-30)).item() for x, y in pairs)


class Rows:
    def __init__(self, device, limit):
        self.device, self.limit, self.start = device, limit, time.time()

    def random(self, *shape, low=None, dtype=BF):
        if low is not None:
            return torch.empty(*shape, device=self.device).uniform_(low, 0).to(dtype)
        return (0.3 * torch.randn(*shape, device=self.device)).to(dtype)

    def row(self, name, shape, n_bytes, ours, theirs, copy=None):
        """theirs: makes the peer's call, None: none there is. copy: a copy of a step's states, of which both begin."""
        if time.time() - self.start > self.limit:
            say("no time left")
            return
        mine, other = milliseconds(ours, self.device), None
        if theirs and self.device != "cpu":
            try:
                call = theirs()
                other = milliseconds(call, self.device)
                if copy: copy()
                apart = difference(ours(), call())
            except Exception as error:
                say("%s: the peer fails: %s: %s" % (name, type(error).__name__, str(error).split("\n")[0][:200]))
        print("%-26s %-24s %9.3f ms  peer %s  floor %4.0f%%%s" %
              (name, " ".join("%s%d" % pair for pair in shape), mine,
               "%9.3f ms  ratio %5.2f  differ %.0e" % (other, other / mine, apart) if other else "-".rjust(9),
               100 * n_bytes / 4.3e9 / mine, "  copy %.3f" % milliseconds(copy, self.device) if copy else ""), flush=True)

    def both(self, name, shape, n_bytes, ours, inputs, call, dout, forward_bytes):
        """Forward and gradients. ours: the two calls; call: the peer's forward on `inputs`, the result first, or None."""
        def gradients():
            leaves = [t.detach().requires_grad_() for t in inputs]
            out = call(*leaves)
            return lambda: torch.autograd.grad(out, leaves, dout, retain_graph=True)
        if ours[0]:
            with torch.no_grad():
                self.row(name + " forward", shape, forward_bytes, ours[0], call and (lambda: lambda: call(*inputs)))
        self.row(name + " backward", shape, n_bytes, ours[1], call and gradients)


def delta(rows, channel, shapes):
    call = peer("fla.ops.kda", "chunk_kda") if channel else peer("fla.ops.gated_delta_rule", "chunk_gated_delta_rule")
    for B, S, H, D in shapes:
        q, k, v, dout = (rows.random(B, S, H, D) for _ in range(4))
        gates = rows.random(B, S, H, *((D,) if channel else ()), low=-1, dtype=torch.float32)
        beta = rows.random(B, S, H).sigmoid()
        args = dict(q=q, k=k, v=v, gates=gates, beta=beta, normalize=True)
        n, g = 2 * B * S * H * D, 4 * gates.numel()
        rows.both("KDA" if channel else "gated delta net", tuple(zip("BSHD", (B, S, H, D))), 7 * n + 2 * g,
                  (lambda: ops.gdn_forward(**args), lambda: ops.gdn_backward(**args, dout=dout)), (q, k, v, gates, beta),
                  call and (lambda *x: call(*x, use_qk_l2norm_in_kernel=True)[0]), dout, 4 * n + g)


def linear(rows, shapes):
    gated, plain = peer("fla.ops.simple_gla", "chunk_simple_gla"), peer("fla.ops.linear_attn", "chunk_linear_attn")
    for B, S, H, D in shapes:
        q, k, v, dout = (rows.random(B, S, H, D) for _ in range(4))
        gates, n = rows.random(B, S, H, low=-0.1, dtype=torch.float32), 2 * B * S * H * D
        dgates = torch.empty_like(gates)
        rows.both("gated linear", tuple(zip("BSHD", (B, S, H, D))), 7 * n,
                  (lambda: ops.linear_attention(q, k, v, gates=gates),
                   lambda: ops.linear_attention_backward(q, k, v, dout, gates=gates, dgates=dgates)), (q, k, v, gates),
                  gated and (lambda q, k, v, g: gated(q, k, v, g=g)[0]), dout, 4 * n)
        rows.both("linear", tuple(zip("BSHD", (B, S, H, D))), 7 * n,
                  (lambda: ops.linear_attention(q, k, v), lambda: ops.linear_attention_backward(q, k, v, dout)), (q, k, v),
                  plain and (lambda q, k, v: plain(q, k, v, normalize=False)[0]), dout, 4 * n)
        decay = torch.log1p(-torch.exp2(-5 - torch.arange(H, device=rows.device, dtype=torch.float32)))
        rows.both("retention", tuple(zip("BSHD", (B, S, H, D))), 7 * n,
                  (lambda: ops.linear_attention(q, k, v, decay=decay), lambda: ops.linear_attention_backward(q, k, v, dout, decay=decay)),
                  (q, k, v), gated and (lambda q, k, v: gated(q, k, v, g_gamma=decay)[0]), dout, 4 * n)


def mamba2(rows, shapes):
    call = peer("mamba_ssm.ops.triton.ssd_combined", "mamba_chunk_scan_combined")
    for B, S, H, P, G, N in shapes:
        x, dout, b, c = rows.random(B, S, H, P), rows.random(B, S, H, P), rows.random(B, S, G, N), rows.random(B, S, G, N)
        dt, a = rows.random(B, S, H, low=-4), rows.random(H, low=-4, dtype=torch.float32)
        skip = torch.rand(H, device=rows.device)
        n, r, w = 2 * x.numel(), 2 * dt.numel(), 2 * b.numel()
        rows.both("Mamba-2", tuple(zip("BSHPGN", (B, S, H, P, G, N))), 3 * n + 2 * r + 4 * w,
                  (lambda: ops.mamba2_forward(x, dt, a, b, c, skip=skip),
                   lambda: ops.mamba2_backward(x, dt, a, b, c, dout, skip=skip, dskip=torch.empty_like(skip))),
                  (x, dt, a, b, c, skip),
                  call and (lambda x, dt, a, b, c, skip: call(x, dt, a, b, c, 256, D=skip, dt_softplus=True)), dout,
                  2 * n + r + 2 * w)


def delta_step(rows, channel, shapes):
    call = peer("fla.ops.kda", "fused_recurrent_kda") if channel else peer("fla.ops.gated_delta_rule", "fused_recurrent_gated_delta_rule")
    for B, H, D in shapes:
        q, k, v = (rows.random(B, 1, H, D) for _ in range(3))
        gates = rows.random(B, 1, H, *((D,) if channel else ()), low=-1, dtype=torch.float32)
        beta, first = rows.random(B, 1, H).sigmoid(), torch.rand(B, H, D, D, device=rows.device)
        states = first.clone()                   # Kiln's are written in place, the peer's to another place
        rows.row(("KDA" if channel else "gated delta net") + " step", tuple(zip("BHD", (B, H, D))), 8.0 * first.numel(),
                 lambda: ops.gdn_step(q, k, v, gates, beta, states, normalize=True),
                 call and (lambda: lambda: call(q, k, v, gates, beta=beta, initial_state=first, output_final_state=True,
                                                use_qk_l2norm_in_kernel=True)), lambda: states.copy_(first))


def mamba2_step(rows, shapes):
    call = peer("mamba_ssm.ops.triton.selective_state_update", "selective_state_update")
    for B, H, P, N in shapes:
        x, b, c, dt = rows.random(B, 1, H, P), rows.random(B, 1, 1, N), rows.random(B, 1, 1, N), rows.random(B, 1, H, low=-4)
        a, bias, skip = rows.random(H, low=-4, dtype=torch.float32), rows.random(H, low=-1, dtype=torch.float32), torch.rand(H, device=rows.device)
        states = torch.rand(B, H, P, N, device=rows.device)
        theirs = states.clone()
        wide = lambda t, *shape: t.view(*t.shape, *[1] * (len(shape) - t.dim())).expand(*shape)
        rows.row("Mamba-2 step", tuple(zip("BHPN", (B, H, P, N))), 8.0 * states.numel(),
                 lambda: ops.mamba2_step(x, dt, a, b, c, states, skip=skip, dt_bias=bias)[:, 0],
                 call and (lambda: lambda: call(theirs, x[:, 0], wide(dt[:, 0], B, H, P), wide(a, H, P, N), b[:, 0], c[:, 0], wide(skip, H, P),
                                                dt_bias=wide(bias, H, P), dt_softplus=True)), lambda: states.copy_(theirs))


def step(rows, shapes):
    delta_step(rows, False, shapes)
    delta_step(rows, True, shapes[:1])
    mamba2_step(rows, [(B, 80, 64, 128) for B, _, _ in shapes])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", nargs="*")
    parser.add_argument("--limit", type=float, default=600)
    parser.add_argument("--head", type=int)
    parser.add_argument("--device", default="cuda:0")
    options = parser.parse_args()
    cpu = options.device == "cpu"
    rows = Rows(options.device, options.limit)
    if not cpu:
        triton = importlib.import_module("triton")
        print("%s, PyTorch %s, Triton %s" % (torch.cuda.get_device_name(), torch.__version__, triton.__version__), flush=True)
    heads = lambda *shapes: [shape for shape in shapes if options.head in (None, shape[3])]
    nets = heads((4, 4096, 16, 256), (8, 2048, 32, 128), (16, 2048, 16, 64), (1, 65536, 32, 128), (16, 2048, 32, 128), (1, 16384, 64, 128))
    channels = heads((2, 8192, 16, 128), (1, 65536, 16, 128), (4, 8192, 16, 64))
    attention = heads((4, 8192, 16, 256), (8, 2048, 32, 128), (4, 8192, 16, 64), (8, 4096, 32, 128), (1, 65536, 32, 128))
    families = {
        "gdn": lambda: delta(rows, False, nets),
        "kda": lambda: delta(rows, True, channels),
        "linear": lambda: linear(rows, attention),
        "mamba2": lambda: mamba2(rows, ((8, 4096, 80, 64, 1, 128), (2, 16384, 80, 64, 1, 128), (1, 32768, 64, 64, 8, 128))),
        "step": lambda: step(rows, ((64, 32, 128), (256, 32, 128))),
    }
    if cpu:
        families = {
            "gdn": lambda: delta(rows, False, ((1, 128, 2, 64),)), "kda": lambda: delta(rows, True, ((1, 128, 2, 64),)),
            "linear": lambda: linear(rows, ((1, 128, 2, 64),)), "mamba2": lambda: mamba2(rows, ((1, 256, 2, 32, 1, 64),)),
            "step": lambda: step(rows, ((2, 2, 64),)),
        }
    for name in options.family or families:
        families[name]()


if __name__ == "__main__":
    main()
