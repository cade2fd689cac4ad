# SPDX-License-Identifier: MIT
"""The notebooks of examples/notebook run from the first cell to the last, each in an empty folder and a kernel of its own."""
import glob
import os
import tempfile
import unittest

try:
    import ipykernel  # noqa: F401
    import nbclient
    import nbformat
    import torch  # noqa: F401
    MISSING = None
except ImportError as error:
    MISSING = "the notebooks are not run: %s" % error

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@unittest.skipIf(MISSING, MISSING)
class Notebooks(unittest.TestCase):
    def test_run(self):
        notebooks = sorted(glob.glob(os.path.join(ROOT, "examples", "notebook", "*.ipynb")))
        self.assertTrue(notebooks)
        paths = [os.path.join(ROOT, "python")] + [p for p in (os.environ.get("PYTHONPATH"),) if p]
        for path in notebooks:
            with self.subTest(os.path.basename(path)), tempfile.TemporaryDirectory() as folder:
                notebook = nbformat.read(path, 4)
                nbformat.validate(notebook)
                env = dict(os.environ, PYTHONPATH=os.pathsep.join(paths))
                # A cell that raises makes this raise, with the cell and its traceback.
                nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}).execute(env=env)


if __name__ == "__main__":
    unittest.main()
