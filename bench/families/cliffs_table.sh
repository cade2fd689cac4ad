#!/bin/sh
# SPDX-License-Identifier: MIT
# Kernels of many kinds, each beside TileLang's example of the same, then `kiln bench --cliffs`: kernels beside rewritings of
# themselves that mean the same. Runs in the root of the repository on a GPU; some 4 minutes with the build. Last: two tables.
#
# The peer is TileLang's wheel with its examples, packed where there is a network (its examples: commit a35008a42, where
# benchmark/matmul_fp8/benchmark_matmul.py passes no k_pack):
#     pip install --target site --no-deps tilelang==0.1.15 apache-tvm-ffi torch-c-dlpack-ext cloudpickle psutil z3-solver einops
#     cp -r .../tilelang/examples .../tilelang/benchmark site/ex; tar cJf .gpu/peers_tl.tar.xz -C site .
# Without it, earlier figures stand in for it, marked *.
. bench/families/common.sh
[ -f .gpu/peers_tl.tar.xz ] && [ ! -d /tmp/kiln_tilelang ] && "$python" -c "import tarfile; tarfile.open('.gpu/peers_tl.tar.xz').extractall('/tmp/kiln_tilelang')"
export PYTHONPATH="$PYTHONPATH:/tmp/kiln_tilelang" TILELANG_EXAMPLES=${TILELANG_EXAMPLES:-/tmp/kiln_tilelang/ex}
export TILELANG_CACHE_DIR=/tmp/kiln_tilelang_cache PYTHONDONTWRITEBYTECODE=1
check_kernels tests/language/run/equivalent.tile tests/language/run/gathers.tile
timeout 170 "$python" bench/families/cliffs.py 150 "$@" 2>/tmp/kiln_cliffs_errors.log
timeout 200 "$build/kiln" bench --device="$device" --cliffs --limit=150 2>&1 | tail -n 40
