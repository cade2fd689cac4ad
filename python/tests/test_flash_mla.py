# SPDX-License-Identifier: MIT
"""`kiln.compat.flash_mla` against plain PyTorch, over caches that are packed here byte by byte, and the cases that it refuses."""
import inspect
import unittest

try:
    import torch
    from kiln.compat import flash_mla as fm
    WHY = None if hasattr(torch.library, "custom_op") else "PyTorch is older than 2.4"
except ImportError:
    torch, WHY = None, "PyTorch is not here"

INF = float("inf")


def attend(q, keys, values, hidden=None, sink=None, scale=None):
    """Of one sequence, f64: q [S][H][D] over keys [H or S][N][D]; out [S][H][DV] and log-sum-exp [S][H]. hidden: [S][N]."""
    s = torch.einsum("shd,snd->shn", q.double(), keys.double()) * (scale or q.shape[-1] ** -0.5)
    if hidden is not None:
        s = s.masked_fill(hidden[:, None], -INF)
    lse = s.logsumexp(-1)
    total = lse if sink is None else torch.logaddexp(lse, sink.double())
    weights = torch.where(lse.isinf()[..., None], 0, (s - total[..., None]).exp())
    return torch.einsum("shn,snd->shd", weights, values.double()), lse


def packed(keys):
    """An fp8 cache [pages][size][1][656 or 584] of keys [pages][size][576 or 512] with scales of powers of two, and the keys
    that it stands for."""
    pages, size, width = keys.shape
    group, codes = (128, 512) if width == 576 else (64, 448)
    parts = keys[..., :codes].float().view(pages, size, -1, group)
    scales = torch.exp2((parts.abs().amax(-1) / 448).clamp_min(1e-4).log2().ceil())
    bytes_ = (parts / scales[..., None]).to(torch.float8_e4m3fn)
    seen = torch.cat([(bytes_.float() * scales[..., None]).view(pages, size, codes).to(keys.dtype), keys[..., codes:]], -1)
    rows = [bytes_.view(pages, size, codes).view(torch.uint8), keys[..., codes:].contiguous().view(torch.uint8)]
    if width == 576:
        cache = torch.cat([rows[0], scales.view(torch.uint8).view(pages, size, 16), rows[1]], -1)
        return cache.view(pages, size, 1, 656), seen
    exponents = torch.zeros(pages, size, 8, dtype=torch.uint8, device=keys.device)
    exponents[..., :7] = (scales.log2() + 127).to(torch.uint8)
    page = torch.cat([torch.cat(rows, -1).view(pages, -1), exponents.view(pages, -1)], 1)
    padded = torch.zeros(pages, -(-page.shape[1] // 576) * 576, dtype=torch.uint8, device=keys.device)
    padded[:, :page.shape[1]] = page
    return padded[:, :page.shape[1]].view(pages, size, 1, 584), seen


@unittest.skipIf(WHY, WHY)
class OnTheHost(unittest.TestCase):
    device = "cpu"

    def bf16(self, *shape, grad=False):
        return torch.randn(*shape, device=self.device).to(torch.bfloat16).requires_grad_(grad)

    def i32(self, *numbers):
        return torch.tensor(numbers, dtype=torch.int32, device=self.device)

    def near(self, got, expected, tolerance=8e-3):
        torch.testing.assert_close(got.double(), expected, rtol=tolerance, atol=tolerance)

    def dense(self, lengths, table, page, queries, heads, causal=False):
        """A dense step: its arguments, and what it must give."""
        q, rows = self.bf16(len(lengths), queries, heads, 576), self.bf16(int(table.max()) + 1, page, 576) / 4
        results = []
        for b, n in enumerate(lengths.tolist()):
            keys = torch.cat([rows[p] for p in table[b]])[:n].expand(queries, -1, -1)
            last = n - queries + torch.arange(queries, device=self.device)[:, None]
            hidden = torch.arange(n, device=self.device) > last if causal else None
            results.append(attend(q[b], keys, keys[..., :512], hidden))
        return q, rows, torch.stack([r[0] for r in results]), torch.stack([r[1].t() for r in results])

    def test_dense_decoding(self):
        lengths, table = self.i32(70, 0, 64), self.i32([1, 3], [0, 0], [2, 4])
        for causal in (False, True):
            q, rows, expected, sums = self.dense(lengths, table, 64, 2, 16, causal)
            plan, nothing = fm.get_mla_metadata(lengths, 32, 1)
            self.assertIsNone(nothing)
            self.assertFalse(plan.have_initialized)
            for _ in "the first call plans, the second takes its plan".split(","):
                out, lse = fm.flash_mla_with_kvcache(q, rows[:, :, None], table, lengths, 512, plan, causal=causal)
                self.near(out, expected), self.near(lse[[0, 2]], sums[[0, 2]], 2e-3)
                self.assertTrue((lse[1] == INF).all())
            self.assertEqual((plan.config.h_q, plan.config.page_block_size, plan.config.topk), (16, 64, None))
            self.assertIsNotNone(plan.tile_scheduler_metadata)
            self.assertIsNotNone(plan.num_splits)

    def test_dense_decoding_of_fp8(self):
        lengths, table = self.i32(37, 5), self.i32([1, 0], [2, 0])
        q, rows, _, _ = self.dense(lengths, table, 32, 1, 16)
        cache, seen = packed(rows)
        out, lse = fm.flash_mla_with_kvcache(q, cache, table, lengths, 512, fm.get_mla_metadata()[0], is_fp8_kvcache=True,
                                             softmax_scale=0.1)
        for b, n in enumerate((37, 5)):
            keys = torch.cat([seen[p] for p in table[b]])[None, :n]
            expected, sums = attend(q[b], keys, keys[..., :512], scale=0.1)
            self.near(out[b], expected), self.near(lse[b], sums.t(), 2e-3)

    def lists(self, batch, queries, topk, slots, counts):
        """Lists of slots, each with holes; which count."""
        indices = torch.stack([torch.randperm(slots)[:topk] for _ in range(batch * queries)]).view(batch, queries, topk)
        indices[..., ::5] = -1
        far = torch.arange(topk) >= torch.tensor(counts)[:, None, None]
        hidden = (indices < 0) | (far if counts else False)
        return indices.to(self.device, torch.int32), hidden.to(self.device)

    def test_sparse_decoding(self):
        torch.manual_seed(1)
        batch, queries, heads, sink = 2, 2, 16, torch.linspace(-2, 2, 16, device=self.device)
        for width in (576, 512):
            q = self.bf16(batch, queries, heads, width)
            cache, seen = packed(self.bf16(4, 33 if width == 512 else 32, width) / 2)
            extra, more = packed(self.bf16(3, 48, width) / 2)
            indices, hidden = self.lists(batch, queries, 64, 128, [64, 20])
            indices2, hidden2 = self.lists(batch, queries, 128, 144, [100, 128])
            plan, _ = fm.get_mla_metadata()
            out, lse = fm.flash_mla_with_kvcache(
                q, cache.view(torch.float8_e4m3fn), None, None, 512, plan, is_fp8_kvcache=True, indices=indices, attn_sink=sink,
                extra_k_cache=extra.view(torch.float8_e4m3fn), extra_indices_in_kvcache=indices2, topk_length=self.i32(64, 20),
                extra_topk_length=self.i32(100, 128))
            for b in range(batch):
                keys = torch.cat([seen.flatten(0, 1)[indices[b].clamp_min(0).long()],
                                  more.flatten(0, 1)[indices2[b].clamp_min(0).long()]], 1)
                expected, sums = attend(q[b], keys, keys[..., :512], torch.cat([hidden[b], hidden2[b]], 1), sink)
                self.near(out[b], expected), self.near(lse[b], sums.t(), 2e-3)
            self.assertEqual((plan.config.extra_page_block_size, plan.config.extra_topk), (48, 128))

    def test_sparse_prefill(self):
        torch.manual_seed(2)
        for width in (576, 512):
            q, kv = self.bf16(5, 16, width), self.bf16(40, 1, width) / 2
            indices, hidden = self.lists(1, 5, 32, 40, [32])
            indices[0, 3], hidden[0, 3] = 40, True                  # past the rows
            hidden[0, 2, 7:] = True
            lengths = self.i32(32, 32, 7, 32, 32)
            out, most, lse = fm.flash_mla_sparse_fwd(q, kv, indices.transpose(0, 1), 0.05, topk_length=lengths)
            keys = kv[:, 0][indices[0].clamp(0, 39).long()]
            expected, sums = attend(q, keys, keys[..., :512], hidden[0], scale=0.05)
            seen = [0, 1, 2, 4]
            self.near(out, expected), self.near(lse[seen], sums[seen], 2e-3)
            scores = torch.einsum("shd,snd->shn", q.double(), keys.double()).masked_fill(hidden[0][:, None], -INF) * 0.05
            self.near(most[seen], scores.amax(-1)[seen], 2e-3)
            self.assertTrue((lse[3] == INF).all() and (most[3] == -INF).all() and (out[3] == 0).all())
            sink = torch.randn(16, device=self.device)
            self.near(fm.flash_mla_sparse_fwd(q, kv, indices.transpose(0, 1), 0.05, 512, sink, lengths)[0],
                      attend(q, keys, keys[..., :512], hidden[0], sink, 0.05)[0])

    def test_heads_with_keys_of_their_own(self):
        offsets, d, dv = self.i32(0, 3, 9), 48, 32
        qkv = self.bf16(9, 4, 2 * d + dv, grad=True)
        out, lse = fm.flash_attn_varlen_qkvpacked_func(qkv, offsets, 6, d, causal=True, deterministic=True)
        parts = qkv[..., :d], qkv[..., d:2 * d], qkv[..., 2 * d:]
        same, _ = fm.flash_attn_varlen_kvpacked_func(parts[0], qkv[..., d:], offsets, offsets, 6, 6, d, causal=True)
        self.assertTrue(torch.equal(same, out))
        self.assertEqual((lse.shape, lse.stride()), ((9, 4), (1, 9)))
        for b, e in ((0, 3), (3, 9)):
            q, k, v = (t[b:e].transpose(0, 1).detach() for t in parts)          # [H][N][D]
            hidden = torch.ones(e - b, e - b, dtype=torch.bool, device=self.device).triu(1)
            for h in range(4):
                keys, values = (t[h].expand(e - b, -1, -1) for t in (k, v))
                expected, sums = attend(q[h][:, None], keys, values, hidden)
                self.near(out[b:e, h], expected[:, 0], 2e-2), self.near(lse[b:e, h], sums[:, 0], 5e-3)
        dout = torch.randn_like(out)
        mine, = torch.autograd.grad(out, qkv, dout)
        q, k, v = (t.detach().float().requires_grad_() for t in parts)
        expected = torch.cat([torch.nn.functional.scaled_dot_product_attention(
            *(t[b:e].transpose(0, 1) for t in (q, k, v)), is_causal=True).transpose(0, 1) for b, e in ((0, 3), (3, 9))])
        theirs = torch.autograd.grad(expected, (q, k, v), dout.float())
        self.near(mine, torch.cat(theirs, -1).double(), 5e-2)
        q, k, v = (t.detach() for t in parts)
        out, _ = fm.flash_attn_varlen_func(q, k[:, :2], v[:, :2], offsets, offsets, 6, 6, softmax_scale=0.2, is_varlen=True)
        self.near(out[:3, 3], attend(q[:3, 3:], k[:3, 1].expand(3, -1, -1), v[:3, 1].expand(3, -1, -1), scale=0.2)[0][:, 0], 2e-2)

    def test_a_plan_is_for_one_kind_of_call(self):
        lengths, table = self.i32(20), self.i32([0, 1])
        q, rows, expected, _ = self.dense(lengths, table, 16, 1, 16)
        plan, _ = fm.get_mla_metadata()
        with self.assertRaises(Exception):                          # nothing is kept of a call that failed
            fm.flash_mla_with_kvcache(q, rows[:, :, None], table, lengths.long(), 512, plan)
        self.assertFalse(plan.have_initialized)
        fm.flash_mla_with_kvcache(q, rows[:, :, None], table, lengths, 512, plan)
        with self.assertRaises(ValueError) as caught:
            fm.flash_mla_with_kvcache(q[:, :, :8], rows[:, :, None], table, lengths, 512, plan)
        self.assertIn("the call has h_q = 8, but its plan was made for 16", str(caught.exception))
        old, plan.tile_scheduler_metadata = plan.plan, None         # plan anew
        self.near(fm.flash_mla_with_kvcache(q, rows[:, :, None], table, lengths, 512, plan)[0], expected)
        self.assertIsNot(plan.plan, old)

    def test_compiled_code_breaks_at_the_call(self):
        lengths, table = self.i32(20), self.i32([0, 1])
        q, rows, expected, _ = self.dense(lengths, table, 16, 1, 16)

        @torch.compile(backend="eager")
        def step(q):
            out, _ = fm.flash_mla_with_kvcache(q * 1, rows[:, :, None], table, lengths, 512, fm.get_mla_metadata()[0])
            return out * 1
        self.near(step(q), expected)

    def test_what_is_not_there_is_said(self):
        q, rows, table, lengths = self.bf16(1, 1, 16, 576), self.bf16(1, 16, 1, 576), self.i32([0]), self.i32(3)
        cache, kv, indices = packed(rows[:, :, 0])[0], rows[0], self.i32([[0] * 64])

        def decode(*args, **kwargs):
            return lambda: fm.flash_mla_with_kvcache(*args, **kwargs)
        plan = fm.FlashMLASchedMeta()
        for call, kind, says in (
                (decode(q, rows, table, lengths, 256, plan), NotImplementedError, "head_dim_v = 256"),
                (decode(q[..., :512], rows, table, lengths, 512, plan), NotImplementedError, "keys of 512 are not supported"),
                (decode(q, rows, table, lengths, 512, plan, attn_sink=q), NotImplementedError, "dense decoding: attn_sink"),
                (decode(q, rows, None, None, 512, plan, indices=indices), NotImplementedError, "without is_fp8_kvcache"),
                (decode(q, cache.expand(-1, -1, 2, -1), None, None, 512, plan, is_fp8_kvcache=True, indices=indices),
                 NotImplementedError, "2 key heads"),
                (decode(q, rows, None, lengths, 512, plan), ValueError, "needs block_table and cache_seqlens"),
                (decode(q, rows, table, lengths, 512, plan, num_splits=lengths), ValueError, "num_splits"),
                (decode(q, rows, table, lengths, 512, plan, is_fp8_kvcache=True), ValueError, "is_fp8_kvcache is True"),
                (decode(q, cache, None, None, 512, plan, causal=True, is_fp8_kvcache=True, indices=indices), ValueError, "causal"),
                (decode(q, rows, table, lengths, 512, lengths), TypeError, "FlashMLASchedMeta"),
                (lambda: fm.flash_mla_sparse_fwd(q[0], kv, indices, 1.0, 256), NotImplementedError, "d_v = 256"),
                (lambda: fm.flash_mla_sparse_fwd(q[0], kv.expand(-1, 2, -1), indices, 1.0), NotImplementedError, "2 key heads"),
                (lambda: fm.flash_attn_varlen_func(kv, kv, kv, lengths, lengths, 3, 3, 0.1), NotImplementedError, "dropout_p")):
            with self.assertRaises(kind) as caught:
                call()
            self.assertIn(says, str(caught.exception))
        self.assertFalse(plan.have_initialized)

    def test_signatures(self):
        self.assertEqual(list(inspect.signature(fm.flash_mla_with_kvcache).parameters),
                         "q k_cache block_table cache_seqlens head_dim_v tile_scheduler_metadata num_splits softmax_scale causal "
                         "is_fp8_kvcache indices attn_sink extra_k_cache extra_indices_in_kvcache topk_length "
                         "extra_topk_length".split())
        self.assertEqual(list(inspect.signature(fm.flash_mla_sparse_fwd).parameters),
                         "q kv indices sm_scale d_v attn_sink topk_length".split())
        self.assertEqual(list(inspect.signature(fm.flash_attn_varlen_func).parameters),
                         "q k v cu_seqlens_qo cu_seqlens_kv max_seqlen_qo max_seqlen_kv dropout_p softmax_scale causal "
                         "deterministic is_varlen".split())


@unittest.skipIf(WHY or not torch.cuda.is_available(), WHY or "PyTorch sees no GPU")
class OnAGpu(OnTheHost):
    device = "cuda"


if __name__ == "__main__":
    unittest.main()
