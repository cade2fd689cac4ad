#!/bin/sh
# SPDX-License-Identifier: MIT
# every_isa.sh - build the prelude's tests for each instruction set this machine can run, and run them.
# usage: every_isa.sh [COMPILER...]      default: cc. What the machine lacks is printed as skipped.
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
warnings="-Wall -Wextra -Wswitch-enum -Werror"
kernel="-std=c11 -O2 -ffp-contract=fast -fno-math-errno -fno-trapping-math -fopenmp-simd"
failed=0

# name, what /proc/cpuinfo must list, compiler flags. The portable form with UBSan, too: the build with ASan has it without.
undefined="-O1 -fsanitize=undefined -fno-sanitize-recover=all -Wno-maybe-uninitialized"
sets() { # sets COMPILER
    # shellcheck disable=SC2086
    echo 'int main(void) { return 0; }' | $1 $undefined -x c - -o "$work/probe" 2>"$work/out" && echo "undefined||$undefined"
    cat <<'TABLE'
portable||
avx2|avx2 fma f16c|-mavx2 -mfma -mf16c -DKILN_ISA_GIVEN -DKILN_AVX2=1
avx512|avx512f avx512bw avx512dq avx512vl|-march=x86-64-v4 -mprefer-vector-width=512 -DKILN_ISA_GIVEN -DKILN_AVX512=1
avx512-dots|avx512_vnni avx512_bf16|-march=x86-64-v4 -mavx512vnni -mavx512bf16 -mprefer-vector-width=512 -DKILN_ISA_GIVEN -DKILN_AVX512=1 -DKILN_VNNI=1 -DKILN_BF16=1
amx|amx_tile amx_bf16 amx_int8|-march=sapphirerapids -mprefer-vector-width=512 -DKILN_ISA_GIVEN -DKILN_AVX512=1 -DKILN_AMX=1
TABLE
}

has() {
    for flag in $1; do grep -qw "$flag" /proc/cpuinfo || return 1; done
}

for cc in "${@:-cc}"; do
    sets "$cc" > "$work/sets"
    while IFS='|' read -r name needs flags; do
        if ! has "$needs"; then echo "$cc $name: skipped, this machine lacks one of: $needs"; continue; fi
        for test in vector_math convert matmul; do
            # shellcheck disable=SC2086
            if ! $cc $warnings $kernel $flags "$here/${test}_test.c" -o "$work/test" -lm; then
                echo "$cc $name $test: does not compile"; failed=1; continue
            fi
            if "$work/test" > "$work/out" 2>&1; then echo "$cc $name $test: holds"
            else echo "$cc $name $test: FAILED"; cat "$work/out"; failed=1; fi
        done
    done < "$work/sets"
done
exit $failed
