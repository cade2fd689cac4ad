#!/bin/sh
# SPDX-License-Identifier: MIT
# instructions_test.sh - the kernels that are held to hand-written speed became the machine's own instructions: products
# on tensor cores of the right kind, copies by TMA on Hopper and by cp.async before it.
# usage: instructions_test.sh KILN
# In SASS where nvdisasm is in PATH, else in the PTX that ptxas gets, and it says so. Skipped (77) without NVRTC.
set -u
kiln=$1
kernels=$(cd "$(dirname "$0")/../../kernels" && pwd) || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
"$kiln" devices 2>&1 | grep -q 'NVRTC [0-9]' || { echo "skipped: no NVRTC here"; exit 77; }
if command -v nvdisasm >/dev/null 2>&1; then stage=sass; else stage=ptx; echo "nvdisasm is not in PATH: looking at PTX, not at machine code"; fi
checked=0 passed=0

# holds ARCH FILE KERNEL BINDINGS SASS PTX: both are patterns, separated by spaces
holds() {
    # shellcheck disable=SC2086
    "$kiln" dump --arch="$1" --stage=$stage "$kernels/$2" "$3" $4 >"$work/text" 2>&1
    if [ $stage = sass ]; then patterns=$5; else patterns=$6; fi
    for pattern in $patterns; do
        checked=$((checked + 1))
        if grep -q -- "$pattern" "$work/text"; then passed=$((passed + 1))
        else echo "FAIL: sm_$1 $3 $4: no $pattern in its $stage"; head -n 3 "$work/text"; fi
    done
    [ $stage = sass ] || return
    checked=$((checked + 1))
    if grep 'VIMNMX[.]RELU R[0-9]*, P[0-9]' "$work/text"; then echo "FAIL: sm_$1 $3 $4: a number's clamp decides; see rule 16 of docs/hopper.md"
    else passed=$((passed + 1)); fi
}

# at_least N ARCH FILE KERNEL BINDINGS SASS PTX: so many lines have the pattern
at_least() {
    # shellcheck disable=SC2086
    "$kiln" dump --arch="$2" --stage=$stage "$kernels/$3" "$4" $5 >"$work/text" 2>&1
    if [ $stage = sass ]; then pattern=$6; else pattern=$7; fi
    checked=$((checked + 1))
    lines=$(grep -c -- "$pattern" "$work/text")
    if [ "$lines" -ge "$1" ]; then passed=$((passed + 1)); else echo "FAIL: sm_$2 $4 $5: $lines lines with $pattern in its $stage, of $1"; fi
}

load='cp.async.bulk.tensor.[1-5]d.shared::cluster.global' store='cp.async.bulk.tensor.[1-5]d.global.shared::cta'
holds 90 gemm/gemm.tile gemm_nt "T=bf16" "HGMMA.64x256x16.F32.BF16 UTMALDG.2D UTMASTG.2D" "wgmma.mma_async.*k16.f32.bf16.bf16 $load $store"
holds 90 gemm/gemm.tile gemm_nt "T=bf16 CLUSTER=2" "UTMALDG.2D.MULTICAST UTMALDG.2D UCGABAR_WAIT" "$load.*multicast::cluster mapa.shared::cluster barrier.cluster.wait"
holds 90 gemm/gemm.tile gemm_tn "T=f16" "HGMMA.64x256x16.F32 UTMALDG.2D UTMASTG.2D" "wgmma.mma_async.*k16.f32.f16.f16 $load $store"
holds 90 gemm/gemm.tile gemm_nt "T=e4m3 TC=bf16 BK=128" "QGMMA.64x256x32.F32.E4M3.E4M3 UTMALDG.2D UTMASTG.2D" "wgmma.mma_async.*k32.f32.e4m3.e4m3 $load $store"
holds 90 gemm/gemm.tile gemm_nt "T=i8 TC=i32 ACC=i32 BK=128" "IGMMA.64x256x32.S8.S8 UTMALDG.2D UTMASTG.2D" "wgmma.mma_async.*k32.s32.s8.s8 $load $store"
holds 90 gemm/sparse24.tile gemm_sparse24_nt "T=bf16" "HGMMA.SP.64x128x32.F32.BF16 UTMALDG.2D UTMASTG.2D" "wgmma.mma_async.sp.*k32.f32.bf16.bf16 $load $store"
holds 90 gemm/sparse24.tile gemm_sparse24_nn "T=f16" "HGMMA.SP.64x128x32.F32" "wgmma.mma_async.sp.*k32.f32.f16.f16"
holds 90 gemm/sparse24.tile gemm_sparse24_nt "T=e4m3 TC=bf16" "QGMMA.SP.64x128x64.F32.E4M3.E4M3" "wgmma.mma_async.sp.*k64.f32.e4m3.e4m3"
holds 90 gemm/sparse24.tile gemm_sparse24_nt "T=i8 TC=i32 ACC=i32" "IGMMA.SP.64x128x64.S8.S8" "wgmma.mma_async.sp.*k64.s32.s8.s8"
holds 90 attention/forward.tile attention_forward "D=128 CAUSAL=true" "HGMMA.64x128x16.F32.BF16 UTMALDG.4D UTMASTG.4D" "wgmma.mma_async.*k16.f32.bf16.bf16 $load $store"
holds 90 attention/forward.tile attention_forward "D=128 CAUSAL=true Q=strided K=strided V=strided O=strided" "HGMMA.64x128x16.F32.BF16 UTMALDG.4D UTMASTG.4D" "wgmma.mma_async.*k16.f32.bf16.bf16 $load $store"
holds 90 attention/backward.tile attention_backward_main "BM=64" "HGMMA.64x128x16.F32.BF16 UTMALDG.4D UTMAREDG.4D" "wgmma.mma_async.*k16.f32.bf16.bf16 $load cp.reduce.async.bulk.tensor.4d"
holds 90 mla/decode.tile mla_decode "PS=64" "HGMMA.64x256x16.F32.BF16 UTMALDG" "wgmma.mma_async.*k16.f32.bf16.bf16 $load"
# Each of two groups stores 4 boxes of the result or 8 of a part of it; tiles of rows share the next step's keys in L2.
at_least 24 90 mla/decode.tile mla_decode "PS=64" "UTMASTG.4D" "$store"
holds 90 mla/decode.tile mla_decode "PS=64 CAUSAL=true" "UTMAPF.L2.4D" "cp.async.bulk.prefetch.tensor.4d.L2"
# Vectors of computed values are stored whole.
at_least 8 90 linear/step.tile recurrent_step "" "STG.E.128" "st.global.v4"
# A reduction over a part of the columns leaves the product on tensor cores.
holds 90 topk/indexer.tile indexer_logits "" "QGMMA.64x128x32.F32.E4M3.E4M3" "wgmma.mma_async.*k32.f32.e4m3.e4m3"
# Slices of a tile at places known at run time: both products of a step.
at_least 12 90 linear/mamba2.tile mamba2_chunk_scan "" "HGMMA.64x64x16.F32" "wgmma.mma_async.*k16.f32.f16.f16"
holds 80 gemm/gemm.tile gemm_nt "T=bf16" "HMMA.16816.F32.BF16 LDSM LDGSTS.E" "mma.sync.aligned.m16n8k16.*bf16 ldmatrix cp.async.cg.shared.global"
holds 80 gemm/gemm.tile gemm_nt "T=i8 TC=i32 ACC=i32 BK=128" "IMMA.16832.S8.S8 LDSM LDGSTS.E" "mma.sync.aligned.m16n8k32.*s8 ldmatrix cp.async.cg.shared.global"
holds 80 gemm/sparse24.tile gemm_sparse24_nt "T=bf16" "HMMA.SP.16832.F32.BF16 LDSM LDGSTS.E" "mma.sp.*m16n8k32.*bf16 ldmatrix cp.async.cg.shared.global"
holds 80 gemm/sparse24.tile gemm_sparse24_nt "T=i8 TC=i32 ACC=i32" "IMMA.SP.16864.S8.S8" "mma.sp.*m16n8k64.*s8"
holds 80 attention/forward.tile attention_forward "D=128" "HMMA.16816.F32.BF16 LDSM LDGSTS.E" "mma.sync.aligned.m16n8k16.*bf16 ldmatrix cp.async.cg.shared.global"

# Sized integers wrap: nothing may be concluded from x + 1 > x, so that x need not be read.
echo 'kernel wraps(in i32 X[N], out i32 Y[N]) { grid (n : N); i32 x = X[n]; Y[n] = x + 1 > x ? 5 : 7; }' >"$work/wraps.tile"
checked=$((checked + 1))
"$kiln" dump --arch=90 --stage=ptx "$work/wraps.tile" wraps >"$work/text" 2>&1
if grep -q 'ld[.]global' "$work/text"; then passed=$((passed + 1)); else echo "FAIL: i32 does not wrap: x is not read"; head -n 3 "$work/text"; fi

# The functions and atomics of integers and floats are there for every type: other compilers choose overloads more freely.
compiles() { # compiles NAME TEXT: a kernel, built as PTX
    echo "$2" >"$work/$1.tile"
    checked=$((checked + 1))
    if "$kiln" dump --arch=90 --stage=ptx "$work/$1.tile" >"$work/text" 2>&1; then passed=$((passed + 1))
    else echo "FAIL: $1 does not compile"; head -n 5 "$work/text"; fi
}
for type in i32 u32 i64 u64 u8 bool; do
    compiles "functions_$type" "kernel k(in $type X[N], out i64 Y[N], int n) { grid (); forall (i : N) { $type x = X[i];
        Y[i] = min(x, 3) + max(x, n) + clamp(x, 0, x) + abs(x) + ceildiv(x, 3) + min(ffs(x), x) - clz(x) + -popcount(x) + clz(n) + ffs(i); } }"
done
for type in i32 u32 i64 u64 f32 f64; do
    bits=; case $type in f*) ;; *) bits="Y[4] = atomic_and(X[4], 6); Y[5] = atomic_or(X[5], 6); Y[6] = atomic_cas(X[6], 6, 7);" ;; esac
    compiles "atomics_$type" "kernel k(inout $type X[8], out $type Y[8]) { grid ();
        Y[0] = atomic_add(X[0], 1); Y[1] = atomic_min(X[1], 1); Y[2] = atomic_max(X[2], 1); Y[3] = atomic_exchange(X[3], 1); $bits }"
done

echo "$passed of $checked instructions passed"
[ "$passed" -eq "$checked" ]
