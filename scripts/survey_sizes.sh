#!/bin/sh
# SPDX-License-Identifier: MIT
# survey_sizes.sh - what becomes of kernels at sizes that nobody has tuned: built for sm_90a, a line for each, then counts.
# usage: survey_sizes.sh KILN [WORD]     WORD: only lines that contain it. Needs NVRTC, no GPU; all of it takes some minutes.
#
# ok; refused, by the compiler's own message; spills, serialised: ptxas was the first to tell; fails: no code at all. What fails
# is an error of the compiler; what spills is slow, and should become ok or refused.
kiln=$1 word=${2:-}
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
ok=0 refused=0 spills=0 serialised=0 fails=0

survey() { # survey FILE KERNEL BINDINGS...: each of BINDINGS is one build
    file=$1 kernel=$2
    shift 2
    for bindings; do
        case "$file $kernel $bindings" in *"$word"*) ;; *) continue ;; esac
        # shellcheck disable=SC2086
        if "$kiln" explain --arch=90 "kernels/$file" "$kernel" $bindings >"$log" 2>&1; then
            if grep -q 'wgmma SERIALISED' "$log"; then what=serialised serialised=$((serialised + 1))
            elif grep -q ', 0 bytes spilled' "$log"; then what=ok ok=$((ok + 1))
            else what=spills spills=$((spills + 1)); fi
            why=$(sed -n 's/.*ptxas: //p' "$log")
        elif grep -q 'error: ' "$log"; then what=refused refused=$((refused + 1)) why=$(sed -n 's/.*error: //p' "$log" | head -1)
        else what=fails fails=$((fails + 1)) why=$(grep -m 1 'C7\|fatal\|Assertion' "$log"); fi
        printf '%-10s %s %s: %s\n' "$what" "$kernel" "$bindings" "$why"
    done
}

survey attention/forward.tile attention_forward D=96 D=192 D=256 'D=320 BM=64' D=512 'D=512 BM=64 BN=64' BM=256 BM=64 BN=256 BN=64 \
    'D=64 BM=256' 'D=64 BM=384' 'D=64 BN=256' 'D=256 BM=192 BN=64' 'D=512 DV=128' 'DV=512 BN=64' T=f32 'T=f32 D=256'
survey attention/varlen.tile attention_varlen D=256 D=192 BM=256 BN=256 BM=64 D=512
survey attention/split.tile attention_split_part D=256 BM=256 BN=256 'BM=64 BN=128' D=512
survey attention/decode.tile decode_split D=256 D=512 BN=256 BN=128 'D=256 BN=128' G=16 G=128 T=f32 'D=576 DV=512 G=64'
survey attention/backward.tile attention_backward_main 'D=256 DV=256' BM=128 BN=64 'D=512 DV=512'
survey attention/backward.tile attention_backward_small BM=128 'D=32 DV=32' 'D=128 DV=128'
survey attention/backward.tile attention_backward_parts BM=128 BM=32 'D=192 DV=192'
survey attention/backward.tile attention_backward_dq 'D=256 DV=256' BM=256 BN=128
survey conv/conv2d.tile conv2d BM=256 BN=256 BM=64 BK=128
survey conv/conv2d.tile conv2d_patch BN=256 TH=4 BK=128
survey gemm/gemm.tile gemm_nt 'BM=256 BN=128' 'BM=256 BN=256' 'BM=64 BN=256' BN=512 'BM=192 BN=256' 'BM=64 BN=512' BK=128 \
    'T=f32 BN=128' 'T=i8 ACC=i32' 'T=e4m3 TC=bf16 BM=256' 'BM=16 BN=256'
survey gemm/batched.tile gemm_batched BN=256 BM=256 STAGES=8 T=f32
survey gemm/split_k.tile gemm_split_k BN=256 BM=256 'BM=256 BN=256'
survey gemm/stream_k.tile gemm_stream_k_main BN=256 BM=256 BM=64 T=f32
survey gemm/sparse24.tile gemm_sparse24_nt BN=256 BM=256 BH=128
survey linear/gdn.tile gdn_state BV=64 BV=128 DK=256 C=128
survey linear/gdn.tile gdn_wy DK=256 'DK=256 DV=256'
survey linear/mamba2.tile mamba2_chunk_scan BM=64 BM=256 P=128 N=256 BK=128
survey nsa/compress.tile nsa_compressed 'D=256 DV=256' BS=16 G=1 G=6 G=64 'D=256 DV=256 G=64'
survey nsa/select.tile nsa_select D=256 G=1 G=6 G=64 'MAXB=8192'
survey nsa/selected.tile nsa_attend 'D=256 DV=256' 'D=80 DV=80' BS=128 BS=16 'G=64 BT=1' 'D=256 DV=256 BS=128 G=64 BT=1' 'G=1 BT=32' 'G=6 BT=10'
survey nsa/backward.tile nsa_backward_keys 'D=256 DV=256' D=96 BS=128 BS=16 G=1 G=6 G=64 'D=256 DV=256 BS=128 G=64'
survey nsa/backward.tile nsa_backward_queries 'D=256 DV=256' D=96 BS=128 BS=16 G=1 G=6 G=64 'D=256 DV=256 BS=128 G=64'
survey nsa/compress_backward.tile nsa_compressed_keys 'D=256 DV=256' D=96 G=1 G=6 G=64
survey nsa/compress_backward.tile nsa_compressed_queries 'D=256 DV=256' D=96 G=1 G=6 G=64
survey nsa/decode_choose.tile nsa_decode_choose 'D=256 DV=256' 'D=256 DV=256 MAXB=8192' G=1 G=6 G=64
survey nsa/decode.tile nsa_decode_part 'D=256 DV=256' BS=128 G=64 'D=256 DV=256 BS=128 G=64'
survey sparse/block.tile block_sparse_rows D=64 D=256 'BQ=128 BK=128' 'BQ=128 BK=128 D=256' 'BQ=16 BK=16'
survey sparse/decode.tile sparse_decode_part 'D=256 DV=256' BS=256 G=64 'D=512 DV=512'
survey sparse/vertical_slash.tile vertical_slash D=32 D=128 D=192 D=256 BN=128 'D=128 BN=128'
survey topk/indexer.tile indexer_logits BN=128 BN=512 BQ=4 D=256 H=128
survey topk/select.tile topk_select WARPS=16 WARPS=8 CAP=8192 CAP=65536
survey transform/hadamard.tile hadamard N=32768 'T=bf16 N=8192'
survey mla/prefill.tile mla_prefill_sparse D=512 KEYS=64 BM=128
survey norm/softmax.tile softmax BN=32768 BM=4
survey norm/rms_norm.tile rms_norm WIDTH=16384 BM=4

echo "$ok ok, $refused refused, $spills spill, $serialised serialised, $fails fail"
[ $fails -eq 0 ]
