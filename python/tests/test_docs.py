# SPDX-License-Identifier: MIT
"""The blocks of docs/python.md that are marked 'python run' run, one after another as one program."""
import os
import re
import unittest

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "python.md")


class Page(unittest.TestCase):
    def test_examples_run(self):
        with open(PAGE, encoding="utf-8") as file:
            text = file.read()
        names = {}
        blocks = list(re.finditer(r"^```python run( torch)?\n(.*?)^```$", text, re.M | re.S))
        self.assertGreater(len(blocks), 3)
        for block in blocks:
            if block.group(1):
                try:
                    import torch  # noqa: F401
                except ImportError:
                    continue                    # test_torch.py says that it is not here
            line = text.count("\n", 0, block.start(2))
            exec(compile("\n" * line + block.group(2), PAGE, "exec"), names)


if __name__ == "__main__":
    unittest.main()
