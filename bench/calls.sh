#!/bin/sh
# SPDX-License-Identifier: MIT
# calls.sh - what a warm call of an operator costs on the host (bench/calls).
#
#   [BUILD=build] bench/calls.sh            no GPU is needed, launches do nothing: ns of a call, the least and the median of
#                                           several turns
#   [BUILD=build] bench/calls.sh --count    instructions of a call, by callgrind: the same on a busy machine
#   [BUILD=build] bench/calls.sh --gpu      on a GPU, beside what its driver takes for the launches of the same calls
#
# BUILD: a folder with libkiln_static.a, and without a GPU tests/. What calls from Python take: bench/calls.py.
# The first run builds the operators' kernels, which takes a minute; on a GPU the rows build theirs at once.
set -eu
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build} CC=${CC:-cc}
mkdir -p "$BUILD/bench/calls"
at=$(cd "$BUILD/bench/calls" && pwd)
"$CC" -O2 -Iinclude -o "$at/operator_calls" bench/calls/calls.c "$BUILD/libkiln_static.a" -pthread -ldl -lm
export KILN_CACHE="${KILN_CACHE:-$at/cache}"
rows='launch forward decode backward plan latent sparse append decode_size backward_size latent_size sparse_size masked masked_size'

if [ "${1:-}" = --gpu ]; then # few calls a turn: the driver's queue takes about a thousand launches
    cuda=$(ldconfig -p | awk '/libcuda\.so\.1 / { print $NF; exit }')
    for folder in /usr/local/cuda/compat /usr/local/nvidia/lib64 /usr/lib/x86_64-linux-gnu /usr/lib64; do
        [ -n "$cuda" ] || [ ! -e "$folder/libcuda.so.1" ] || cuda=$folder/libcuda.so.1
    done
    [ -n "$cuda" ] || { echo "calls.sh: there is no libcuda.so.1 here" >&2; exit 1; }
    "$CC" -O2 -shared -fPIC -o "$at/libtimed_driver.so" bench/calls/timed_driver.c -Wl,--no-as-needed "$cuda" -ldl
    for row in $rows; do "$at/operator_calls" 1 "$row" & done
    wait
    KILN_CUDA="$at/libtimed_driver.so" exec "$at/operator_calls" 100
fi

tests=$(cd "$BUILD/tests" && pwd)
"$CC" -O2 -shared -fPIC -o "$at/libidle_driver.so" bench/calls/idle_driver.c -Wl,--no-as-needed -L"$tests" -lemulated_gpu -Wl,-rpath,"$tests"
export KILN_CUDA="$at/libidle_driver.so" KILN_NVRTC="$tests/libemulated_gpu.so"
if [ "${1:-}" != --count ]; then
    exec "$at/operator_calls"
fi
instructions() { # instructions CALLS NAME
    valgrind --tool=callgrind --callgrind-out-file=/dev/null --collect-atstart=no --toggle-collect=run_calls \
        "$at/operator_calls" "$1" "$2" 2>&1 | sed -n 's/.*Collected : //p'
}
for row in $rows; do
    few=$(instructions 10 $row) many=$(instructions 110 $row)
    printf '| %-13s | %5d |\n' $row $(((many - few) / 100))
done
