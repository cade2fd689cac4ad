#!/bin/sh
# SPDX-License-Identifier: MIT
# python_test.sh - the package's tests, by the first Python that has NumPy: $KILN_PYTHON, python3, the system's.
# usage: [PYTHON_WITHOUT='FILE ...'] [PYTHON_FRAMEWORKS=FOLDER] python_test.sh LIBRARY SOURCE-FOLDER
#   PYTHON_FRAMEWORKS  with PyTorch and JAX, which scripts/frameworks.sh installs in FOLDER
set -u
KILN_LIBRARY=$1
export KILN_LIBRARY
if [ -n "${PYTHON_FRAMEWORKS:-}" ]; then
    if said=$(sh "$2/scripts/frameworks.sh" "$PYTHON_FRAMEWORKS"); then KILN_PYTHON=$PYTHON_FRAMEWORKS/bin/python
    else echo "skipped: PyTorch and JAX: $said"; fi
fi
reason="there is no python3"
for python in ${KILN_PYTHON:-} python3 /usr/bin/python3; do
    command -v "$python" >/dev/null 2>&1 || continue
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))'; then reason="$python is older than 3.9"
    elif ! "$python" -c 'import numpy' 2>/dev/null; then reason="$python has no NumPy"
    else
        for name in ${PYTHON_WITHOUT:-}; do set -- "$@" "--without=$name"; done
        source=$2
        shift 2
        exec "$python" "$source/python/tests/run.py" "$@"
    fi
done
echo "skipped: the Python package: $reason"
