#!/bin/sh
# SPDX-License-Identifier: MIT
# test_python.sh - the tests of the Python package with PyTorch, JAX and notebooks, on the CPU and on the emulated GPU.
# usage: [KILN_PYTHON=PYTHON] test_python.sh BUILD [NAME...]      NAME: as python/tests/run.py takes them
#
# BUILD has the library, and in tests/ the emulated GPU. Taken is the Python that has all of python/tests/requirements.txt:
# $KILN_PYTHON, python3, or else one that is made in BUILD/test-python by pip: 0.2 GB, or with CUDA 3 GB where PyTorch's own index is
# out of reach. The tests take about a minute. Ends with 1 if one fails, or if something is missing.
set -u
build=$(cd "$1" && pwd) || exit 1
shift
cd "$(dirname "$0")/.." || exit 1
has_all='import numpy, torch, jax, ipykernel, nbclient, nbformat'
without_cuda=https://download.pytorch.org/whl/cpu

make_python() {
    python=$build/test-python/bin/python
    "$python" -c "$has_all" 2>/dev/null && return
    echo "installing PyTorch, JAX and what runs notebooks in $build/test-python"
    python3 -m venv "$build/test-python" || return 1
    "$python" -m pip install -q --disable-pip-version-check --extra-index-url "$without_cuda" -r python/tests/requirements.txt
}

for python in ${KILN_PYTHON:-} python3 ""; do
    [ -n "$python" ] && "$python" -c "$has_all" 2>/dev/null && break
done
if [ -z "$python" ] && ! make_python; then
    echo "they cannot be installed from here; please type:"
    echo "    python3 -m pip install -r python/tests/requirements.txt"
    exit 1
fi
if [ ! -e "$build/tests/libemulated_gpu.so" ]; then
    echo "test_python.sh: there is no emulated GPU in $build/tests: make test builds it" >&2
    exit 1
fi
KILN_LIBRARY=$build/libkiln.so exec "$python" python/tests/run.py "$@"
