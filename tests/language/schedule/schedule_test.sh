#!/bin/sh
# SPDX-License-Identifier: MIT
# schedule_test.sh - schedules of kernels as text: each case's dump is CASE.expect beside this file.
# usage: schedule_test.sh KILN; KILN_UPDATE_GOLDEN=1 rewrites the expectations instead of comparing.
kiln=$1
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../../..
passed=0 failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

check() { # check CASE ARCH FILE KERNEL [NAME=VALUE...]
    case=$1 arch=$2 file=$root/$3
    shift 3
    "$kiln" dump --stage=schedule --arch="$arch" "$file" "$@" >"$log" 2>&1 || { echo "FAIL $case: no schedule"; cat "$log"; failed=$((failed + 1)); return; }
    [ -n "${KILN_UPDATE_GOLDEN:-}" ] && cp "$log" "$here/$case.expect"
    if diff -u "$here/$case.expect" "$log"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAIL $case"
    fi
}

check gemm 90 kernels/gemm/gemm.tile gemm_nt
check gemm_sm_80 80 kernels/gemm/gemm.tile gemm_nt
check attention_forward 90 kernels/attention/forward.tile attention_forward
check attention_forward_sm_80 80 kernels/attention/forward.tile attention_forward
check attention_backward 90 kernels/attention/backward.tile attention_backward_main
check attention_backward_long 90 kernels/attention/backward.tile attention_backward_long CAUSAL=true
check attention_backward_small 90 kernels/attention/backward.tile attention_backward_small T=bf16 D=64 DV=64 S=4096 SKV=4096
check mla_decode 90 kernels/mla/decode.tile mla_decode UNIT=none
check mla_decode_fp8 90 kernels/mla/decode_dense_fp8.tile mla_decode_pages_fp8 PAIR=1
check mla_decode_fp8_cluster 90 kernels/mla/decode_dense_fp8.tile mla_decode_pages_fp8
check mla_decode_sparse_strided 90 kernels/mla/decode_fp8.tile mla_decode_sparse UNIT=none CACHE=strided LIMIT=none CACHE2=none INDEX2=none LIMIT2=none
check mla_decode_sparse_short 90 kernels/mla/decode_fp8.tile mla_decode_sparse UNIT=none D=512 CACHE=strided LIMIT=none CACHE2=none SCALES2=none INDEX2=none LIMIT2=none
check mla_decode_sparse_alone 90 kernels/mla/decode_fp8.tile mla_decode_sparse UNIT=none PAIR=1 ROUND_SCALE=true CACHE=strided SCALES=none LIMIT=none CACHE2=none SCALES2=none INDEX2=none LIMIT2=none
check mla_prefill_sparse 90 kernels/mla/prefill.tile mla_prefill_sparse END=none
check im2col 90 kernels/conv/conv2d.tile conv2d
check boxes 90 kernels/conv/conv2d.tile conv2d_patch
check gathered_tile 90 tests/language/run/gathers.tile wrapped
check pages_of_boxes 90 tests/language/run/gathers.tile pages C=e4m3 PS=16
check pages_of_rows 90 tests/language/run/gathers.tile pages C=e4m3 PS=3
check gather 90 tests/language/run/control.tile gathered
check gathered_by_list 90 kernels/moe/moe.tile moe_gate_up K=2880
check slices_or_rows 90 tests/language/run/tensor_cores.tile slices_or_rows
check converted_fill 90 tests/language/run/clusters.tile converted
check converted_layout 90 tests/language/run/conversions.tile converted
check equivalent 90 tests/language/run/equivalent.tile product
check shifted_rows 90 tests/language/run/shifted_rows.tile shifted BN=128
check shifted_rows_odd 90 tests/language/run/shifted_rows.tile shifted BN=136
check stream_k 90 kernels/gemm/stream_k.tile gemm_stream_k_main
check odd_operands 90 tests/language/run/odd_products.tile anywhere
check odd_results 90 tests/language/run/odd_products.tile other_subscripts
check transposed_store 90 tests/language/run/tensor_cores.tile stored_often TRANSPOSE=true M=48 N=128
check one_low_index 90 kernels/nsa/compress.tile nsa_compressed D=64 DV=64 G=1 LSE=none
check packed_tiles 90 tests/language/run/packed.tile tiles_of_codes
check packed_tiles_sm_80 80 tests/language/run/packed.tile tiles_of_codes
check packed_words_sm_80 80 tests/language/run/packed.tile words_of_codes
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
