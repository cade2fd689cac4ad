#!/bin/sh
# SPDX-License-Identifier: MIT
# python_test.sh - the package's tests, by the first Python that has NumPy: $KILN_PYTHON, python3, the system's.
# usage: [PYTHON_WITHOUT=FILE] python_test.sh LIBRARY SOURCE-FOLDER
set -u
KILN_LIBRARY=$1
export KILN_LIBRARY
reason="there is no python3"
for python in ${KILN_PYTHON:-} python3 /usr/bin/python3; do
    command -v "$python" >/dev/null 2>&1 || continue
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))'; then reason="$python is older than 3.9"
    elif ! "$python" -c 'import numpy' 2>/dev/null; then reason="$python has no NumPy"
    else exec "$python" "$2/python/tests/run.py" ${PYTHON_WITHOUT:+--without="$PYTHON_WITHOUT"}
    fi
done
echo "skipped: the Python package: $reason"
