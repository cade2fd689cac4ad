#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the package's tests in the source tree, or against an installed package. Prints each skipped case with its reason, and a
line of counts last.

usage: run.py [--installed] [--without=FILE] [NAME...]       NAME: a test file, class or case: test_ops, test_ops.Gemm
"""
import collections
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


class Result(unittest.TextTestResult):
    """Counts the cases that passed: `testsRun` has the skipped ones in some versions of Python alone."""
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def main(arguments):
    if "--installed" in arguments:
        arguments = [a for a in arguments if a != "--installed"]
    else:
        sys.path.insert(0, os.path.dirname(HERE))
    sys.path.insert(0, HERE)
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"        # nor do those that tests start
    loader = unittest.TestLoader()
    without = [a.partition("=")[2] for a in arguments if a.startswith("--without=")]
    arguments = [a for a in arguments if not a.startswith("--without=")]
    for name in without:
        if not os.path.exists(os.path.join(HERE, name + ".py")):
            sys.exit("run.py: --without: there is no %s.py" % name)
        print("skipped: %s: as --without asks" % name)
    files = sorted(f[:-3] for f in os.listdir(HERE) if f.startswith("test_") and f.endswith(".py") and f[:-3] not in without)
    suite = loader.loadTestsFromNames(arguments or files)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2 if arguments else 1, resultclass=Result).run(suite)
    reasons = collections.Counter((test.id().rpartition(".")[0], reason) for test, reason in result.skipped)
    for (where, reason), n in reasons.items():
        print("skipped: %s, %d cases: %s" % (where, n, reason))
    failed = len(result.failures) + len(result.errors)
    ran = result.passed + failed
    print("%d of %d passed" % (result.passed, ran))
    return failed > 0 or ran == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
