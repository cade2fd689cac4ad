#!/bin/sh
# SPDX-License-Identifier: MIT
# cost_test.sh - what the cost model (src/lower/gpu/cost) must say of kernels whose cost is plain.
# usage: cost_test.sh KILN SOURCES
set -u
kiln=$1
cd "$2" || exit 1
passed=0 failed=0

cost() { "$kiln" explain --arch=90 --cost "$@"; }
# Nanoseconds of a launch.
expected() { cost "$@" | sed -n 's/.*expected: .*: \([0-9.]*\) \(us\|ms\), bound.*/\1 \2/p' | awk '{ printf "%d\n", $1 * ($2 == "ms" ? 1e6 : 1e3) }'; }
check() { # check WHAT TEST...
    what=$1
    shift
    if [ "$@" ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAIL $what: $*"
    fi
}

# A product of 128 x 256 x 64 is 1024 cycles of tensor cores; ten steps of it, in an instance.
floor=$(cost --at=M=128,N=256,K=640 kernels/gemm/gemm.tile gemm_nt BM=128 BN=256 | awk '/acc \+= a @/ { print $2 }')
check "the floor of ten products" "$floor" -eq 10240
# What a mask leaves out is not counted: half of the keys, and the diagonal.
full=$(expected --at=B=2,H=16,HKV=16,S=4096,SKV=4096 kernels/attention/forward.tile CAUSAL=false)
causal=$(expected --at=B=2,H=16,HKV=16,S=4096,SKV=4096 kernels/attention/forward.tile CAUSAL=true)
check "a causal mask saves" "$((causal * 10))" -lt "$((full * 7))"
check "a causal mask saves no more than half" "$((causal * 10))" -gt "$((full * 4))"
# Twice the rows take twice the time, where there are many.
one=$(expected --at=M=8192,N=4096 kernels/norm/softmax.tile softmax)
two=$(expected --at=M=16384,N=4096 kernels/norm/softmax.tile softmax)
check "twice the rows" "$((two * 10))" -gt "$((one * 17))"
check "twice the rows and no more" "$((two * 10))" -lt "$((one * 21))"
# A launch takes no less than its memory: 201 MB at 4.27 TB/s.
check "bytes over bandwidth" "$one" -gt 47000
check "and little more" "$one" -lt 60000
# A card with less bandwidth is slower.
h100=$(expected --card=H100 --at=M=8192,N=4096 kernels/norm/softmax.tile softmax)
check "an H100" "$((h100 * 10))" -gt "$((one * 12))"
# A loop whose condition is computed is counted by running its scalars.
check "a counted while" "$(expected --at=N=1024,K=16384,splits=4 kernels/gemm/gemv.tile gemv_split)" -gt 0
# What a step loads for the next is not waited for.
check "a list that is read ahead" -z "$(cost kernels/sparse/decode.tile sparse_decode_part | grep 'waits .* after = ')"
# What depends on contents has no time.
check "an open loop" -z "$(expected --at=B=64,N=32768 kernels/topk/select.tile topk_select)"
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
