#!/bin/sh
# SPDX-License-Identifier: MIT
# emulated.sh - runs a command with the emulated CUDA device (tests/gpu/emulator) in place of a driver and NVRTC.
# usage: [BUILD=folder] emulated.sh COMMAND...     such as: emulated.sh build/kiln test --device=cuda:0 --quick kernels/gemm
here=$(cd "$(dirname "$0")/.." && pwd)
library=${BUILD:-$here/build}/tests/libemulated_gpu.so
[ -f "$library" ] || { echo "emulated.sh: there is no $library; build it, or name the build folder in BUILD" >&2; exit 2; }
KILN_CUDA=$library KILN_NVRTC=$library exec "$@"
