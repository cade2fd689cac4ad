# SPDX-License-Identifier: MIT
"""`kiln.compat.flash_attn` against plain PyTorch, and the cases that it refuses."""
import inspect
import unittest

try:
    import torch
    from kiln.compat import flash_attn as fa
    WHY = None if hasattr(torch.library, "custom_op") else "PyTorch is older than 2.4"
except ImportError:
    torch, WHY = None, "PyTorch is not here"


def reference(q, k, v, causal=False, window=(-1, -1), scale=None):
    """Of one sequence, f64: out [S][H][D] and log-sum-exp [H][S]."""
    q, k, v = q.double(), *(t.double().repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    s = torch.einsum("ihd,jhd->hij", q, k) * (scale or q.shape[-1] ** -0.5)
    i = torch.arange(len(q), device=q.device)[:, None] + len(k) - len(q)
    j, left, right = torch.arange(len(k), device=q.device), window[0], 0 if causal else window[1]
    hidden = torch.zeros_like(s[0], dtype=torch.bool)
    if right >= 0:
        hidden |= j > i + right
    if left >= 0:
        hidden |= j < i - left
    s = s.masked_fill(hidden, -float("inf"))
    lse = s.logsumexp(-1)
    weights = torch.where(lse.isinf()[..., None], 0, (s - lse[..., None]).exp())
    return torch.einsum("hij,jhd->ihd", weights, v), lse


@unittest.skipIf(WHY, WHY)
class OnTheHost(unittest.TestCase):
    device = "cpu"

    def randn(self, *shape, grad=False):
        return torch.randn(*shape, device=self.device).requires_grad_(grad)

    def i32(self, *numbers):
        return torch.tensor(numbers, dtype=torch.int32, device=self.device)

    def near(self, got, expected):
        torch.testing.assert_close(got, expected.to(got.dtype), rtol=2e-3, atol=2e-4)

    def test_masks(self):
        q, k, v = self.randn(2, 6, 4, 32), self.randn(2, 9, 2, 32), self.randn(2, 9, 2, 32)
        for causal, window in ((False, (-1, -1)), (True, (-1, -1)), (True, (3, 0)), (False, (2, 0)), (True, (100, -1)),
                               (False, (8, 8)), (False, (-1, 0))):
            out, lse, probs = fa.flash_attn_func(q, k, v, causal=causal, window_size=window, return_attn_probs=True)
            self.assertIsNone(probs)
            for b in range(2):
                expected, sums = reference(q[b], k[b], v[b], causal, window)
                self.near(out[b], expected), self.near(lse[b], sums)

    def test_more_queries_than_keys(self):
        q, k = self.randn(1, 5, 2, 32), self.randn(1, 1, 1, 32)
        for causal, window in ((True, (0, 0)), (False, (0, 0)), (True, (-1, -1)), (False, (0, 4)), (False, (-1, 7))):
            out, lse, _ = fa.flash_attn_func(q, k, k, causal=causal, window_size=window, return_attn_probs=True)
            expected, sums = reference(q[0], k[0], k[0], causal, window)
            self.near(out[0], expected), self.near(lse[0], sums)

    def test_gradients_and_odd_head_sizes(self):
        q, k, v = self.randn(1, 5, 4, 24, grad=True), self.randn(1, 7, 2, 24, grad=True), self.randn(1, 7, 2, 24, grad=True)
        out = fa.flash_attn_func(q, k, v, softmax_scale=0.3, causal=True, deterministic=True)
        self.assertEqual(out.shape, q.shape)
        expected = reference(q[0], k[0], v[0], True, scale=0.3)[0][None]
        self.near(out, expected)
        dout = torch.randn_like(out)
        for g, e in zip(torch.autograd.grad(out, (q, k, v), dout), torch.autograd.grad(expected, (q, k, v), dout.double())):
            self.near(g, e)

    def test_ragged_batches_and_packed_tensors(self):
        offsets, qkv = self.i32(0, 3, 9), self.randn(9, 3, 4, 32, grad=True)
        out = fa.flash_attn_varlen_qkvpacked_func(qkv, offsets, 6, causal=True)
        expected = torch.cat([reference(*qkv[b:e].unbind(1), True)[0] for b, e in ((0, 3), (3, 9))])
        self.near(out, expected)
        dout = torch.randn_like(out)
        self.near(torch.autograd.grad(out, qkv, dout)[0], torch.autograd.grad(expected, qkv, dout.double())[0])
        q, kv = self.randn(9, 4, 32), self.randn(9, 2, 2, 32)
        self.near(fa.flash_attn_varlen_kvpacked_func(q, kv, offsets, offsets, 6, 6)[3:], reference(q[3:], *kv[3:].unbind(1))[0])
        self.near(fa.flash_attn_kvpacked_func(q[None], kv[None])[0], reference(q, *kv.unbind(1))[0])
        packed = self.randn(1, 9, 3, 2, 32)
        self.near(fa.flash_attn_qkvpacked_func(packed)[0], reference(*packed[0].unbind(1))[0])

    def test_decoding_against_a_cache(self):
        q, k_cache, v_cache, lengths = self.randn(2, 1, 4, 32), self.randn(2, 20, 2, 32), self.randn(2, 20, 2, 32), self.i32(11, 4)
        out, lse = fa.flash_attn_with_kvcache(q, k_cache, v_cache, cache_seqlens=lengths, causal=True, return_softmax_lse=True)
        for b, n in enumerate((11, 4)):
            expected, sums = reference(q[b], k_cache[b, :n], v_cache[b, :n])
            self.near(out[b], expected), self.near(lse[b], sums)
        several, k, v = self.randn(2, 3, 4, 32), self.randn(2, 3, 2, 32), self.randn(2, 3, 2, 32)
        out, lse = fa.flash_attn_with_kvcache(several, k_cache, v_cache, k, v, cache_seqlens=lengths, return_softmax_lse=True)
        for b, n in enumerate((14, 7)):
            self.assertTrue(torch.equal(k_cache[b, n - 3:n], k[b]))
            expected, sums = reference(several[b], k_cache[b, :n], v_cache[b, :n])
            self.near(out[b], expected), self.near(lse[b], sums)
        self.near(fa.flash_attn_with_kvcache(q, k_cache, v_cache)[0], reference(q[0], k_cache[0], v_cache[0])[0])

    def test_causal_queries_and_windows_against_a_cache(self):
        half, lengths = torch.float16, self.i32(11, 4)
        q, k, v = (self.randn(2, n, h, 32).to(half) for n, h in ((3, 4), (20, 2), (20, 2)))
        for causal, window, which in ((True, (-1, -1), None), (True, (4, 0), None), (False, (3, 0), self.i32(1, 0)), (True, (-1, -1), self.i32(1, 1))):
            out, lse = fa.flash_attn_with_kvcache(q, k, v, cache_seqlens=lengths, causal=causal, window_size=window,
                                                  cache_batch_idx=which, return_softmax_lse=True)
            for b, n in enumerate((11, 4)):
                at = b if which is None else int(which[b])
                expected, sums = reference(q[b], k[at, :n], v[at, :n], causal, window)
                torch.testing.assert_close(out[b], expected.to(half), rtol=2e-3, atol=2e-3)
                torch.testing.assert_close(lse[b], sums.float(), rtol=1e-3, atol=1e-3)
        one = fa.flash_attn_with_kvcache(q[:, :1], k, v, cache_seqlens=lengths, window_size=(5, 9))      # no key is past its own
        torch.testing.assert_close(one[0], reference(q[0, :1], k[0, :11], v[0, :11], True, (5, 0))[0].to(half), rtol=2e-3, atol=2e-3)
        many = self.randn(2, 40, 4, 40).to(half)                               # 80 rows a key head, of a size that is padded
        cut = [self.randn(2, 20, 2, 40).to(half) for _ in range(2)]
        out = fa.flash_attn_with_kvcache(many, *cut, cache_seqlens=lengths)
        torch.testing.assert_close(out[1], reference(many[1], cut[0][1, :4], cut[1][1, :4])[0].to(half), rtol=2e-3, atol=2e-3)

    def test_block_tables(self):
        half, table, lengths = torch.float16, self.i32(5, 1, 0, 3).view(2, 2), self.i32(700, 100)
        pages = [self.randn(6, 512, 2, 32).to(half) for _ in range(2)]         # of two of Kiln's pages
        q, k, v = self.randn(2, 2, 4, 32).to(half), self.randn(2, 2, 2, 32).to(half), self.randn(2, 2, 2, 32).to(half)
        out = fa.flash_attn_with_kvcache(q, *pages, k, v, cache_seqlens=lengths, block_table=table, causal=True, softcap=3.0)
        whole = [p[table.long()].flatten(1, 2) for p in pages]
        for b, n in enumerate((702, 102)):
            self.assertTrue(torch.equal(whole[0][b, n - 2:n], k[b]))
            self.assertTrue(torch.equal(whole[1][b, n - 2:n], v[b]))
            capped = fa.flash_attn_func(q[b:b + 1], *(w[b:b + 1, :n] for w in whole), causal=True, softcap=3.0)
            torch.testing.assert_close(out[b], capped[0], rtol=2e-3, atol=2e-3)
        with self.assertRaisesRegex(RuntimeError, "block_table"):
            fa.flash_attn_with_kvcache(q, *pages, k, v, cache_seqlens=self.i32(1023, 0), block_table=table)
        rows = self.randn(5, 4, 32).to(half)
        out, lse, _ = fa.flash_attn_varlen_func(rows, *pages, self.i32(0, 2, 5), self.i32(0, 700, 800), 3, 700, causal=True,
                                                block_table=table, return_attn_probs=True)
        for b, (at, n) in enumerate((((0, 2), 700), ((2, 5), 100))):
            expected, sums = reference(rows[slice(*at)], whole[0][b, :n], whole[1][b, :n], True)
            torch.testing.assert_close(out[slice(*at)], expected.to(half), rtol=2e-3, atol=2e-3)
            torch.testing.assert_close(lse[:, slice(*at)], sums.float(), rtol=1e-3, atol=1e-3)

    def test_rotary_embedding(self):
        cache, q, k = torch.zeros(1, 8, 1, 32, device=self.device), self.randn(1, 1, 1, 32), self.randn(1, 1, 1, 32)
        angles = torch.arange(8, device=self.device)[:, None] * torch.tensor([1.0] + [0.0] * 7, device=self.device)
        for interleaved, pair in ((True, [0, 1]), (False, [0, 8])):
            fa.flash_attn_with_kvcache(q, cache, cache.clone(), k, k, angles.cos(), angles.sin(), 3, causal=True,
                                       rotary_interleaved=interleaved)
            c, s, (a, b) = angles[3, 0].cos(), angles[3, 0].sin(), k[0, 0, 0, pair]
            self.near(cache[0, 3, 0, pair], torch.stack([a * c - b * s, a * s + b * c]))
            self.assertTrue(torch.equal(cache[0, 3, 0, 16:], k[0, 0, 0, 16:]))

    def test_capped_scores(self):
        q, k = self.randn(1, 4, 2, 32), self.randn(1, 6, 2, 32)
        self.near(fa.flash_attn_func(q, k, k, softcap=1e4), fa.flash_attn_func(q, k, k))
        mean = k.mean(1, keepdim=True).expand(1, 4, 2, 32)                 # where all scores are as good as 0
        self.near(fa.flash_attn_func(q, k, k, softcap=1e-6), mean)
        q, k, v = (self.randn(1, n, 2, 32).requires_grad_() for n in (4, 6, 6))
        offsets = self.i32(0, 4), self.i32(0, 6)
        packed = fa.flash_attn_varlen_func(q[0], k[0], v[0], *offsets, 4, 6, softcap=0.7)
        scores = 0.7 * torch.tanh(torch.einsum("bihd,bjhd->bhij", q, k) * 32 ** -0.5 / 0.7)
        expected = torch.autograd.grad(torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v).square().sum(), (q, k, v))
        for out in (fa.flash_attn_func(q, k, v, softcap=0.7), packed):
            for got, gradient in zip(torch.autograd.grad(out.square().sum(), (q, k, v)), expected):
                self.near(got, gradient)

    def test_what_is_not_there_is_said(self):
        q, offsets = self.randn(1, 4, 2, 32), self.i32(0, 4)
        for call, says in ((lambda: fa.flash_attn_func(q, q, q, 0.1), "dropout_p"),
                           (lambda: fa.flash_attn_func(q, q, q, alibi_slopes=q), "alibi_slopes"),
                           (lambda: fa.flash_attn_func(q, q, q, window_size=(1, 1)), "window_size = (1, 1)"),
                           (lambda: fa.flash_attn_with_kvcache(q, q, q, alibi_slopes=q), "alibi_slopes"),
                           (lambda: fa.flash_attn_with_kvcache(q, q, q, window_size=(1, 1)), "window_size = (1, 1)"),
                           (lambda: fa.flash_attn_with_kvcache(q, q, q, cache_leftpad=offsets), "cache_leftpad")):
            with self.assertRaises(NotImplementedError) as caught:
                call()
            self.assertIn(says, str(caught.exception))

    def test_signatures(self):
        names = list(inspect.signature(fa.flash_attn_with_kvcache).parameters)
        self.assertEqual(names, "q k_cache v_cache k v rotary_cos rotary_sin cache_seqlens cache_batch_idx cache_leftpad "
                                "block_table softmax_scale causal window_size softcap rotary_interleaved alibi_slopes num_splits "
                                "return_softmax_lse".split())
        self.assertEqual(len(inspect.signature(fa.flash_attn_varlen_func).parameters), 16)


@unittest.skipIf(WHY or not torch.cuda.is_available(), WHY or "PyTorch sees no GPU")
class OnAGpu(OnTheHost):
    device = "cuda"


if __name__ == "__main__":
    unittest.main()
