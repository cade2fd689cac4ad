# SPDX-License-Identifier: MIT
# common.sh - what every script of this folder begins with; read by `. bench/families/common.sh`, in the root of the repository.
#
#   BUILD    a folder that is built already; default: build-gpu, built here first
#   DEVICE   cuda:0; cpu with DIVIDE, a divisor of the sizes, where there is no GPU
#   CHECK    0: no checks, the times alone
#   QUICK    seconds: of layers with a state, calls beside their peers alone, and no row begins later
#
# Peers that PyTorch does not hold (fla-core, einops, gemlite, triton-kernels) are looked for in .gpu/peers, too:
# pip install --no-deps --target .gpu/peers NAME. A peer that is missing is named. mamba_ssm needs only ops, utils and distributed of
# its source there, without __init__.py, which wants compiled parts. fla refuses gated gradients on Hopper with Triton 3.4 to 3.7.0:
# a newer one in .gpu/triton is taken for the scripts of layers with a state.
set -u
device=${DEVICE:-cuda:0} divide=${DIVIDE:-1} build=${BUILD:-build-gpu} python=${KILN_PYTHON:-python3}
if [ -z "${BUILD:-}" ]; then
    timeout 500 sh scripts/build.sh build-gpu "$(nproc)" >/tmp/kiln_families_build.log 2>&1 || { tail -n 20 /tmp/kiln_families_build.log; exit 1; }
fi
export KILN_LIBRARY="$PWD/$build/libkiln.so" PYTHONPATH="$PWD/python:$PWD/.gpu/peers${PYTHONPATH:+:$PYTHONPATH}"

checks() { [ "${CHECK:-1}" != 0 ] && [ "$device" != cpu ]; }

check_kernels() { # check_kernels [OPTION...] FILE...: every case of the files on the device
    checks || return 0
    timeout 400 "$build/kiln" test --device="$device" "$@" 2>&1 | grep -E 'FAIL|WRONG|differ|passed' | tail -n 12
}

check_operators() { # check_operators NAME...: tests/ops/NAME_test.c on the device
    checks || return 0
    for test in "$@"; do
        echo "$test: $(KILN_TEST_DEVICE=$device timeout 250 "$build/tests/ops_${test}_test" 2>&1 | grep -E 'FAILED|PASSED|ERROR' | head -n 6 | tr '\n' ' ')"
    done
}

recurrent_peers() { # recurrent_peers FAMILY...: calls beside those of fla and mamba_ssm
    timeout $((${QUICK:-240} + 60)) env PYTHONPATH="$PWD/.gpu/triton:$PYTHONPATH" "$python" bench/families/recurrent_peers.py \
        --device="$device" --limit="${QUICK:-240}" "$@" 2>&1 | grep -v -i warn | tail -n 40
}

compile_times() { # compile_times NAME: /tmp/NAME.c, a program that times operators, as /tmp/NAME
    cc -std=c11 -O2 -D_DEFAULT_SOURCE -Iinclude "/tmp/$1.c" "$build/libkiln.so" -Wl,-rpath,"$(cd "$build" && pwd)" -lm -o "/tmp/$1" || exit 1
}
