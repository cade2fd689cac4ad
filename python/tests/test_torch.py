# SPDX-License-Identifier: MIT
"""PyTorch's tensors: types, strides, outputs in its memory, its autograd left alone. On a GPU streams and graphs as well."""
import unittest

import kiln
from kiln import ops

try:
    import torch
except ImportError:
    torch = None

SOURCE = """kernel scale<type T = f32>(in strided T X[M][N], out T Y[M][N], f32 a)
{
    grid (m : M);
    forall (n : N) Y[m][n] = X[m][n] * a;
}
"""


@unittest.skipIf(torch is None, "PyTorch is not here")
class OnTheHost(unittest.TestCase):
    device = "cpu"

    def randn(self, *shape, dtype=None):
        return torch.randn(*shape, device=self.device, dtype=torch.float32).to(dtype or torch.float32)

    def test_types(self):
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.uint8):
            x = (4 * self.randn(3, 5).abs()).to(dtype)
            y = kiln.kernel(SOURCE, T=dtype)(x, a=2)
            self.assertEqual((y.dtype, y.device.type, tuple(y.shape)), (dtype, torch.device(self.device).type, (3, 5)))
            self.assertTrue(torch.equal(y, 2 * x))
        with self.assertRaises(kiln.Error) as caught:
            kiln.kernel(SOURCE)(x.to(torch.complex64), a=2)
        self.assertIn("torch.complex64, which Kiln has no type for", str(caught.exception))
        for wrong in (torch.float32, torch.device("cpu"), torch.empty(2, device="meta")):
            with self.assertRaises((TypeError, kiln.Error)):
                kiln.kernel(SOURCE)(wrong, a=2)

    def test_strides_and_given_outputs(self):
        x, kernel = self.randn(5, 3), kiln.kernel(SOURCE)
        self.assertTrue(torch.equal(kernel(x.t(), a=3), 3 * x.t()))
        y = torch.empty(3, 5, device=self.device)
        kernel(x.t(), y, 2)
        self.assertTrue(torch.equal(y, 2 * x.t()))
        with self.assertRaises(kiln.Error) as caught:
            kernel(x.t(), x, 1)
        self.assertIn("but 'X' has M = 3", str(caught.exception))
        parameter = torch.nn.Parameter(x)
        self.assertFalse(kernel(parameter, a=1).requires_grad)

    def test_kernel_in_autograd(self):
        kernel = kiln.kernel(SOURCE)

        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(context, x):
                return kernel(x, a=2)

            @staticmethod
            def backward(context, gradient):
                return kernel(gradient, a=2)
        x = self.randn(2, 3).requires_grad_()
        Twice.apply(x).sum().backward()
        self.assertTrue(torch.equal(x.grad, torch.full_like(x, 2)))

    def test_memory_is_shared_both_ways(self):
        t = kiln.empty((2, 3), "bf16", str(torch.device(self.device, 0)) if self.device == "cuda" else "cpu")
        x = torch.from_dlpack(t)
        self.assertEqual((x.dtype, x.data_ptr()), (torch.bfloat16, t.data_ptr))
        x.fill_(3)
        del t
        y = kiln.kernel(SOURCE, T="bf16")(x, a=2)
        self.assertTrue(torch.equal(y, torch.full_like(x, 6)))
        packed = kiln.tensor(x.view(torch.uint8), "i4")
        self.assertEqual((packed.type, packed.shape), ("i4", (2, 12)))

    def test_operators(self):
        a, b = self.randn(6, 64, dtype=torch.bfloat16), self.randn(48, 64, dtype=torch.bfloat16)
        torch.testing.assert_close(ops.gemm(a, b, transpose_b=True, type="f32"), a.float() @ b.float().t(), rtol=1e-3, atol=1e-3)
        q, k, v = (self.randn(2, 5, 4, 32, dtype=torch.bfloat16) for _ in range(3))
        out = ops.attention(q, k, v)
        heads = [t.transpose(1, 2).float() for t in (q, k, v)]
        expected = torch.nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2)
        torch.testing.assert_close(out.float(), expected, rtol=2e-2, atol=2e-2)
        e4m3, scales = ops.cast_fp8(a)
        self.assertEqual(e4m3.dtype, torch.float8_e4m3fn)
        torch.testing.assert_close(e4m3.float() * scales[:, None], a.float(), rtol=0.07, atol=0.02)


@unittest.skipIf(torch is None or not torch.cuda.is_available(), "PyTorch sees no GPU" if torch else "PyTorch is not here")
class OnAGpu(OnTheHost):
    device = "cuda"

    def test_current_stream_and_graphs(self):
        x, kernel, stream = self.randn(64, 64), kiln.kernel(SOURCE), torch.cuda.Stream()
        y = kernel(x, a=1)
        ops.softmax(y)                          # built before it is captured
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            kernel(x, y, 2)
            z = ops.softmax(y)
        x.fill_(1)
        graph.replay()
        torch.cuda.synchronize()
        self.assertTrue(torch.equal(y, torch.full_like(y, 2)))
        torch.testing.assert_close(z.sum(1), torch.ones(64, device="cuda"))

    def test_workspaces_of_another_stream(self):
        source = "import \"norm/softmax.tile\"\noperator twice(in f32 X[M][N], out f32 Y[M][N]) { temp f32 Z[M][N]; " \
                 "softmax<f32, f32>(X, Z); softmax<f32, f32>(Z, Y); }"
        x, stream, twice = self.randn(64, 4096), torch.cuda.Stream(), kiln.kernel(source, "twice")
        y, expected = torch.empty_like(x), twice(x)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000_000)
        twice(x, y, stream=stream)
        for _ in range(4):                      # in memory that the workspace must still have
            torch.full((64 * 4096 + 64,), float("nan"), device="cuda")
        torch.cuda.synchronize()
        self.assertTrue(torch.equal(y, expected))


if __name__ == "__main__":
    unittest.main()
