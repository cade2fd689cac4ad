#!/bin/sh
# SPDX-License-Identifier: MIT
# gpu_kit.sh - what scripts/test_gpu.sh and bench/gpu.sh need on a machine with a GPU that can build nothing.
# usage: gpu_kit.sh BUILD KIT [FILE|FOLDER...]     the kernels to compile for it; default: all that are tested
#
# KIT gets the programs of BUILD, the libraries that they need beside the C library, and a cache with the kernels'
# code for sm_90a: NVRTC compiles without a GPU, and the code is found there by NVRTC of the same version. There, from
# the root of the sources: scripts/test_gpu.sh KIT, and KILN=KIT/kiln bench/gpu.sh
set -u
[ $# -ge 2 ] || { sed -n 3p "$0"; exit 2; }
build=$(cd "$1" && pwd) && mkdir -p "$2" && kit=$(cd "$2" && pwd) || exit 1
shift 2
cd "$(dirname "$0")/.."
export KILN_PATH="${KILN_PATH:-$PWD/kernels}" # a kit has no library beside it
[ $# -gt 0 ] || set -- kernels tests/language/run
mkdir -p "$kit/tests" "$kit/examples" "$kit/lib" "$kit/cache"
cp "$build/kiln" "$kit/" && cp "$build"/tests/gpu_device_test "$build"/tests/api_large_test "$build"/tests/ops_*_test "$build"/tests/language_*_test "$kit/tests/" &&
    cp "$build"/examples/example_scale "$build"/examples/example_decode_loop "$kit/examples/" || exit 1
# Not the C library's own: those belong to the machine.
ldd "$build"/tests/gpu_device_test "$build"/examples/example_scale | awk '/=> \// && !/lib(c|m|dl|pthread|rt)\.so/ { print $3 }' | while read -r library; do
    cp -L "$library" "$kit/lib/"
done
KILN_CACHE=$kit/cache "$kit/kiln" test --arch=90 --compile-only "$@" | grep -E '^(FAIL|[0-9]+ passed)'
rm -f "$kit"/cache/*.plan                                  # they go with this very file of the command, its time included
tar -C "$kit" -czf "$kit/cache.tar.gz" cache && rm -rf "$kit/cache"
du -sh "$kit" | cut -f1
