# SPDX-License-Identifier: MIT
"""`kiln.torch`: each operator by PyTorch's own check of its schema, fake kernel and gradient; gradients against PyTorch's; models
that are compiled and exported."""
import unittest

try:
    import torch
    import kiln.torch as kt
    WHY = None if hasattr(torch.library, "opcheck") else "PyTorch is older than 2.4"
except ImportError:
    torch, WHY = None, "PyTorch is not here"


def reference_attention(q, k, v, causal):
    heads = [t.transpose(1, 2).repeat_interleave(q.shape[2] // t.shape[2], 1) for t in (q, k, v)]
    return torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=causal).transpose(1, 2)


def reference_turn(x, positions):
    half = x.shape[2] // 2
    angle = positions[:, None, None] * 10000.0 ** (-torch.arange(half, device=x.device) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


@unittest.skipIf(WHY, WHY)
class OnTheHost(unittest.TestCase):
    device = "cpu"

    def randn(self, *shape):
        return torch.randn(*shape, device=self.device).requires_grad_()

    def i32(self, *numbers):
        return torch.tensor(numbers, dtype=torch.int32, device=self.device)

    def check(self, name, args, call, reference, *tensors):
        """opcheck with `args`; value and gradients of call(*tensors) as those of reference(*tensors)."""
        tests = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
        torch.library.opcheck(getattr(torch.ops.kiln, name), args, test_utils=tests)
        if reference is None:
            return
        got, expected = call(*tensors), reference(*tensors)
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-4)
        dout = torch.randn_like(expected)
        torch.testing.assert_close(torch.autograd.grad(got, tensors, dout), torch.autograd.grad(expected, tensors, dout),
                                   rtol=2e-3, atol=2e-3)

    def test_attention(self):
        q, k, v = self.randn(2, 5, 4, 32), self.randn(2, 5, 2, 32), self.randn(2, 5, 2, 32)
        self.check("attention", (q, k, v, True, 0, None, False, 0.0), lambda *t: kt.attention(*t, causal=True)[0],
                   lambda *t: reference_attention(*t, True), q, k, v)
        dense, out = ([t.detach().requires_grad_() for t in (q, k, v)] for _ in range(2))
        kt.attention(*out, window=5)[0].sum().backward()                  # all that the causal mask leaves
        kt.attention(*dense, causal=True)[0].sum().backward()
        for a, b in zip(dense, out):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-5, atol=1e-5)
        kt.attention(*out, window=1)[0].sum().backward()                  # of itself: the weights are 1
        torch.testing.assert_close(out[0].grad, dense[0].grad, rtol=1e-5, atol=1e-5)

    def test_ragged_attention_and_decode(self):
        q, k, v, offsets = self.randn(9, 4, 32), self.randn(9, 2, 32), self.randn(9, 2, 32), self.i32(0, 3, 9)

        def reference(*t):
            return torch.cat([reference_attention(*(x[None, b:e] for x in t), False)[0] for b, e in ((0, 3), (3, 9))])
        self.check("attention_varlen", (q, k, v, offsets, offsets, 6, 6, False, 0, None, True, 0.0),
                   lambda *t: kt.attention_varlen(*t, offsets, offsets, 6, 6)[0], reference, q, k, v)
        cache = torch.randn(2, 40, 2, 32, device=self.device)
        args = (torch.randn(2, 4, 32, device=self.device), cache, cache, None, self.i32(40, 3), None)
        self.check("attention_decode", args, None, None)

    def test_native_sparse_attention(self):
        t, h, hkv, d, size, s = 70, 4, 2, 32, 16, 2
        q, k, v = (torch.randn(t, n, d, device=self.device).half().requires_grad_() for n in (h, hkv, hkv))
        pools = [torch.rand(hkv, size, device=self.device).div(8).requires_grad_() for _ in range(2)]
        gates = [torch.rand(t, h, device=self.device).requires_grad_() for _ in range(2)]
        blocks = kt.nsa_choose(q, k, v, s, block_size=size)[1]

        def ours(q, k, v, pool_k, pool_v, g_selected, g_compressed):
            compressed = kt.nsa_choose(q, k, v, s, pool_k=pool_k, pool_v=pool_v, block_size=size)[0]
            selected = kt.nsa_selected(q, k, v, blocks, block_size=size)[0]
            return kt.nsa_combine(selected, g_selected, compressed=compressed, g_compressed=g_compressed)

        def reference(q, k, v, pool_k, pool_v, g_selected, g_compressed):
            token, n = torch.arange(t, device=self.device), t // size
            k, v = (x.float().repeat_interleave(h // hkv, 1) for x in (k, v))
            whole = [x[:n * size].view(n, size, h, d) for x in (k, v)]
            kc, vc = (torch.einsum("nshd,hs->nhd", x, w.repeat_interleave(h // hkv, 0)) for x, w in zip(whole, (pool_k, pool_v)))
            score = torch.einsum("thd,nhd->htn", q.float(), kc) / d ** 0.5
            seen = (token[:n] + 1) * size <= token[:, None] + 1
            weight = torch.nan_to_num(score.masked_fill(~seen, -1e9).softmax(-1)) * seen
            compressed = torch.einsum("htn,nhd->thd", weight, vc)
            listed = (token[None, None, :, None] // size == blocks[:, :, None, :]).any(-1).repeat_interleave(h // hkv, 1)
            seen = listed.transpose(0, 1) & (token <= token[:, None])
            score = torch.einsum("thd,nhd->htn", q.float(), k) / d ** 0.5
            selected = torch.einsum("htn,nhd->thd", score.masked_fill(~seen, -1e9).softmax(-1), v)
            return g_selected[..., None] * selected + g_compressed[..., None] * compressed
        tensors = (q, k, v, *pools, *gates)
        got, expected = ours(*tensors), reference(*tensors)
        torch.testing.assert_close(got.float(), expected, rtol=5e-3, atol=5e-3)
        dout = torch.randn_like(expected)
        for x, y in zip(torch.autograd.grad(got, tensors, dout.half()), torch.autograd.grad(expected, tensors, dout)):
            torch.testing.assert_close(x.float(), y.float(), rtol=2e-2, atol=3e-2)
        self.check("nsa_choose", (q, k, v, *pools, None, s, 0, 0, 0, 0, size, None), None, None)
        self.check("nsa_selected", (q, k, v, blocks, None, None, False, 0, 0, size, None), None, None)
        self.check("nsa_combine", (q, gates[0], None, None, q.detach().clone().requires_grad_(), gates[1]), None, None)

    def test_products(self):
        a, b, bias, residual = self.randn(6, 48), self.randn(48, 80), self.randn(80), self.randn(6, 80)
        self.check("gemm", (a, b, bias, residual, False, False, None, 0.5, None),
                   lambda *t: kt.gemm(*t[:2], bias=t[2], residual=t[3], scale=0.5),
                   lambda a, b, bias, residual: 0.5 * a @ b + bias + residual, a, b, bias, residual)
        for ta in (False, True):
            for tb in (False, True):
                x, w = self.randn(*((48, 6) if ta else (6, 48))), self.randn(*((80, 48) if tb else (48, 80)))
                got, expected = kt.gemm(x, w, transpose_a=ta, transpose_b=tb), (x.t() if ta else x) @ (w.t() if tb else w)
                for g, e in zip(torch.autograd.grad(got.sum(), (x, w)), torch.autograd.grad(expected.sum(), (x, w))):
                    torch.testing.assert_close(g, e, rtol=1e-3, atol=1e-4)

    def test_rows(self):
        x, up, weight = self.randn(2, 3, 64), self.randn(2, 3, 64), torch.randn(64, device=self.device)
        self.check("softmax", (x,), kt.softmax, lambda x: x.softmax(-1), x)
        self.check("activate", (x, up, "silu"), kt.activate, lambda x, up: torch.nn.functional.silu(x) * up, x, up)
        self.check("activate", (x, None, "silu"), kt.activate, torch.nn.functional.silu, x)
        self.check("rms_norm", (x.detach(), weight, None, 1e-6), None, None)
        self.check("layer_norm", (x.detach(), weight, weight, 1e-6), None, None)
        torch.testing.assert_close(kt.layer_norm(x.detach(), weight), torch.nn.functional.layer_norm(x, (64,), weight).detach())

    def test_tokens(self):
        logits, labels, table, x = self.randn(5, 33), self.i32(3, 0, -100, 32, 7), self.randn(7, 64), self.randn(3, 2, 32)
        self.check("cross_entropy", (logits, labels), lambda x: kt.cross_entropy(x, labels),
                   lambda x: torch.nn.functional.cross_entropy(x, labels.long(), reduction="none"), logits)
        self.check("embedding", (table, self.i32(4, 1, 4), 2.0), lambda t: kt.embedding(t, self.i32(4, 1, 4), scale=2.0),
                   lambda t: 2 * t[[4, 1, 4]], table)
        positions = self.i32(0, 5, 9)
        self.check("rotary_embedding", (x, positions, "halves", 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, False),
                   lambda x: kt.rotary_embedding(x, positions), lambda x: reference_turn(x, positions), x)

    def test_compiled_model(self):
        def layer(x, w):
            q, k, v = kt.gemm(kt.rms_norm(x.detach()) + x, w).view(2, 5, 3, 4, 32).unbind(2)
            return kt.attention(q, k, v, causal=True)[0].flatten(2).sum(1)
        x, w = self.randn(10, 64), self.randn(64, 384)
        graphs = []

        def backend(module, inputs):                # what is traced, run as it is: no compiler is needed
            graphs.append(str(module.code))
            return module
        compiled = torch.compile(layer, fullgraph=True, backend=backend)
        torch.testing.assert_close(compiled(x, w), layer(x, w))
        self.assertEqual(len(graphs), 1)
        self.assertIn("torch.ops.kiln.attention", graphs[0])
        model = torch.nn.Module()
        model.forward = lambda x, w: layer(x, w)
        exported = torch.export.export(model, (x.detach(), w.detach()))
        torch.testing.assert_close(exported.module()(x.detach(), w.detach()), layer(x, w).detach())


@unittest.skipIf(WHY or not torch.cuda.is_available(), WHY or "PyTorch sees no GPU")
class OnAGpu(OnTheHost):
    device = "cuda"

    def test_compiled_with_graphs(self):
        layer = torch.compile(lambda x, w: kt.softmax(kt.gemm(x, w)) * 2, mode="reduce-overhead", fullgraph=True)
        x, w = torch.randn(64, 64, device="cuda"), torch.randn(64, 64, device="cuda")
        for _ in range(3):
            got = layer(x, w).clone()
        torch.testing.assert_close(got, kt.softmax(kt.gemm(x, w)) * 2)


if __name__ == "__main__":
    unittest.main()
