#!/bin/sh
# SPDX-License-Identifier: MIT
# work_test.sh - operations and bytes of a launch, as `kiln run` counts them, against formulas.
# usage: work_test.sh KILN-COMMAND SOURCE-FOLDER
set -u
kiln=$1
cd "$2" || exit 1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export KILN_CACHE="$folder/cache" NO_COLOR=1
unset KILN_TEST_DEVICE
passed=0 failed=0

# counts OPERATIONS BYTES FILE KERNEL NAME=VALUE...: so many are printed; null is "not counted".
counts() {
    wanted="\"operations\": $1.*\"bytes\": $2[,}]"
    shift 2
    if "$kiln" run --json --no-check --seconds=0 --isa=portable "$@" >"$folder/out" 2>&1 && grep -q "$wanted" "$folder/out"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL: $*: expected $wanted"
        cat "$folder/out"
    fi
}

# Products: what is padded to a tile costs nothing.
counts $((2*512*256)) $((4*(256 + 512*256 + 512))) kernels/gemm/gemm.tile gemm_nt T=f32 M=1 N=512 K=256
counts $((2*130*70*33)) $((4*(130*33 + 70*33 + 130*70))) kernels/gemm/gemm.tile gemm_nt T=f32 M=130 N=70 K=33
counts $((2*28*12*10)) $((4*(4 + 28*10 + 3*12*10 + 4*20*12))) tests/tools/work.tile grouped
counts $((2*1*40*20)) $((4*(20 + 20*40 + 40))) tests/tools/work.tile tiles M=1 N=40 K=20
counts $((2*70*33*50)) $((4*(70*50 + 50*33 + 70*33))) tests/tools/work.tile tiles M=70 N=33 K=50
counts $((2*17*18/2)) $((4*(17*18/2 + 2*17))) tests/tools/work.tile triangle

# Attention: 4 D operations for each key that a query sees; here S = SKV, 2 x 4 heads, 2 of keys.
attention() { # attention SEEN-KEYS-OF-ALL-QUERIES NAME=VALUE...
    seen=$1; shift
    counts $((4*64*2*4*seen)) $((4*2*90*64*(4 + 2 + 2 + 4))) kernels/attention/forward.tile attention_forward T=f32 D=64 DV=64 LSE=none \
        B=2 S=90 SKV=90 H=4 HKV=2 scale=0.1 BM=64 BN=64 CLUSTER=1 "$@"
}
attention $((90*90)) CAUSAL=false
attention $((90*91/2)) CAUSAL=true
attention $((20*21/2 + 70*20)) CAUSAL=true WINDOW=20
# Keys past the last query's are not read.
counts $((4*64*(5*6/2))) $((4*64*(5 + 5 + 5 + 5))) kernels/attention/forward.tile attention_forward T=f32 D=64 DV=64 LSE=none CAUSAL=true \
    B=1 S=5 SKV=5 H=1 HKV=1 scale=0.1 BM=64 BN=64 CLUSTER=1
# The five products of its gradients, and the sum over D that each query has.
counts $((2*32*4*(5*50*51/2 + 50))) "[1-9][0-9]*" kernels/attention/backward.tile attention_backward_exact T=f32 D=32 DV=32 CAUSAL=true \
    B=1 S=50 SKV=50 H=4 HKV=2 scale=0.1

# Padding of a convolution: 3 x 3 taps, but 2 at each border.
counts $((2*(3*7 - 2)*(3*5 - 2)*8*6)) $((4*(7*5*8 + 9*8*6 + 7*5*6))) kernels/conv/conv2d.tile conv2d T=f32 N=1 H=7 W=5 C=8 KH=3 KW=3 F=6 \
    stride=1 dilation=1 pad=1 OH=7 OW=5

# Bytes alone: rows that a table names, once each; in and out.
counts 0 $((4*(9 + 3*6 + 9*6))) tests/tools/work.tile gathered
counts 0 $((4*3*64*100)) kernels/elementwise/add.tile add T=f32 M=64 N=100 MB=64 NB=100
counts 0 $((4*(2*64*100 + 100))) kernels/elementwise/add.tile add T=f32 M=64 N=100 MB=1 NB=100
# What it computes decides: no number, but the most there can be.
counts "null, \"operations_not_counted\": \"it depends on values .*\"operations_at_most\": 60" $((4*31)) tests/tools/work.tile decided
# Tokens in the pages that a table names, and a condition that is computed after all that counts.
counts $((2*6*(5 + 9))) $((4*(2*3 - 1 + 2 + 2*6 + 14*6 + 2))) tests/tools/work.tile paged

# The same count, where shapes are bound; contents of tensors are not known there.
explains() { # explains TEXT FILE KERNEL NAME=VALUE...
    text=$1; shift
    if "$kiln" explain --arch=90 "$@" 2>&1 | grep -q "$text"; then passed=$((passed + 1))
    else failed=$((failed + 1)); echo "FAIL: explain $*: expected $text"; "$kiln" explain --arch=90 "$@" 2>&1 | tail -n 2; fi
}
if "$kiln" devices 2>/dev/null | grep -q 'NVRTC [0-9]'; then
    explains 'floor on an H200: 262 Kop in products: .*; 527 KB moved once' kernels/gemm/gemm.tile gemm_nt T=f32 M=1 N=512 K=256
    explains 'floor: not counted: it depends on' tests/tools/work.tile grouped G=4 M=20 N=12 K=10
    explains 'floor: bind the shapes' tests/tools/work.tile grouped
else
    echo "skipped: explain, for there is no NVRTC here"
fi
echo "$passed of $((passed + failed)) passed"
[ $failed -eq 0 ]
