#!/bin/sh
# SPDX-License-Identifier: MIT
# registers_test.sh - CPU kernels use no MMX register: gcc leaves them as they are, and then the x87 stack is full for all
# that this thread runs next. The kernel is one that gcc 12 gives such registers if it may.
# usage: registers_test.sh KILN FILE KERNEL
for isa in portable avx2; do
    "$1" dump --stage=asm --isa=$isa "$2" "$3" >"${TMPDIR:-/tmp}/registers.$$" 2>&1 || { echo "skipped: no assembly here: $(head -n 1 "${TMPDIR:-/tmp}/registers.$$")"; exit 77; }
    grep -E '%mm[0-7]' "${TMPDIR:-/tmp}/registers.$$" && { echo "FAIL: MMX registers in the $isa form of $3"; exit 1; }
    rm -f "${TMPDIR:-/tmp}/registers.$$"
done
exit 0
