# SPDX-License-Identifier: MIT
"""Calls like an earlier one, which go a shorter way: what may differ between them does."""
import threading
import unittest
import warnings
import weakref
from unittest import mock

try:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    import kiln
    from kiln import _warm, ops
    WHY = None
except ImportError:
    torch, WHY = None, "PyTorch is not here"

SOURCE = """
kernel scale(in f32 X[N], optional in f32 B[N], out f32 Y[N], f32 a, int n)
{
    grid (i : ceildiv(N, 64));
    fragment f32 x[64] = X[i*64 +: 64];
    forall (j : 64) x[j] = x[j] * a + n + (present(B) ? B[i*64 + j] : 0);
    Y[i*64 +: 64] = x;
}
operator twice(in f32 X[N], out f32 Y[N], f32 a) { temp f32 T[N]; scale(X, none, T, a, 0); scale(T, none, Y, a, 0); }
"""


@unittest.skipIf(WHY, WHY)
class OnTheHost(unittest.TestCase):
    device = "cpu"

    def randn(self, *shape):
        return torch.randn(*shape, device=self.device)

    def near(self, got, expected):
        torch.testing.assert_close(got, expected, rtol=2e-3, atol=2e-3)

    def attention(self, q, k, v, scale=None):
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale).transpose(1, 2)

    def kept(self):
        return [k for k in _warm.thread.kept.values() if k is not None]

    def test_tensors_options_and_results(self):
        for known in (_warm.thread.kept, _warm.thread.last, _warm.thread.latest):
            known.clear()
        for _ in range(3):
            q, k, v = (self.randn(1, 5, 2, 16) for _ in range(3))
            self.near(ops.attention(q, k, v), self.attention(q, k, v))
            self.near(ops.attention(q, k, v, scale=0.5), self.attention(q, k, v, 0.5))
            given = torch.empty_like(q)
            out, lse = ops.attention(q, k, v, given, return_lse=True)
            self.assertIs(out, given)
            self.near(out, self.attention(q, k, v)), self.assertEqual(lse.shape, (1, 2, 5))
            turned = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v)]           # other strides
            self.near(ops.attention(*turned), self.attention(q, k, v))
        self.assertEqual(len(self.kept()), 4)

    def test_one_tensor_twice_is_not_taken_for_two(self):
        q, k = self.randn(1, 5, 2, 16), self.randn(1, 5, 2, 16)
        self.near(ops.attention(q, q, q), self.attention(q, q, q))
        self.near(ops.attention(q, k, k), self.attention(q, k, k))
        v = self.randn(1, 5, 2, 16)
        self.near(ops.attention(q, k, v), self.attention(q, k, v))
        self.near(ops.attention(q, q, v), self.attention(q, q, v))
        self.near(ops.attention(v, k, v), self.attention(v, k, v))

    def test_types_among_the_options(self):
        for dtype in (torch.float32, torch.float16, torch.float32):
            a, b = self.randn(4, 8), self.randn(8, 4)
            c = ops.gemm(a, b, type=dtype)
            self.assertIs(c.dtype, dtype)
            self.near(c.float(), a @ b)

    def test_a_tensor_that_is_a_number_counts(self):
        q, k, v = (self.randn(1, 5, 2, 16) for _ in range(3))
        for scale in (0.25, 1.0):
            self.near(ops.attention(q, k, v, scale=torch.tensor(scale)), self.attention(q, k, v, scale))

    def test_nothing_is_held(self):
        q, k, v = (self.randn(1, 5, 2, 16) for _ in range(3))
        kernel, y = kiln.kernel(SOURCE, "twice"), torch.empty(100, device=self.device)
        x, lists = self.randn(100), [kiln.tensor(q), q]
        gone = [weakref.ref(t) for t in (q, k, v, x, y)]
        out = ops.attention(q, k, v)
        ops.attention(lists[0], k, v), ops.attention(q, k, v, out), kernel(x, y, 2.0)
        gone.append(weakref.ref(out))
        del q, k, v, x, y, out, lists
        self.assertEqual([r() for r in gone], [None] * 6)

    def test_errors_stay(self):
        q, k, v = (self.randn(1, 5, 2, 16) for _ in range(3))
        for _ in range(2):
            ops.attention(q, k, v)
            with self.assertRaisesRegex(kiln.Error, "'k' has rank 3"):
                ops.attention(q, k[0], v)
            with self.assertRaisesRegex(kiln.Error, "expected f32 as 'q'"):
                ops.attention(q, k.half(), v)

    def test_plans(self):
        cache = torch.zeros(4, 64, 1, 576, device=self.device, dtype=torch.float16)
        table = torch.tensor([[0, 1], [2, 3]], device=self.device, dtype=torch.int32)
        seen = []
        for lengths in ((70, 9), (1, 128)):
            lengths = torch.tensor(lengths, device=self.device, dtype=torch.int32)
            for parts in (0, 1):
                plan = ops.mla_plan(lengths, query_heads=16, partitions=parts)
                q = torch.ones(2, 1, 16, 576, device=self.device, dtype=torch.float16)
                for _ in range(2):
                    out, lse = ops.mla_decode(plan, q, cache, table, lengths)
                self.near(lse, lengths.float().log()[:, None, None].expand(2, 16, 1))
                seen.append(out)
        self.assertTrue(all(torch.equal(out, torch.zeros_like(out)) for out in seen))

    def test_options_that_are_equal_or_not(self):
        q, k, v = (self.randn(1, 5, 2, 16) for _ in range(3))
        for _ in range(2):
            for text in ("0.25", "0.25", "1", "1.0", "0.5"):            # a new object each time
                self.near(ops.attention(q, k, v, scale=float(text)), self.attention(q, k, v, float(text)))
            for causal in (True, False, 1, 0):
                expected = self.attention(q[:, :1], k[:, :1] if causal else k, v[:, :1] if causal else v)
                self.near(ops.attention(q, k, v, causal=causal)[:, :1], expected)
            for named in ({"scale": 0.5, "causal": False}, {"causal": False, "scale": 0.5}, {"softcap": 0.0, "scale": 0.5}):
                self.near(ops.attention(q, k, v, **named), self.attention(q, k, v, 0.5))
        with self.assertRaises(TypeError):
            ops.attention(q, k)

    def test_a_plan_at_the_address_of_an_earlier_one(self):
        cache = torch.zeros(4, 64, 1, 576, device=self.device, dtype=torch.float16)
        table = torch.tensor([[0, 1], [2, 3]], device=self.device, dtype=torch.int32)
        q = torch.ones(2, 1, 16, 576, device=self.device, dtype=torch.float16)
        for n in (70, 128, 9, 1):
            lengths = torch.tensor([n, n], device=self.device, dtype=torch.int32)
            plan = ops.mla_plan(lengths, query_heads=16, partitions=n % 2)
            for _ in range(3):
                _, lse = ops.mla_decode(plan, q, cache, table, lengths)
                self.near(lse, lengths.float().log()[:, None, None].expand(2, 16, 1))
            gone = weakref.ref(plan)
            del plan
            self.assertIsNone(gone())

    def test_outputs_are_memory_of_their_own(self):
        made = []
        for _ in range(4):
            q, k, v = (self.randn(2, 8, 16, 16) for _ in range(3))
            made.append((ops.attention(q, k, v, return_lse=True), q, k, v))
        starts = [x.data_ptr() for (out, lse), *_ in made for x in (out, lse)]
        starts += [owner.data_ptr() for known in _warm.thread.memory.values() for _, _, owner in known.values()]
        self.assertEqual(len(set(starts)), len(starts))
        for (out, lse), q, k, v in made:
            self.near(out, self.attention(q, k, v))
            self.assertEqual((out.storage_offset(), out.untyped_storage().nbytes()), (0, out.numel() * 4))
            self.assertEqual((out.stride(), lse.stride(), lse.requires_grad), ((2048, 256, 16, 1), (128, 8, 1), False))

    def test_checks_are_another_call(self):
        q, k, v = (self.randn(1, 5, 2, 16) for _ in range(3))
        ops.attention(q, k, v), ops.attention(q, k, v)
        before = len(self.kept())
        try:
            ops.check_values(True)
            self.near(ops.attention(q, k, v), self.attention(q, k, v))
        finally:
            ops.check_values(False)
        self.assertEqual(len(self.kept()), before + 1)
        self.near(ops.attention(q, k, v), self.attention(q, k, v))

    def test_where_an_operand_begins_counts(self):
        memory, b = self.randn(65), self.randn(8, 8)
        for apis in (_warm._apis, [0]):             # [0]: no exchange API, so that the key alone says what is like an earlier call
            for known in (_warm.thread.kept, _warm.thread.last, _warm.thread.latest):
                known.clear()
            with mock.patch.object(_warm, "_apis", apis), mock.patch.object(_warm, "_record", wraps=_warm._record) as anew:
                for at in (0, 1):
                    a = memory[at:at + 64].view(8, 8)
                    try:
                        self.near(ops.gemm(a, b), a @ b)
                    except kiln.Error as error:     # a CPU takes no such operand
                        self.assertTrue(at == 1 and "aligned" in str(error), error)
                    self.assertEqual(anew.call_count, at + 1)

    def test_kernels(self):
        scale, twice = kiln.kernel(SOURCE, "scale", B=None), kiln.kernel(SOURCE, "twice")
        for a, n in ((2.0, 1), (3, 2), (2.5, True)):
            x, y = self.randn(100), torch.empty(100, device=self.device)
            self.assertIsNone(scale(x, None, y, a, n))
            self.near(y, x * a + n)
            twice(x, y, a)
            self.near(y, x * a * a)
            twice(x[:48], y[52:], a)                # which a GPU takes: aligned to 16 bytes
            self.near(y[52:], x[:48] * a * a)
            self.near(twice(x, a=a), x * a * a)
        with_bias = kiln.kernel(SOURCE, "scale")
        for _ in range(2):
            x, b, y = self.randn(100), self.randn(100), torch.empty(100, device=self.device)
            with_bias(x, b, y, 2, 0)
            self.near(y, 2 * x + b)
            with self.assertRaisesRegex(kiln.Error, "'n' is a floating-point number|expected a scalar"):
                with_bias(x, b, y, 2, 0.5)
        self.assertEqual(len(twice._launches.kept), 4)       # of whole and half tensors, by whole and broken numbers

    def test_what_is_not_exported_goes_the_long_way(self):
        q, k, v = (self.randn(1, 5, 2, 16) for _ in range(3))
        expected = self.attention(q, k, v)
        for _ in range(2):
            self.near(ops.attention(q, k, v), expected)
            q.requires_grad_()
            self.near(ops.attention(q, k, v), expected)
            q.requires_grad_(False)
            self.near(ops.attention(torch.nn.Parameter(q), k, v), expected)
            with self.assertRaises(Exception):
                ops.attention(q.to_sparse(), k, v)
            with self.assertRaises(Exception):
                ops.attention(q.to("meta"), k, v)
            with self.assertRaises(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")         # of PyTorch, that its memory is asked for
                ops.attention(FakeTensorMode().from_tensor(q), k, v)

    def test_threads_have_their_own(self):
        wrong = []

        def work():
            for _ in range(20):
                q, k, v = (self.randn(1, 5, 2, 16) for _ in range(3))
                if not torch.allclose(ops.attention(q, k, v), self.attention(q, k, v), rtol=2e-3, atol=2e-3):
                    wrong.append(1)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])


@unittest.skipIf(WHY or not torch.cuda.is_available(), WHY or "PyTorch sees no GPU")
class OnAGpu(OnTheHost):
    device = "cuda"

    def test_streams(self):
        q, k, v = (self.randn(1, 5, 2, 16) for _ in range(3))
        expected, other = self.attention(q, k, v), torch.cuda.Stream()
        for _ in range(2):
            ops.attention(q, k, v)
            torch.cuda.synchronize()
            with torch.cuda.stream(other):
                torch.cuda._sleep(1000000)
                q.mul_(1)
                out = ops.attention(q, k, v)
            other.synchronize()
            self.near(out, expected)


if __name__ == "__main__":
    unittest.main()
