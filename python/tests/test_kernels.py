# SPDX-License-Identifier: MIT
"""Kernels from files and texts on NumPy's arrays: calls, outputs, messages, what a kernel tells of itself."""
import ctypes
import threading
import unittest

import numpy as np

import kiln

SOURCE = """
// kernel commented(in f32 X[N]) { }
kernel scale<type T = f32>(in T X[M][N], out T Y[M][N], optional in f32 W[N], f32 a, i32 mode)
{
    require(mode >= 0, "mode is not negative");
    grid (n : ceildiv(N, 64), m : M);
    fragment f32 x[64] = X[m][n*64 +: 64];
    forall (i : 64) x[i] *= a;
    if (present(W)) {
        fragment f32 w[64] = W[n*64 +: 64];
        forall (i : 64) x[i] *= w[i];
    }
    Y[m][n*64 +: 64] = x;
}
kernel split(in strided f32 X[M][N], out f32 LEFT[M], out f32 RIGHT[M])
{
    grid (m : M);
    LEFT[m] = X[m][0];
    RIGHT[m] = X[m][N - 1];
}
operator twice(in f32 X[M][N], out f32 Y[M][N], f32 a)
{
    temp f32 Z[M][N];
    scale<f32>(X, Z, none, a, 0);
    scale<f32>(Z, Y, none, a, 1);
}
kernel trapping(in f32 X[N], out f32 Y[N]) { grid (); assert(N < 5, "fewer than five"); Y[0] = X[0]; }
"""


class Host:
    """An array that tells of itself in one way only."""

    def __init__(self, array, **told):
        self.array = array
        for name, value in told.items():
            setattr(self, name, value)


def only_interface(array):
    return Host(array, __array_interface__=array.__array_interface__)


class OldDLPack:
    """What speaks DLPack as it was before 1.0."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


def x_of(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scale = kiln.kernel(SOURCE, "scale", W=None)
        cls.split = kiln.kernel(SOURCE, "split")

    def fails(self, status, part, call, *args, **named):
        with self.assertRaises(kiln.Error) as caught:
            call(*args, **named)
        self.assertEqual(caught.exception.status, status)
        self.assertIn(part, str(caught.exception))

    def test_arguments_by_place_and_by_name(self):
        x, y = x_of(3, 70), np.zeros((3, 70), "f4")
        self.assertIsNone(self.scale(x, y, None, 2.5, 0))
        np.testing.assert_array_equal(y, 2.5 * x)
        self.assertIsNone(self.scale(x, Y=y, a=np.float32(3), mode=np.int64(1)))
        np.testing.assert_array_equal(y, 3 * x)

    def test_outputs_that_are_left_out_are_allocated(self):
        x = x_of(3, 70)
        y = self.scale(x, a=2, mode=0)
        self.assertIsInstance(y, np.ndarray)
        np.testing.assert_array_equal(y, 2 * x)
        left, right = self.split(x)
        np.testing.assert_array_equal((left, right), (x[:, 0], x[:, -1]))

    def test_none_makes_the_kernel_without_the_tensor(self):
        kernel, x, w = kiln.kernel(SOURCE, "scale"), x_of(2, 5), np.full(5, 2, "f4")
        np.testing.assert_array_equal(kernel(x, W=w, a=1, mode=0), 2 * x)
        np.testing.assert_array_equal(kernel(x, W=None, a=3, mode=0), 3 * x)
        y = np.zeros_like(x)
        kernel(x, y, None, 4, 0)
        np.testing.assert_array_equal(y, 4 * x)

    def test_operators_get_their_workspace(self):
        x = x_of(5, 9)
        np.testing.assert_array_equal(kiln.kernel(SOURCE, "twice")(x, a=3), 9 * x)

    def test_strides_reach_kernels_that_take_them(self):
        wide = x_of(4, 20)
        left, right = self.split(wide[::2, 3:9])
        np.testing.assert_array_equal((left, right), (wide[::2, 3], wide[::2, 8]))
        left, _ = self.split(wide[::-1, ::-1])
        np.testing.assert_array_equal(left, wide[::-1, -1])
        self.fails("bad shape", "'X' must be contiguous: dimension 0 has stride 20, expected 6",
                   self.scale, wide[:, :6], a=1, mode=0)

    def test_empty_tensors(self):
        self.assertEqual(self.scale(np.zeros((0, 7), "f4"), a=1, mode=0).shape, (0, 7))

    def test_all_protocols_give_the_same(self):
        x = x_of(2, 6)
        for made in (only_interface(x), OldDLPack(x), kiln.tensor(x), kiln.empty((2, 6), "f32").write(x)):
            y = self.scale(made, a=2, mode=0)
            np.testing.assert_array_equal(np.asarray(y), 2 * x)
            y = np.zeros_like(x)
            self.scale(made, y, None, 2, 0)
            np.testing.assert_array_equal(y, 2 * x)

    def test_messages_are_kilns(self):
        x, y = x_of(2, 6), np.zeros((2, 6), "f4")
        self.fails("bad shape", "scale: 'N' of 'Y' (dimension 1) is 5, but 'X' has N = 6",
                   self.scale, x, y[:, :5].copy(), None, 1, 0)
        self.fails("bad type", "scale: 'X' is a tensor of f64, expected f32", self.scale, x.astype("f8"), y, None, 1, 0)
        self.fails("bad shape", "scale: 'X' has rank 1, expected 2", self.scale, x[0], y, None, 1, 0)
        self.fails("bad shape", "mode is not negative", self.scale, x, y, None, 1, -1)
        self.fails("bad type", "argument 5 ('mode') is a floating-point number", self.scale, x, y, None, 1, 0.5)
        self.fails("bad argument", "'mode' is 9223372036854775808, which i32 cannot hold", self.scale, x, y, None, 1, 2**63)
        self.fails("bad argument", "'X' and 'Y' overlap in memory", self.scale, x, x, None, 1, 0)
        self.fails("bad type", "an array of complex64, which Kiln has no type for", self.scale, x.astype("c8"), y, None, 1, 0)
        self.fails("bad type", "expected a tensor of f32", self.scale, 1, y, None, 1, 0)

    def test_what_may_only_be_read_is_not_written(self):
        x, y = x_of(2, 6), np.zeros((2, 6), "f4")
        y.flags.writeable = x.flags.writeable = False
        self.fails("bad argument", "scale: 'Y' is written, but its memory may only be read", self.scale, x, y, None, 1, 0)
        self.scale(x, a=1, mode=0)

    def test_mistakes_of_the_call(self):
        x = x_of(2, 6)
        for args, named, says in (((x,), {"a": 1}, "'mode' is missing: scale(X, Y, W, a, mode)"),
                                  ((x,), {"b": 1}, "there is no parameter 'b'"),
                                  ((x,), {"X": x, "a": 1, "mode": 0}, "'X' is given twice"),
                                  ((x, x, None, 1, 0, 0), {}, "6 arguments given, expected 5"),
                                  (("text",), {}, "str is no tensor")):
            with self.assertRaises(TypeError) as caught:
                self.scale(*args, **named)
            self.assertIn(says, str(caught.exception))

    def test_traps_are_errors(self):
        self.fails("trapped", "fewer than five", kiln.kernel(SOURCE, "trapping", check=True), np.zeros(8, "f4"))

    def test_threads_build_and_call_at_once(self):
        kernel, wrong = kiln.kernel(SOURCE, "scale", W=None, T="f64"), []

        def work(i):
            x = x_of(2, 64).astype("f8")
            for _ in range(20):
                if not (kernel(x, a=i, mode=0) == i * x).all():
                    wrong.append(i)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        [t.start() for t in threads], [t.join() for t in threads]
        self.assertEqual(wrong, [])


class Others(unittest.TestCase):
    def test_arrays_of_jax(self):
        try:
            import jax.numpy as jnp
        except ImportError:
            self.skipTest("JAX is not here")
        kernel, x = kiln.kernel(SOURCE, "scale", W=None, T="bf16"), jnp.arange(6, dtype=jnp.bfloat16).reshape(2, 3)
        y = kernel(x, a=2, mode=0)
        self.assertTrue((jnp.from_dlpack(y) == 2 * x).all())
        with self.assertRaises(kiln.Error) as caught:
            kernel(2 * x, x, None, 1, 0)
        self.assertIn("'Y' is written, but its memory may only be read", str(caught.exception))


class Programs(unittest.TestCase):
    def test_a_kernel_tells_its_parameters(self):
        kernel = kiln.kernel(SOURCE, "scale", T=np.float16)
        x, y, w, a, mode = kernel.parameters
        self.assertEqual((x.name, x.kind, x.type, x.rank, x.reads, x.writes), ("X", "tensor", "f16", 2, True, False))
        self.assertEqual((y.name, y.reads, y.writes, y.optional, w.optional), ("Y", False, True, False, True))
        self.assertEqual((a.kind, a.type, mode.kind, mode.type), ("float", "f32", "integer", "i32"))
        self.assertEqual(kiln.kernel(SOURCE, "scale", W=None).parameters[2].kind, "none")
        self.assertIn("void", kernel.source())
        self.assertIsNone(kiln.kernel(SOURCE, "twice").source())
        self.assertEqual(repr(kernel), "kiln.Kernel(scale<T=f16>)")

    def test_code_for_gpus_can_be_looked_at_without_one(self):
        try:
            text = kiln.kernel(SOURCE, "scale", W=None, arch=90).source()
        except kiln.Error as error:
            self.assertEqual(error.status, "toolchain")
            self.skipTest("GPU code needs NVRTC: " + str(error).splitlines()[0])
        self.assertIn("__global__", text)

    def test_files_of_the_library_are_found(self):
        x = np.random.default_rng(1).standard_normal((3, 33)).astype("f4")
        y = kiln.load("norm/softmax.tile").kernel("softmax", T="f32")(x)
        e = np.exp(x - x.max(1, keepdims=True))
        np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)

    def test_mistakes_of_sources_and_builds(self):
        for make, status, says in (
                (lambda: kiln.load("no/such.tile"), "not found", "no/such.tile"),
                (lambda: kiln.kernel("kernel k( {"), "errors in the source", "k.tile:1:"),
                (lambda: kiln.kernel(SOURCE, "scal").build(), "not found", "no kernel or operator called 'scal'"),
                (lambda: kiln.kernel(SOURCE, "scale", "Q=8").build(), "bad argument", "nothing called 'Q' to bind"),
                (lambda: kiln.kernel(SOURCE, "scale", T="f99").build(), "bad argument", "'f99' (of 'T')"),
                (lambda: kiln.kernel(SOURCE, "scale", device="gpu:0").build(), None, "gpu:0"),
                (lambda: kiln.describe("cuda:99"), None, "cuda")):
            with self.assertRaises(kiln.Error) as caught:
                make()
            self.assertEqual(caught.exception.status, status or caught.exception.status)
            self.assertIn(says, str(caught.exception))
        with self.assertRaises(TypeError) as caught:
            kiln.kernel(SOURCE)
        self.assertIn("the source has scale, split, twice, trapping: name one", str(caught.exception))


class Tensors(unittest.TestCase):
    def test_types_that_numpy_lacks(self):
        x = np.array([[1.5, -2.0, 0.25, 3.0]], "f4")
        bits = (x.view("u4") >> 16).astype("u2")                            # exact: few digits
        kernel = kiln.kernel(SOURCE, "scale", W=None, T="bf16")
        y = kernel(kiln.tensor(bits, "bf16"), a=2, mode=0)
        if isinstance(y, kiln.Tensor):                                      # else ml_dtypes is here
            self.assertEqual((y.type, y.shape, y.device, y.nbytes), ("bf16", (1, 4), "cpu", 8))
            y = np.asarray(y)
        np.testing.assert_array_equal((y.view("u2").astype("u4") << 16).view("f4"), 2 * x)

    def test_packed_elements(self):
        t = kiln.tensor(np.array([[0x21, 0x43], [0x65, 0x07]], "u1"), "i4")
        self.assertEqual((t.shape, t.strides, t.nbytes, repr(t)), ((2, 4), (4, 1), 4, "kiln.Tensor(i4[2, 4], cpu)"))
        kernel = kiln.kernel("kernel k(in i4 X[M][N], out i32 Y[M]) { grid (m : M); Y[m] = X[m][1]; }")
        np.testing.assert_array_equal(kernel(t), [2, 6])
        for x, type, says in ((np.zeros(4, "u1"), "bf16", "elements of u8 cannot be taken as bf16"),
                              (np.zeros((4, 4), "u1")[:, ::2], "i4", "cannot be taken as i4"), (t, "x9", "there is no type 'x9'")):
            with self.assertRaises(kiln.Error) as caught:
                kiln.tensor(x, type)
            self.assertIn(says, str(caught.exception))

    def test_memory_goes_around(self):
        t = kiln.empty((2, 3), "f32")
        self.assertEqual(t.data_ptr % 256, 0)
        t.write(x_of(2, 3))
        a, b = np.from_dlpack(t), np.asarray(t)
        del t
        b[0, 0] = 7
        np.testing.assert_array_equal(a, [[7, 1, 2], [3, 4, 5]])
        again = kiln.tensor(Host(None, __dlpack__=kiln.tensor(b).__dlpack__))
        self.assertEqual(np.asarray(again)[0, 0], 7)
        self.assertEqual(len(kiln._tensor._exported), 2)                    # of `a` and of `again`
        del a, again
        self.assertEqual(len(kiln._tensor._exported), 0)
        self.assertEqual(kiln.empty((2,), "i16").write(b"\1\0\2\0").read(), b"\1\0\2\0")

    def test_versioned_capsules_say_what_may_only_be_read(self):
        x = x_of(4)
        x.flags.writeable = False
        given = kiln.tensor(x)
        capsule = given.__dlpack__(max_version=(1, 0))
        back = kiln.tensor(Host(None, __dlpack__=lambda **_: capsule))
        self.assertTrue(back.read_only)
        with self.assertRaises(BufferError):
            given.__dlpack__()
        for wrong in (3, "abc", [1.0], None):
            with self.assertRaises(TypeError):
                kiln.tensor(wrong)

    def test_types_of_structs_are_the_headers(self):
        self.assertEqual(ctypes.sizeof(kiln._library.TensorStruct), 160)
        self.assertEqual(list(kiln._library.TYPES)[:5], ["f64", "f32", "tf32", "f16", "bf16"])
        self.assertEqual(len(kiln._library.TYPES), 22)


if __name__ == "__main__":
    unittest.main()
