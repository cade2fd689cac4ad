# SPDX-License-Identifier: MIT
"""The wheel: built from what is built, it has all that it needs where no source tree is."""
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.dirname(os.environ.get("KILN_LIBRARY") or os.path.join(ROOT, "build", "libkiln.so"))

PROGRAM = """
import kiln, numpy as np
kernel = kiln.kernel('''import "attention/softmax.tile"
kernel k(in f32 X[1], out f32 Y[1]) { grid (); Y[0] = finite(X[0]); }''')
assert kernel(np.ones(1, "f4"))[0] == 1
assert kiln.load("norm/softmax.tile").kernel("softmax").parameters[0].name == "X"
print(kiln._library._candidates()[0])
"""


class Package(unittest.TestCase):
    def run_in(self, folder, *arguments, **more):
        environment = {name: value for name, value in os.environ.items() if name not in ("KILN_LIBRARY", "PYTHONPATH")}
        return subprocess.run([sys.executable, *arguments], cwd=folder, env=dict(environment, PYTHONPATH=folder), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, **more).stdout

    def test_the_wheel_is_enough(self):
        if not os.path.exists(os.path.join(BUILD, "kiln")) or not os.path.isdir(os.path.join(ROOT, "include")):
            self.skipTest("there is no source tree with a build in %s" % BUILD)
        sys.path.insert(0, os.path.dirname(HERE))
        import build_wheel
        with tempfile.TemporaryDirectory() as folder:
            folder = os.path.realpath(folder)
            name = build_wheel.build_wheel(folder, {"build": BUILD, "prebuilt": "1"})
            self.assertRegex(name, r"^kiln-[0-9.]+-py3-none-(manylinux_2_\d+|linux)_\w+\.whl$")
            with zipfile.ZipFile(os.path.join(folder, name)) as wheel:
                names = wheel.namelist()
                record = wheel.read(next(n for n in names if n.endswith("RECORD"))).decode()
                self.assertEqual(sorted(line.split(",")[0] for line in record.splitlines()), sorted(names))
                wheel.extractall(folder)
            os.chmod(os.path.join(folder, "kiln", "native", "bin", "kiln"), 0o755)
            where = os.path.join(folder, "kiln", "native")
            self.assertEqual(self.run_in(folder, "-c", PROGRAM).strip(), os.path.join(where, "lib", "libkiln.so"))
            self.assertEqual(self.run_in(folder, "-m", "kiln", "--version"), "kiln %s\n" % build_wheel.version())
            self.assertIn(os.path.join(where, "share", "kiln", "kernels"), self.run_in(folder, "-m", "kiln", "list"))

    def test_what_is_not_the_library_is_said(self):
        package = os.path.dirname(HERE)
        done = subprocess.run([sys.executable, "-c", "import kiln"], cwd=package, text=True, capture_output=True, timeout=60,
                              env=dict(os.environ, KILN_LIBRARY="/no/such/libkiln.so"))
        self.assertIn("ImportError: kiln: cannot load its library", done.stderr)


if __name__ == "__main__":
    unittest.main()
