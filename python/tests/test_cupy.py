# SPDX-License-Identifier: MIT
"""CuPy's arrays: its memory in and out, its memory pool, its current stream, its graphs. They exist on a GPU alone."""
import importlib.util
import unittest

import numpy as np

import kiln
from kiln import ops
from test_device import SOURCE

if importlib.util.find_spec("cupy"):
    import cupy
else:
    cupy = None


@unittest.skipUnless(cupy, "CuPy is not here")
@unittest.skipUnless(kiln.device_count("cuda"), "there is no GPU")
class CuPy(unittest.TestCase):
    def setUp(self):
        self.host = np.arange(1000, dtype="f4")
        self.x = cupy.asarray(self.host)

    def test_outputs_are_its_arrays(self):
        y = kiln.kernel(SOURCE, "scale")(self.x, a=2)
        self.assertIsInstance(y, cupy.ndarray)
        np.testing.assert_array_equal(y.get(), 2 * self.host)
        given = cupy.empty(1000, "f4")
        kiln.kernel(SOURCE, "scale")(self.x, given, 3)
        np.testing.assert_array_equal(given.get(), 3 * self.host)

    def test_current_stream_and_its_memory_pool(self):
        kernel, stream = kiln.kernel(SOURCE, "twice"), cupy.cuda.Stream(non_blocking=True)
        with stream:
            x = cupy.asarray(self.host)
            for _ in range(20):
                x = kernel(x, a=0.5)
        stream.synchronize()
        np.testing.assert_array_equal(x.get(), self.host * np.float32(0.25 ** 20))

    def test_operators(self):
        draw = np.random.default_rng(7).standard_normal
        a, b = draw((96, 64), np.float32), draw((64, 80), np.float32)
        wide = cupy.asarray(np.concatenate([b, b], axis=1))
        made = ops.gemm(cupy.asarray(a), wide[:, 80:])
        self.assertIsInstance(made, cupy.ndarray)
        np.testing.assert_allclose(made.get(), a @ b, rtol=2e-3, atol=2e-2)
        rows = ops.softmax(cupy.asarray(a)).get()
        np.testing.assert_allclose(rows.sum(axis=1), np.ones(96), rtol=1e-5)

    def test_graphs(self):
        kernel, stream, y = kiln.kernel(SOURCE, "scale"), cupy.cuda.Stream(non_blocking=True), cupy.zeros(1000, "f4")
        kernel(self.x, y, 1)
        cupy.cuda.Device(0).synchronize()
        with stream:
            stream.begin_capture()
            kernel(self.x, y, 5)
            graph = stream.end_capture()
        graph.launch(stream)
        stream.synchronize()
        np.testing.assert_array_equal(y.get(), 5 * self.host)


if __name__ == "__main__":
    unittest.main()
