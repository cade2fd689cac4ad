# SPDX-License-Identifier: MIT
"""Memory of a GPU without a framework: the first real one, else the emulated one of the build (tests/gpu/emulator)."""
import importlib.util
import os
import subprocess
import sys
import unittest

import numpy as np

import kiln
from kiln import ops

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.environ.get("KILN_LIBRARY") or os.path.join(HERE, "..", "..", "build", "libkiln.so")
EMULATOR = os.path.join(os.path.dirname(os.path.abspath(LIBRARY)), "tests", "libemulated_gpu.so")
TORCH, JAX = (importlib.util.find_spec(name) for name in ("torch", "jax"))
SOURCE = """
kernel scale(in f32 X[N], out f32 Y[N], f32 a)
{
    grid (n : ceildiv(N, 256));
    fragment f32 x[256] = X[n*256 +: 256];
    forall (i : 256) x[i] *= a;
    Y[n*256 +: 256] = x;
}
operator twice(in f32 X[N], out f32 Y[N], f32 a) { temp f32 Z[N]; scale(X, Z, a); scale(Z, Y, a); }
"""


class Interface:
    def __init__(self, tensor):
        self.tensor, self.__cuda_array_interface__ = tensor, tensor.__cuda_array_interface__


class DLPack:
    def __init__(self, tensor):
        self.tensor, self.asked = tensor, {}

    def __dlpack__(self, **asked):
        self.asked = asked
        return self.tensor.__dlpack__(**asked)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


class Device(unittest.TestCase):
    def setUp(self):
        self.x = np.arange(1000, dtype="f4")
        self.on_gpu = kiln.empty((1000,), "f32", "cuda:0").write(self.x)

    def equals(self, tensor, expected):
        self.assertEqual(tensor.device, "cuda:0")
        np.testing.assert_array_equal(np.frombuffer(tensor.read(), "f4"), expected)

    def test_kernels_and_operators(self):
        self.equals(kiln.kernel(SOURCE, "scale")(self.on_gpu, a=2), 2 * self.x)
        self.equals(kiln.kernel(SOURCE, "twice")(self.on_gpu, a=3), 9 * self.x)
        zeros = kiln.empty((4, 64), "f32", "cuda:0").write(np.zeros((4, 64), "f4"))
        self.equals(ops.softmax(zeros), np.full(256, 1 / 64))
        self.assertIn("softmax", ops.kernel_list("cuda:0"))

    def test_arrays_of_pytorch_and_jax(self):
        if not (TORCH or JAX):
            self.skipTest("neither PyTorch nor JAX is here")
        draw = np.random.default_rng(7).standard_normal
        q, k, v = (draw((2, 16, 4, 32), np.float32) for _ in range(3))
        if TORCH:
            import torch
            made = [torch.from_numpy(x) for x in (q, k, v)]
            on_gpu = [kiln.empty(tuple(x.shape), "f32", "cuda:0").write(x.numpy()) for x in made]
            expected = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in made), is_causal=True)
            got = torch.frombuffer(bytearray(ops.attention(*on_gpu, causal=True).read()), dtype=torch.float32)
            torch.testing.assert_close(got.view(2, 16, 4, 32), expected.transpose(1, 2), rtol=2e-3, atol=2e-3)
        if JAX:
            import jax
            made = [jax.numpy.asarray(x) for x in (q, k, v)]
            on_gpu = [kiln.empty(x.shape, "f32", "cuda:0").write(np.asarray(x)) for x in made]
            expected = jax.nn.dot_product_attention(*made, is_causal=True)
            got = jax.numpy.frombuffer(ops.attention(*on_gpu, causal=True).read(), "f4").reshape(2, 16, 4, 32)
            np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-3)

    def test_protocols(self):
        kernel, speaker = kiln.kernel(SOURCE, "scale"), DLPack(self.on_gpu)
        self.equals(kernel(Interface(self.on_gpu), a=2), 2 * self.x)
        self.equals(kernel(speaker, a=3, stream=1), 3 * self.x)
        self.assertEqual((speaker.asked["stream"], speaker.asked["max_version"]), (1, (1, 1)))
        with self.assertRaises(AttributeError):
            self.on_gpu.__array_interface__

    def test_waiting(self):
        kiln.kernel(SOURCE, "scale")(self.on_gpu, a=2)
        kiln.wait("cuda:0")
        kiln.wait("cuda:0", 1)

    def test_workspaces_follow_the_stream(self):
        class Framework:
            empty, seen = staticmethod(kiln.empty), []

            def stream(self, device):
                return 0

            def workspace(self, n, device, stream):
                self.seen.append(stream)
                memory = kiln.empty((n + 256,), "u8", device)
                return memory.data_ptr, memory
        self.on_gpu.framework = framework = Framework()
        kernel = kiln.kernel(SOURCE, "twice")
        self.equals(kernel(self.on_gpu, a=2), 4 * self.x)
        self.equals(kernel(self.on_gpu, a=2, stream=1), 4 * self.x)
        self.assertEqual(framework.seen, [None, 1])
        host = kiln.tensor(self.x)
        host.framework = framework
        kernel(host, a=2, stream=1)             # which the CPU has none of
        self.assertEqual(framework.seen, [None, 1, None])

    def test_memory_of_two_devices(self):
        with self.assertRaises(kiln.Error) as caught:
            kiln.kernel(SOURCE, "scale")(self.on_gpu, self.x, 2)
        self.assertEqual(caught.exception.status, "bad device")
        self.assertIn("'Y' is memory of the host, but the kernel runs on cuda:0", str(caught.exception))
        with self.assertRaises(TypeError):
            kiln.kernel(SOURCE, "scale")(self.on_gpu, a=1, stream="first")


class Emulated(unittest.TestCase):
    def test_on_the_emulated_device(self):
        if not os.path.exists(EMULATOR):
            self.skipTest("there is no emulated GPU: " + EMULATOR)
        done = subprocess.run([sys.executable, os.path.join(HERE, "run.py"), "test_device"], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=dict(os.environ, KILN_CUDA=EMULATOR, KILN_NVRTC=EMULATOR), timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout)
        n = 6 if TORCH or JAX else 5
        self.assertIn("%d of %d passed" % (n, n), done.stdout)


if kiln.device_count("cuda"):
    del Emulated
else:
    del Device                                  # that the other runs, in a process of its own

if __name__ == "__main__":
    unittest.main()
