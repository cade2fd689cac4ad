# SPDX-License-Identifier: MIT
"""The operators against NumPy: results, outputs that are allocated or given, messages; the structs against the headers."""
import os
import re
import unittest

import numpy as np

import kiln
from kiln import _calls, ops

HEADERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "include", "kiln", "ops")
random = np.random.default_rng(1)


def normal(*shape):
    return random.standard_normal(shape, dtype=np.float32)


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q, k, v, causal=False, scale=None):
    """Of one sequence: [S][H][D], [SKV][HKV][D], [SKV][HKV][DV]; out and log-sum-exp [H][S]."""
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(t, group, 1).astype("f8") for t in (k, v))
    s = np.einsum("ihd,jhd->hij", q.astype("f8"), k) * (scale or q.shape[-1] ** -0.5)
    if causal:
        i, j = np.indices(s.shape[1:])
        s[:, j > i + s.shape[2] - s.shape[1]] = -np.inf
    m = s.max(-1, keepdims=True)
    return np.einsum("hij,jhd->ihd", softmax(s), v), (m + np.log(np.exp(s - m).sum(-1, keepdims=True)))[..., 0]


def floats(x):
    """bf16, in whatever form it came."""
    bits = np.asarray(x) if isinstance(x, kiln.Tensor) else x.view("u2")
    return (bits.astype("u4") << 16).view("f4")


def near(got, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(got), expected, rtol=tolerance, atol=tolerance)


class Products(unittest.TestCase):
    def test_products(self):
        a, b, bias, residual = normal(6, 48), normal(80, 48), normal(80), normal(6, 80)
        c = ops.gemm(a, b, bias=bias, residual=residual, transpose_b=True, activation="relu", scale=0.5)
        near(c, np.maximum(0.5 * a @ b.T + bias, 0) + residual, 1e-4)
        given = np.empty((6, 80), "f4")
        self.assertIs(ops.gemm(a, b, given, bias=bias, residual=residual, transpose_b=True, activation="relu", scale=0.5), given)
        np.testing.assert_array_equal(c, given)

    def test_quantised_products(self):
        a, codes, scales = normal(3, 128), np.arange(40 * 128).reshape(40, 128) * 7 % 16, (normal(40, 2) / 8).astype("f2")
        zeros = (np.arange(80).reshape(40, 2) % 16).astype("u1")
        weights = ops.quant_pack((codes[:, ::2] | codes[:, 1::2] << 4).astype("u1"), scales, zeros, format="int4", n=40, k=128,
                                 group=64, weight_group=64, type="f16")
        expected = (codes - zeros.repeat(64, 1)) * scales.astype("f8").repeat(64, 1)
        for rows in (1, 3, 12):
            x = np.tile(a, (4, 1))[:rows].astype("f2")
            near(ops.quantised_gemm(x, weights, type="f32"), x.astype("f8") @ expected.T, 3e-2)
        i = np.arange(3 * 128).reshape(3, 128).astype("i1")
        whole = ops.quant_pack((codes - 8).astype("i1").view("u1"), format="w8a8", n=40, k=128)
        np.testing.assert_array_equal(ops.quantised_gemm(i, whole, type="f32"), i.astype("i4") @ (codes - 8).T)
        near(ops.quant_unpack(weights, 128, type="f32"), expected)
        with self.assertRaises(TypeError):
            ops.quant_pack(codes, format="int3", n=40, k=128)

    def test_ternary_weights(self):
        w, x = normal(40, 128), normal(3, 128)
        made = ops.quant_ternary(w, np.array([0, 24, 40], "i4"))
        mean = np.concatenate([np.abs(w[:24]).mean().repeat(24), np.abs(w[24:]).mean().repeat(16)])[:, None]
        near(ops.quant_unpack(made, 128, type="f32"), np.clip(np.rint(w / mean), -1, 1) * mean, 1e-4)
        a, scales = ops.cast_int8(x)
        near(scales, np.abs(x).max(1) / 127)
        near(a, np.rint(x / np.asarray(scales)[:, None]))
        expected = (np.asarray(a) * np.asarray(scales)[:, None]) @ (np.clip(np.rint(w / mean), -1, 1) * mean).T
        near(ops.quantised_gemm(a, made, a_scales=scales, type="f32"), expected, 1e-3)

    def test_messages_name_what_is_wrong(self):
        a = normal(6, 48)
        for call, says in ((lambda: ops.gemm(a, normal(40, 8)), "dimension 0 of 'b' is 40, expected 48"),
                           (lambda: ops.gemm(a[0], a), "'a' has rank 1, expected 2, or 3"),
                           (lambda: ops.gemm(a, a.astype("f8"), transpose_b=True), "'b' is a tensor of f64, expected f32"),
                           (lambda: ops.attention(a, a, a), "'q' has rank 2, expected 4"),
                           (lambda: ops.softmax(a[:, ::2]), "stride"),
                           (lambda: ops.softmax(a, type="i7"), "there is no type 'i7'")):
            with self.assertRaises(kiln.Error) as caught:
                call()
            self.assertIn(says, str(caught.exception))
        with self.assertRaises(TypeError) as caught:
            ops.gemm(a, a, activation="tanh")
        self.assertIn("activation is 'tanh', expected one of none, relu, gelu, gelu_tanh, silu", str(caught.exception))
        a.flags.writeable = False
        with self.assertRaises(kiln.Error) as caught:
            ops.gemm(normal(6, 6), normal(6, 48), a)
        self.assertIn("'c' is written, but its memory may only be read", str(caught.exception))


class Attention(unittest.TestCase):
    def test_forward_and_backward(self):
        q, k, v = normal(2, 5, 4, 32), normal(2, 7, 2, 32), normal(2, 7, 2, 32)
        out, lse = ops.attention(q, k, v, causal=True, return_lse=True)
        for b in range(2):
            expected, sums = attention(q[b], k[b], v[b], causal=True)
            near(out[b], expected), near(lse[b], sums)
        dout, step = normal(2, 5, 4, 32), 1e-3
        dq, dk, dv = ops.attention_backward(q, k, v, out, lse, dout, causal=True)
        for t, gradient in ((q, dq), (k, dk), (v, dv)):             # along one direction, by differences
            direction, ends = normal(*t.shape).astype("f8"), []
            for s in (step, -step):
                moved = [x + s * direction if x is t else x for x in (q, k, v)]
                ends.append(sum((attention(*(x[b] for x in moved), causal=True)[0] * dout[b]).sum() for b in range(2)))
            near((gradient * direction).sum(), (ends[0] - ends[1]) / (2 * step), 2e-3)

    def test_ragged_and_decode(self):
        q, k, v, offsets = normal(9, 4, 32), normal(9, 2, 32), normal(9, 2, 32), np.array([0, 3, 9], "i4")
        out = ops.attention_varlen(q, k, v, offsets, offsets, 6)
        for b, e in ((0, 3), (3, 9)):
            near(out[b:e], attention(q[b:e], k[b:e], v[b:e])[0])
        kv = np.concatenate([k, v], 2)
        np.testing.assert_array_equal(ops.attention_kvpacked(q, kv, offsets, offsets, 6), out)
        kv = np.concatenate([np.repeat(k, 2, 1), np.repeat(v, 2, 1)], 2)
        packed, lse = ops.attention_qkvpacked(np.concatenate([q, kv], 2), offsets, 32, 6, return_lse=True)
        near(packed, out)
        dq, dk, dv = ops.attention_backward_varlen(q, k, v, offsets, offsets, 6, out, lse, out)
        near((dq * q).sum(), (dk * k).sum(), 1e-3)              # of the scores, from either side
        self.assertEqual(dv.shape, v.shape)
        q, k, v = normal(2, 4, 32), normal(2, 40, 2, 32), normal(2, 40, 2, 32)
        out, lse = ops.attention_decode(q, k, v, lengths=np.array([40, 11], "i4"), return_lse=True)
        for b, n in ((0, 40), (1, 11)):
            expected, sums = attention(q[b:b + 1], k[b, :n], v[b, :n])
            near(out[b], expected[0]), near(lse[b], sums[:, 0])

    def test_masked_decode_appends_the_token(self):
        r, h, hkv, d, page = 2, 4, 2, 32, 8
        qkv = normal(r, h + 2 * hkv, d)
        q, k, v = qkv[:, :h], qkv[:, h:h + hkv], qkv[:, h + hkv:]
        cache, table, lengths = normal(r * 4, hkv, page, d), np.arange(r * 4, dtype="i4").reshape(r, 2, 2), np.array([3, 9], "i4")
        before = cache.copy()
        out = ops.masked_decode(q, k, v, cache, table, lengths)
        for i, n in enumerate(lengths):
            keys, values = (np.concatenate(list(before[table[i, j]].transpose(0, 2, 1, 3)))[:n] for j in (0, 1))
            near(out[i], attention(q[i:i + 1], np.concatenate([keys, k[i:i + 1]]), np.concatenate([values, v[i:i + 1]]))[0][0])
            np.testing.assert_array_equal(cache[table[i, 0, n // page], :, n % page], k[i])
        table[1, 0, 0] = 99
        with self.assertRaises(kiln.Error) as caught:
            ops.masked_decode(q, k, v, cache, table, lengths)
        self.assertEqual(caught.exception.status, "trapped")
        with self.assertRaises(TypeError):
            ops.masked_decode(q, k, v, cache, table, lengths, rotary=ops.Rotary("spiral"))


    def test_paged_caches(self):
        page, h, hkv, d = 4, 4, 2, 32
        table, lengths, offsets = np.array([[5, 0, 3], [2, 4, 1]], "i4"), np.array([11, 6], "i4"), np.array([0, 2, 3], "i4")
        k, v = np.zeros((6, page, hkv, d), "f2"), np.zeros((6, page, hkv, d), "f2")
        keys, values = ([normal(n, hkv, d).astype("f2") for n in lengths] for _ in range(2))
        for b, n in enumerate(lengths):                             # a prompt each, as it is
            slots, positions = ops.paged_slots(table[b:b + 1], lengths[b:b + 1], int(n), page)
            np.testing.assert_array_equal(positions, np.arange(n))
            ops.paged_append(keys[b], values[b], k, v, slots)
        q = normal(3, h, d).astype("f2")
        out, lse = ops.paged_attention(q, k, v, table, lengths, q_offsets=offsets, causal=True, return_lse=True)
        for b, n in enumerate(lengths):
            expected, sums = attention(*(x.astype("f4") for x in (q[offsets[b]:offsets[b + 1]], keys[b], values[b])), causal=True)
            near(out[offsets[b]:offsets[b + 1]], expected, 3e-3), near(lse[offsets[b]:offsets[b + 1]], sums.T, 3e-3)
        plan = ops.paged_plan(lengths, rows=3, heads=h, key_heads=hkv, size=d, q_offsets=offsets, causal=True, parts=2)
        planned = ops.paged_attention(q, k, v, table, lengths, q_offsets=offsets, causal=True, plan=plan)
        near(planned.astype("f4"), out.astype("f4"), 3e-3)
        slots, positions = ops.paged_slots(table, lengths, 3, page, q_offsets=offsets)
        np.testing.assert_array_equal(positions, [9, 10, 5])
        new = normal(3, hkv, d).astype("f2")
        ops.paged_append(new, new, k, v, slots, positions=positions, rotary=ops.Rotary())
        np.testing.assert_array_equal(v.reshape(-1, hkv, d)[slots], new)
        near((k.reshape(-1, hkv, d)[slots] ** 2).sum(), (new ** 2).sum(), 1e-2)

    def test_native_sparse_attention(self):
        t, h, hkv, d, size, s, w = 90, 4, 2, 32, 16, 3, 20
        q, k, v = (normal(t, n, d).astype("f2") for n in (h, hkv, hkv))
        gates = np.random.default_rng(5).random((3, t, h), "f4")
        compressed, blocks, sums = ops.nsa_choose(q, k, v, s, block_size=size, return_lse=True)
        self.assertEqual((compressed.shape, blocks.shape, sums.shape), ((t, h, d), (t, hkv, s), (t, h)))
        np.testing.assert_array_equal(blocks[:, :, 0], np.arange(t)[:, None].repeat(hkv, 1) // size)
        selected, lse = ops.nsa_selected(q, k, v, blocks, block_size=size, return_lse=True)
        for i in (0, 15, 16, 70, 89):
            for j in range(h):
                keys = [x for x in range(i + 1) if x // size in blocks[i, j // 2]]
                score = k[keys, j // 2].astype("f4") @ q[i, j].astype("f4") / np.sqrt(d)
                weights = np.exp(score - score.max())
                near(selected[i, j], weights @ v[keys, j // 2].astype("f4") / weights.sum(), 3e-3)
                near(lse[i, j], score.max() + np.log(weights.sum()), 3e-3)
        offsets = np.array([0, t], "i4")
        window = ops.attention_varlen(q, k, v, offsets, offsets, t, window=w)
        branches = dict(compressed=compressed, g_compressed=gates[0], window=window, g_window=gates[2])
        out = ops.nsa_combine(selected, gates[1], **branches)
        near(ops.nsa_forward(q, k, v, gates[1], g_compressed=gates[0], g_window=gates[2], offsets=offsets,
                             block_size=size, blocks=s, window=w), out, 3e-3)
        dout = normal(t, h, d).astype("f2")
        dc, ds, dw, gc, gs, gw = ops.nsa_combine_backward(dout, selected, gates[1], **branches)
        near(gs, (dout.astype("f4") * selected).sum(-1), 3e-3), near(dw, gates[2][..., None] * dout, 3e-3)
        exact = ops.nsa_selected_backward(q, k, v, selected, lse, ds, blocks, block_size=size)
        fused = ops.nsa_selected_backward(q, k, v, selected, lse, ds, blocks, block_size=size, fused=True)
        for x, y in zip(exact, fused):
            near(x, y, 1e-2)
        cq, ck, cv, pk, pv = ops.nsa_compressed_backward(q, k, v, compressed, sums, dc, block_size=size)
        self.assertEqual((cq.shape, ck.shape, cv.shape, pk, pv), (q.shape, k.shape, v.shape, None, None))
        near(ck[:size], ck[:1].repeat(size, 0)), near(ck[80:], 0 * ck[80:])     # spread by the mean; a block not full is not seen
        length, pooled = np.array([t], "i4"), [np.zeros((1, 6, hkv, d), "f2") for _ in range(2)]
        for x, y in zip((k, v), pooled):
            ops.nsa_decode_pool(x[None], length, y, block_size=size, all=True)
        step, listed = ops.nsa_decode_choose(q[-1:], *pooled, length, s, block_size=size)
        near(step, compressed[-1:], 3e-3), np.testing.assert_array_equal(listed, blocks[-1:])
        last = ops.nsa_decode(q[-1:], k[None], v[None], blocks[-1:], block_size=size)
        near(last, selected[-1:], 3e-3)


    def test_blocks_of_keys(self):
        h, hkv, d, rows = 4, 2, 32, 32
        q, k, v = normal(1, 64, h, d), normal(1, 64, hkv, d), normal(1, 64, hkv, d)
        scores = normal(1, 1, 2, 2)
        mask = ops.block_mask(scores, 64, 64, causal=True, query_block=rows, key_block=rows, top=2)
        np.testing.assert_array_equal(mask[0, 0], [[1, 0], [1, 1]])
        near(ops.block_sparse(q, k, v, mask=mask, causal=True, query_block=rows, key_block=rows), ops.attention(q, k, v, causal=True))
        blocks, one = np.array([[[1, -1], [-1, 1]]], "i4"), np.array([64], "i4")
        out, lse = ops.block_sparse_decode(q[:, -1], k, v, one, list=blocks, key_block=rows, return_lse=True)
        expected, sums = attention(q[0, -1:], k[0, rows:], v[0, rows:])
        near(out, expected), near(lse[0], sums[:, 0])

    def test_columns_and_diagonals(self):
        q, k, v = (normal(1, 100, h, 32).astype("f2") for h in (2, 1, 1))
        vertical, slash = ops.vertical_slash_estimate(q, k, 100, 40)       # every column: all is seen
        np.testing.assert_array_equal(vertical[0, 1], np.arange(100))
        near(ops.vertical_slash(q, k, v, vertical, slash), ops.attention(q, k, v, causal=True), 3e-3)

    def test_sinks(self):
        q, k, v, dout, sinks = normal(1, 20, 4, 32), normal(1, 20, 2, 32), normal(1, 20, 2, 32), normal(1, 20, 4, 32), normal(4)
        out, lse = ops.attention(q, k, v, window=8, sinks=sinks, return_lse=True)
        gradients = ops.attention_backward(q, k, v, out, lse, dout, window=8, sinks=sinks)
        share = np.exp(sinks[None, :, None] - lse)                         # of a row's weights
        near(gradients[3], -(share * (out * dout).sum(3).transpose(0, 2, 1)).sum((0, 2)), 1e-3)
        capped = ops.attention(q, k, v, softcap=1e4)
        near(capped, ops.attention(q, k, v), 1e-3)


class Latent(unittest.TestCase):
    def test_a_step_of_dense_decoding(self):
        batch, heads, page = 2, 16, 16
        table, lengths = np.array([[1, 3], [2, 0]], "i4"), np.array([20, 7], "i4")
        rows, keys, q = (normal(*shape).astype("f2") for shape in ((4, page, 576), (batch, 1, 576), (batch, 1, heads, 576)))
        cache = rows.reshape(4, page, 1, 576)
        slots = ops.mla_slots(table, lengths, 1, page)
        np.testing.assert_array_equal(slots, [[3 * page + 3], [2 * page + 6]])
        self.assertIs(ops.mla_append(keys, cache, slots), cache)
        plan = ops.mla_plan(lengths, query_heads=heads)
        self.assertIn("batch=2, queries=1, query_heads=16, key_heads=1", repr(plan))
        out, lse = ops.mla_decode(plan, q, cache, table, lengths)
        for b, n in enumerate(lengths):
            seen = np.concatenate([rows[p] for p in table[b]])[:n, None]
            np.testing.assert_array_equal(seen[n - 1, 0], keys[b, 0])
            expected, sums = attention(q[b].astype("f4"), seen.astype("f4"), seen[..., :512].astype("f4"))
            near(out[b].astype("f4"), expected, 4e-3), near(lse[b], sums, 2e-3)
        np.testing.assert_array_equal(ops.mla_decode(plan, q, cache, table, lengths, return_lse=False), out)

    def test_contiguous_caches(self):
        lengths, heads, size = np.array([30, 7], "i4"), 16, 30
        q, q_rotary, cache, rotary = (normal(*s).astype("f2") / 4 for s in ((2, heads, 512), (2, heads, 64), (2, size, 512), (2, size, 64)))
        out, lse = ops.mla_decode_contiguous(q, q_rotary, cache, rotary, lengths=lengths)
        for b, n in enumerate(lengths):
            keys = np.concatenate([cache[b, :n], rotary[b, :n]], 1).astype("f4")[:, None]
            queries = np.concatenate([q[b], q_rotary[b]], 1).astype("f4")[None]
            expected, sums = attention(queries, keys, keys[..., :512])
            near(out[b].astype("f4"), expected[0], 4e-3), near(lse[b], sums[:, 0], 2e-3)

    def test_lists_of_rows(self):
        rows, heads = normal(1, 32, 576).astype("f2"), 16
        cache = ops.mla_quantize(rows[0], np.zeros((2, 16, 656), "u1"))
        kv = ops.mla_dequantize(cache)
        values = floats(kv)
        q = kiln.tensor((normal(1, 1, heads, 576).view("u4") >> 16).astype("u2"), "bf16")
        indices = np.array([[[5, 31, 2, 99] + [-1] * 60]], "i4")
        expected, sums = attention(floats(q)[0], values[[5, 31, 2], None], values[[5, 31, 2], None, :512])
        plan = ops.mla_plan(like=cache, batch=1, query_heads=heads, topk=64)
        out, lse = ops.mla_decode_sparse(plan, q, cache, indices)
        near(floats(out)[0], expected, 2e-2), near(lse[0], sums, 1e-3)
        np.testing.assert_array_equal(np.asarray(ops.mla_decode_sparse(plan, q, cache, indices, return_lse=False)), np.asarray(out))
        q3 = kiln.tensor(np.asarray(q)[0], "bf16")
        out, most, lse = ops.mla_prefill_sparse(q3, kv, indices[0])
        near(floats(out), expected, 2e-2), near(np.asarray(lse).T, sums, 1e-3)
        self.assertTrue((np.asarray(most) <= np.asarray(lse)).all())
        alone = ops.mla_prefill_sparse(q3, kv, indices[0], lse=lse, return_lse=False)
        np.testing.assert_array_equal(np.asarray(alone), np.asarray(out))

    def test_the_fp8_cache(self):
        keys, cache = normal(5, 576).astype("f2"), np.zeros((1, 16, 656), "u1")
        ops.mla_quantize(keys, cache, np.array([3, 1, 4, 2, 0], "i4"))
        back = ops.mla_dequantize(cache, np.array([3, 1], "i4"))
        near(floats(back), keys[:2].astype("f4"), 0.08)


class Small(unittest.TestCase):
    def test_norms_take_any_number_of_dimensions(self):
        x, residual, weight = normal(2, 3, 64), normal(2, 3, 64), normal(64)
        out, total = ops.rms_norm(x, weight, residual=residual, return_sum=True)
        s = x + residual
        near(total, s), near(out, s / np.sqrt((s * s).mean(-1, keepdims=True) + 1e-6) * weight)
        with self.assertRaises(kiln.Error) as caught:
            ops.rms_norm(normal(6, 2, 64).transpose(1, 0, 2))
        self.assertEqual(str(caught.exception), "kiln_rms_norm: 'x' is no matrix of rows: dimension 0 has stride 64, expected 768")

    def test_rows(self):
        x = normal(2, 3, 64)
        near(ops.softmax(x), softmax(x))
        np.testing.assert_array_equal(ops.argmax(x), x.argmax(-1))
        out, scales = ops.cast_fp8(x.reshape(6, 64))
        self.assertEqual(tuple(out.shape), (6, 64))
        near(scales, np.abs(x).max(-1).reshape(6) / 448)
        out, scales = ops.cast_fp8(x.reshape(6, 64), group=32, counts=np.array([4, 2], "i4"), rows=5)
        self.assertEqual((tuple(out.shape), tuple(scales.shape)), ((2, 5, 64), (2, 5, 2)))
        near(np.asarray(scales)[1, :2], np.abs(x.reshape(6, 2, 32)[4:]).max(-1) / 448)
        near(np.asarray(scales)[1, 2:], 0)
        near(ops.activate(x, x, activation="relu"), np.maximum(x, 0) * x)


    def test_losses_and_lookups(self):
        logits, labels, dloss = normal(5, 33), np.array([3, 0, -100, 32, 7], "i4"), normal(5)
        loss, lse = ops.cross_entropy(logits, labels)
        near(lse, np.log(np.exp(logits).sum(1))), near(loss[[0, 2]], [lse[0] - logits[0, 3], 0])
        expected = softmax(logits) - np.eye(33)[labels % 33]
        expected[2] = 0
        near(ops.cross_entropy_backward(logits, labels, lse, dloss), expected * dloss[:, None])
        near(ops.cross_entropy(logits, labels, return_dlogits=True)[2], expected)
        near(ops.embedding(logits, np.array([4, 9, 1], "i4"), scale=2), [2 * logits[4], 0 * logits[0], 2 * logits[1]])

    def test_layers(self):
        x, up, dout = normal(4, 64), normal(4, 64), normal(4, 64)
        near(ops.layer_norm(x), (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5), 1e-4)
        dgate, dup = ops.activate_backward(x, up, dout, activation="relu")
        near(dgate, (x > 0) * up * dout), near(dup, np.maximum(x, 0) * dout)
        near(ops.hadamard(x).sum(1), 64 * x[:, 0], 1e-4)
        turned = normal(3, 2, 32)
        before, angle = turned.copy(), np.arange(3)[:, None, None] * 10000.0 ** (-np.arange(16) / 16)
        self.assertIs(ops.rotary_embedding(turned, np.arange(3, dtype="i4")), turned)
        near(turned[..., :16], before[..., :16] * np.cos(angle) - before[..., 16:] * np.sin(angle), 1e-4)
        image, taps = normal(1, 6, 7, 8), normal(3, 3, 8, 16)
        out = ops.conv2d(image, taps, stride=2, pad=1)
        self.assertEqual(out.shape, (1, 3, 4, 16))
        near(out[0, 1, 1], np.einsum("yxc,yxcf->f", image[0, 1:4, 1:4], taps), 1e-4)

    def test_indexed_attention(self):
        queries, keys, heads, topk = 3, 40, 8, 8
        code = np.array([0, 0x38, 0x40, 0xb8], "u1")                            # 0, 1, 2, -1 as e4m3
        value = np.array([0, 1, 2, -1], "f4")
        at_q, at_k = random.integers(0, 4, (queries, 8, 32)), random.integers(0, 4, (keys, 32))
        q8, k8 = kiln.tensor(code[at_q], "e4m3"), kiln.tensor(code[at_k], "e4m3")
        scales, weights = abs(normal(keys)) + 0.5, normal(queries, 8)
        starts, ends = np.array([0, 5, 9], "i4"), np.array([keys, 30, 13], "i4")
        logits = ops.indexer_logits(q8, k8, scales, weights, starts=starts, ends=ends)
        expected = np.einsum("qhk,qh,k->qk", np.maximum(np.einsum("qhd,kd->qhk", value[at_q], value[at_k]), 0), weights, scales)
        near(ops.indexer_scores(*(kiln.tensor(np.asarray(x)[None], "e4m3") for x in (q8, k8)), scales[None], weights[None])[0],
             expected, 1e-4)
        columns = np.arange(keys)
        expected[(columns < starts[:, None]) | (columns >= ends[:, None])] = -np.inf
        near(logits, expected, 1e-4)
        dirty = np.where(np.isinf(expected), 7, expected).astype("f4")
        np.testing.assert_array_equal(np.isinf(ops.clean_logits(dirty, starts=starts, ends=ends)), np.isinf(expected))
        indices = ops.topk_select(logits, topk, starts=starts, ends=ends)
        for row, taken, n in zip(np.asarray(logits), indices, (8, 8, 4)):
            np.testing.assert_array_equal(taken[:n], np.sort(np.argsort(-row, kind="stable")[:n]))
            self.assertTrue((taken[n:] == -1).all())
        q, kv = (kiln.tensor((normal(*shape).view("u4") >> 16).astype("u2"), "bf16") for shape in ((queries, heads, 576), (keys, 576)))
        chosen = np.zeros((queries, topk), "i4")
        out, most, lse = ops.indexed_attention(q8, k8, scales, weights, q, kv, topk, starts=starts, ends=ends, indices=chosen)
        np.testing.assert_array_equal(chosen, indices)
        parts = ops.mla_prefill_sparse(q, kv, indices)
        for got, part in zip((out, most, lse), parts):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(part))
        # the same keys in pages of 8, of one request, whose last tokens the queries are
        pages, table, length = kiln.tensor(code[at_k].reshape(5, 8, 32), "e4m3"), np.arange(5, dtype="i4")[None], np.array([keys], "i4")
        ends = np.arange(keys - queries + 1, keys + 1, dtype="i4")
        out, most, lse = ops.indexed_attention(q8, k8, scales, weights, q, kv, topk, ends=ends, indices=chosen)
        paged = (q8, pages, scales.reshape(5, 8), weights, table, length, topk)
        np.testing.assert_array_equal(ops.indexed_attention_paged(*paged), chosen)
        latent = kiln.tensor(np.asarray(kv).reshape(5, 8, 576), "bf16")
        for got, part in zip(ops.indexed_attention_paged(*paged, q=q, kv=latent), (out, lse)):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(part))
        codes, steps = kiln.tensor(np.zeros((5, 8, 32), "u1"), "e4m3"), np.zeros((5, 8), "f4")
        ops.index_append(np.full((2, 32), 448, "f2"), np.array([9, -1], "i4"), codes, steps, power_of_two=True)
        self.assertEqual(steps[1, 1], 1)
        self.assertEqual(steps.sum(), 1)



class Experts(unittest.TestCase):
    def test_a_layer_is_its_parts(self):
        m, d, f, e, k = 9, 64, 32, 4, 2
        x, gate_up, down = (normal(*shape).astype("f2") for shape in ((m, d), (e, 2 * f, d), (e, d, f)))
        gate_up *= 0.1
        logits = normal(m, e)
        experts, weights = ops.moe_route(logits, k, renormalise=True)
        order = np.argsort(-logits, 1)[:, :k]
        np.testing.assert_array_equal(experts, order)
        near(weights, softmax(np.take_along_axis(logits, order, 1)))
        tokens, places, offsets, rows = ops.moe_permute(experts, e, x)
        np.testing.assert_array_equal(offsets, np.concatenate([[0], np.cumsum(np.bincount(experts.ravel(), minlength=e))]))
        np.testing.assert_array_equal(rows, x[tokens])
        both = ops.grouped_gemm(rows, gate_up, offsets=offsets, transpose_b=True)
        gate, up = (both[:, i * f:(i + 1) * f].astype("f4") for i in (0, 1))
        hidden = (gate / (1 + np.exp(-gate)) * up).astype("f2")
        y = ops.moe_unpermute(ops.grouped_gemm(hidden, down, offsets=offsets, transpose_b=True), places, weights=weights)
        near(ops.moe(x, gate_up, down, logits, top_k=k, renormalise=True), y, 1e-2)
        near(ops.moe(x, gate_up, down, experts=experts, weights=weights), y, 1e-2)
        db = ops.grouped_gemm_weights(rows, hidden, offsets, type="f32")
        near(db[1], rows[offsets[1]:offsets[2]].astype("f4").T @ hidden[offsets[1]:offsets[2]].astype("f4"), 1e-3)

    def test_weights_in_other_formats(self):
        w = np.array([[0, 3, -1, 0, 5, 0, 0, 0], [1, 2, 3, 4, 0, 0, 0, -2]], "f2")
        values, places, excess = ops.sparse24_pack(w)
        np.testing.assert_array_equal(values, [[3, -1, 5, 0], [3, 4, 0, -2]])
        np.testing.assert_array_equal(places, [[0x49], [0xCE]])
        np.testing.assert_array_equal(excess, [0, 1])
        self.assertIsNone(ops.sparse24_pack(w, values, places, prune=True)[2])
        x, codes, scales = kiln.tensor(np.zeros((2, 64), "u2"), "bf16"), np.zeros((3, 64, 64), "u1"), np.zeros((3, 64, 4), "u1")
        offsets = np.array([0, 1, 1, 2], "i4")
        self.assertFalse(np.asarray(ops.grouped_mxfp4(x, codes, scales, offsets, type="f32")).any())
        with self.assertRaisesRegex(kiln.Error, "'down_scales' is null"):
            ops.moe(x, codes, codes, normal(2, 3), top_k=1, format="mxfp4", gate_up_scales=scales)
        with self.assertRaisesRegex(TypeError, "format is 'int4'"):
            ops.moe(x, codes, codes, normal(2, 3), top_k=1, format="int4")

    def test_products_over_blocks(self):
        a, b, mask = normal(48, 64).astype("f2"), normal(64, 32).astype("f2"), np.array([[[1, 0]], [[0, 1]], [[0, 0]]], "u1")
        c = ops.block_sparse_gemm(a, b, mask, block_m=16, block_n=32, block_k=32)
        near(c[:16], a[:16, :32].astype("f4") @ b[:32], 2e-2), near(c[16:32], a[16:32, 32:].astype("f4") @ b[32:], 2e-2)
        self.assertFalse(c[32:].any())

    def test_tokens(self):
        logits = normal(5, 200)
        values, indices = ops.topk(logits, 7)
        np.testing.assert_array_equal(indices, np.argsort(-logits, 1)[:, :7])
        np.testing.assert_array_equal(values, np.take_along_axis(logits, indices, 1))
        np.testing.assert_array_equal(ops.sample(logits), indices[:, 0])
        all_, own = np.zeros((5, 200), "f4"), np.zeros(5, "f4")
        tokens = ops.sample(logits, top_k=np.full(5, 3, "i4"), seeds=np.arange(5), distribution=all_, probabilities=own)
        near(np.take_along_axis(all_, indices[:, :3], 1), softmax(values[:, :3]))
        near(all_[np.arange(5), tokens], own)
        self.assertTrue(all(t in row[:3] for t, row in zip(tokens, indices)))


class Structs(unittest.TestCase):
    """Each struct has the fields that its header says, in that order."""

    KINDS = {"int64_t": "i", "int": "e", "double": "d", "size_t": "z", "kiln_type": "e", "kiln_activation": "e", "kiln_precision": "e",
             "kiln_rotary_style": "e", "kiln_quant_format": "e", "kiln_quant_layout": "e", "kiln_moe_activation": "e",
             "kiln_moe_format": "e", "void *": "p",
             "const double *": "f", "const kiln_rotary *": "r", "const kiln_mla_shape *": "s", "const kiln_mla_plan *": "l",
             "const kiln_moe_routing *": "m", "const kiln_paged_plan *": "g"}

    def spelled(self, kind, name):
        if kind == "const kiln_tensor *":
            return "*" + name
        return "?" + name if kind == "bool" else name + ":" + self.KINDS[kind]

    def fields_of(self, body):
        words = []
        for line in re.sub(r"/\*.*?\*/", "", body, flags=re.S).split(";"):
            found = re.match(r"\s*(.*?[\s*])\s*([\w, ]+)$", line.strip())
            if found:
                kind = re.sub(r"\s*\*", " *", " ".join(found.group(1).split()))
                words += [self.spelled(kind, name.strip()) for name in found.group(2).split(",")]
        return words

    def test_structs_are_the_headers(self):
        if not os.path.isdir(HEADERS):
            self.skipTest("the headers are not beside the tests")
        text = "".join(open(os.path.join(HEADERS, name), encoding="utf-8").read() for name in sorted(os.listdir(HEADERS)))
        found = {name: self.fields_of(body) for body, name in re.findall(r"typedef struct \w+ \{(.*?)\n\} (\w+);", text, re.S)
                 if name not in ("kiln_mla_plan", "kiln_paged_plan")}
        missing = []
        for name, fields in found.items():
            ours = {"kiln_rotary": _calls.ROTARY, "kiln_mla_shape": _calls.MLA_SHAPE, "kiln_moe_routing": _calls.MOE_ROUTING}.get(name)
            if ours is None:
                self.assertEqual(fields.pop(0), "struct_size:z")
                ours = _calls.STRUCTS.get(name)
            if ours is None:
                missing.append(name)
            else:
                self.assertEqual(fields, ours.split(), name)
        self.assertGreater(len(found), 25)
        if missing:
            self.skipTest("kiln.ops has no function with %s yet" % ", ".join(missing))


if __name__ == "__main__":
    unittest.main()
