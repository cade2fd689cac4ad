# SPDX-License-Identifier: MIT
"""The command as functions."""
import os
import tempfile
import unittest

import kiln


class Functions(unittest.TestCase):
    def test_checks_run(self):
        found = kiln.test("elementwise/add.tile", quick=True, filter="add<f32>")
        self.assertEqual((found["failed"], found["passed"]), (0, len(found["cases"])))
        self.assertGreater(found["passed"], 0)

    def test_a_failing_case_does_not_raise(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "wrong.tile")
            with open(path, "w", encoding="utf-8") as file:
                file.write("kernel k(out f32 Y[4]) { grid (); forall (i : 4) Y[i] = i; }\n"
                           "reference k { for (int i = 0; i < 4; i++) Y[i] = 2 * i; }\ncheck k() { }\n")
            self.assertEqual(kiln.test(path)["failed"], 1)
            with self.assertRaisesRegex(kiln.Error, "Y"):
                kiln.run(path, "k")

    def test_a_kernel_is_timed_and_explained(self):
        found = kiln.run("norm/rms_norm.tile", "rms_norm", M=8, N=512, seconds=0)
        self.assertTrue(found["correct"])
        self.assertGreater(found["median_seconds"], 0)
        self.assertIn("expected", kiln.explain("elementwise/add.tile", "add", arch=90, cost=True))
        self.assertTrue(kiln.explain("elementwise/add.tile", "add", html=True).startswith("<!DOCTYPE html>"))

    def test_tuned_values_are_taken(self):
        with tempfile.TemporaryDirectory() as folder:
            output = os.path.join(folder, "tuned.txt")
            found = kiln.tune("gemm/quickstart.tile", T="f32", M=32, N=32, K=32, BM=64, BN=64, tries=2, seconds=20, output=output)
            self.assertRegex(found["tuned"], "BK=")
            program = kiln.load("gemm/quickstart.tile")
            program.kernel("matmul_relu", T="f32", BM=64, BN=64, tuned=output, tuned_for="M=32").build()
            with self.assertRaisesRegex(kiln.Error, "gone.txt: cannot read the file of tuned values"):
                program.kernel("matmul_relu", T="f32", tuned=os.path.join(folder, "gone.txt")).build()

    def test_mistakes_are_exceptions(self):
        with self.assertRaisesRegex(kiln.Error, "gone.tile: No such file"):
            kiln.test("gone.tile")
        with self.assertRaisesRegex(kiln.Error, "has no kernel or operator called"):
            kiln.explain("elementwise/add.tile", "ad")


if __name__ == "__main__":
    unittest.main()
