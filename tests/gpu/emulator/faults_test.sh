#!/bin/sh
# SPDX-License-Identifier: MIT
# faults_test.sh - faults planted in Kiln's kernels are found: waits left out, wrong descriptors, deadlocks ...
# usage: faults_test.sh KILN LIBRARY
#
# An edit changes a helper of the prelude, so it is independent of how kernels are printed. Some seeds may miss a fault of
# timing; one of those tried must find it.
set -u
kiln=$1 library=$2
cd "$(dirname "$0")/../../.." || exit 1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
export KILN_CUDA="$library" KILN_NVRTC="$library" KILN_CACHE="$folder/cache" NO_COLOR=1 KILN_EMULATOR_SMS=1
unset KILN_TEST_DEVICE
passed=0 failed=0

# run EDIT SEED FILE CASE
run() {
    KILN_EMULATOR_EDIT=$1 KILN_EMULATOR_SEED=$2 timeout 120 "$kiln" test --device=cuda:0 --filter="$4" "$3" >"$folder/log" 2>&1
}

# fault NAME EDIT EXPECTED FILE CASE: EXPECTED is found in what is said, and the case fails
fault() {
    for seed in 1 2 3 4 5 6 7 8; do
        if ! run "$2" $seed "$4" "$5" && grep -qE "$3" "$folder/log"; then
            passed=$((passed + 1))
            return
        fi
    done
    failed=$((failed + 1))
    echo "FAIL $1: not found in 8 seeds; the last said:"
    sed 's/^/    /' "$folder/log" | head -n 12
}

# sound FILE CASE: without a fault, nothing is found
sound() {
    for seed in 1 2 3; do
        if ! run "" $seed "$1" "$2"; then
            failed=$((failed + 1))
            echo "FAIL $2 without a fault:"
            sed 's/^/    /' "$folder/log" | head -n 12
            return
        fi
    done
    passed=$((passed + 1))
}

gemm() { fault "$1" "$2" "$3" kernels/gemm/gemm.tile 'gemm_nt<bf16>(M=257, N=256, K=192'; }

sound kernels/gemm/gemm.tile 'gemm_nt<bf16>(M=257, N=256, K=192'
gemm "nobody gives buffers back" 's/(void mbar_arrive\(uint32_t bar\)) \{.*/\1 { }/' 'deadlock: nothing can go on'
gemm "more bytes announced than come" 's/(void mbar_expect\(.*)"r"\(bytes\)/\1"r"(bytes + 16)/' 'deadlock: nothing can go on'
gemm "nobody waits for buffers" 's/while \(!mbar_try\(bar, parity\)\) \{ \}/mbar_try(bar, parity);/' 'arrivals at mbarrier|elements differ|initialised'
gemm "no wait for products" 's/(#define wgmma_wait\(n\)).*/\1/' 'in flight|may still read it'
gemm "no fence before products" 's/(void wgmma_fence\(void\)) \{.*/\1 { }/' 'no wgmma.fence'
gemm "products never committed" 's/(void wgmma_commit\(void\)) \{.*/\1 { }/' 'in flight|may still read it'
gemm "a wrong stride in descriptors" 's/\(stride >> 4\)/(stride >> 5)/' 'elements differ|outside|at shared address'
gemm "a wrong layout in descriptors" 's/\(uint64_t\)layout << 62/(uint64_t)2 << 62/' 'elements differ'
gemm "no wait until stores have read" 's/(#define tma_wait_read\(n\)).*/\1/' 'may still read it'
gemm "no proxy fence before stores" 's/(void fence_async\(void\)) \{.*/\1 { }/' 'no fence.proxy.async between'
fault "no proxy fence before a buffer that was loaded is given back" \
    '/fence_async\(\);/{N;N;N;s/fence_async\(\);\n( *__syncwarp\(\);\n.*\n *mbar_arrive)/\1/}' \
    'the read by warp [0-9]+: there is no fence.proxy.async between' kernels/linear/causal_conv.tile 'causal_conv<f32,W=2,ACT=0>(B=2, S=33, D=100'
gemm "a store that no group holds" 's/(void tma_commit\(void\)) \{.*/\1 { }/' 'never committed|may still read it'
gemm "staging without swizzle" 's/(return panel \+ row \* BYTES \+) \(column_bytes \^ .*;/\1 column_bytes;/' 'elements differ'
gemm "an instruction that does not exist" 's/wgmma\.fence\.sync/wgmma.fence.synk/' "'wgmma.fence.synk.aligned'"
gemm "a shared address past the end" 's/(stmatrix.*)\[%0\]/\1[%0+262144]/' 'at shared address'
gemm "a box that begins within 16 bytes" 's/("r"\(bar\)), "r"\(x\), "r"\(y\)/\1, "r"(x + 4), "r"(y)/' 'is not a multiple of 16 bytes'
gemm "a store before the tensor" 's/("r"\(src\)), "r"\(x\), "r"\(y\)/\1, "r"(x), "r"(y - 256)/' 'stores take none below 0'
pixels() { fault "$1" "$2" "$3" tests/language/run/gathers.tile 'pixels(N=2, H=5, W=7, C=40, KH=2, KW=3, K=40, OH=3, OW=23'; }
pixels "an offset of more bits than im2col has" 's/"h"\(\(uint16_t\)dy\), "h"/"h"((uint16_t)(dy + 256)), "h"/' 'an offset of [0-9]+ in 8 bits'
pixels "a first row that the map does not count" 's/"r"\(y\), "r"\(z\), "r"\(w\), "h"/"r"(y - 1), "r"(z), "r"(w), "h"/' 'none that the map counts'
sparse() { fault "$1" "$2" "$3" kernels/gemm/sparse24.tile 'gemm_sparse24_nt<bf16>(M=130, H=44, K=88, P=11, N=264'; }
sound kernels/gemm/sparse24.tile 'gemm_sparse24_nt<bf16>(M=130, H=44, K=88, P=11, N=264'
sparse "places of rows that are swapped" 's/return valid_places\(low \| \(uint32_t\)high/return valid_places(high | (uint32_t)low/' 'elements differ'
sparse "two equal places" 's/return \(w & ~\(equal \* 15\)\) \| equal << 2;/return w;/' 'places 0 and 0'
fault "no barrier around shared tiles" 's/^( *)bar_sync\(.*\);/\1;/' 'race: shared address' \
    kernels/attention/decode.tile 'flash_decode<f32,D=64,G=4'
fault "a barrier for too many threads" 's/(void bar_sync\(.*)"r"\(threads\)/\1"r"(threads + 32)/' 'deadlock: nothing can go on' \
    kernels/attention/decode.tile 'flash_decode<f32,D=64,G=4'
fault "barriers that not all know of" 's/^( *)__syncthreads\(\);/\1;/' 'not ordered after its initialisation' \
    kernels/attention/decode.tile 'flash_decode<f32,D=64,G=4'
fault "a step that does not wait for the one before" 's/(void wait_for_launches\(void\)) \{.*/\1 { }/' 'has not waited for the launches' \
    kernels/attention/decode.tile 'flash_decode<f32,D=64,G=4'
gemm "lanes that do not wait for each other" 's/__syncwarp\(\);//' 'in another lane|of another value|may still read it'
gemm "barriers that copies do not know of" 's/(void mbar_init_done\(void\)) \{.*/\1 { }/' 'no fence.mbarrier_init follows'
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
