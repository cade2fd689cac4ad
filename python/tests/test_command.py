# SPDX-License-Identifier: MIT
"""The command as functions."""
import json
import os
import sys
import tempfile
import types
import unittest
import unittest.mock

import kiln
from kiln import _command


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

    def test_progress_in_a_notebook(self):
        shown, command = [], [_command.find_command(), "tune"]
        tune = ["--json", "--tries=2", _command._path_of("gemm/quickstart.tile"), "T=f32", "M=32", "N=32", "K=32"]
        status, out, errors = _command._run_shown(command + tune, shown.append)
        self.assertEqual((status, shown[-1]), (0, ""))
        self.assertIn("tuned", json.loads(out))
        self.assertRegex("\n".join(shown), r"building \d+ candidates|(timing|cost model:) \d+ of \d+")
        status, out, errors = _command._run_shown([*command, "gone.tile"], shown.append)
        self.assertNotEqual(status, 0)
        self.assertIn("gone.tile", errors)
        bars = []
        display = types.SimpleNamespace(HTML=str, display=lambda first, display_id: types.SimpleNamespace(update=bars.append))
        with unittest.mock.patch.dict(sys.modules, {"IPython": types.ModuleType("IPython"), "IPython.display": display}):
            self.assertFalse(_command._is_notebook())
            sys.modules["IPython"].get_ipython = lambda: types.SimpleNamespace(kernel=1)
            self.assertTrue(_command._is_notebook())
            self.assertEqual(kiln.test("elementwise/add.tile", quick=True, filter="add<f32>")["failed"], 0)
            _command._bar()("timing 3 of 10: <BM>")
        self.assertEqual(bars[-2:], ["", '<div><progress value="3" max="10"></progress> timing 3 of 10: &lt;BM&gt;</div>'])

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
