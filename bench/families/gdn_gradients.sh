#!/bin/sh
# SPDX-License-Identifier: MIT
# Gradients of the gated delta net and of the causal convolution on a GPU: their checks, the example, and times of the kernels and
# calls beside the forward pass. Runs in the root of the repository; some 6 minutes. Last: a table of time, bytes that have to be moved, TB/s.
. bench/families/common.sh
[ -z "${QUICK:-}" ] || { recurrent_peers gdn kda; exit; }
check_kernels kernels/linear/gdn_backward.tile kernels/linear/kda.tile kernels/linear/kda_backward.tile
check_kernels --filter=backward kernels/linear/causal_conv.tile
check_operators kda gdn_backward
checks && timeout 120 "$build/examples/example_train_gdn" "$device" 2>&1 | tail -n 4

: >/tmp/gdn.table
row() { # row NAME FILE KERNEL ARGUMENT...
    name=$1; shift
    json=$(timeout 60 "$build/kiln" run --device="$device" --json --seconds=1 --no-check "kernels/linear/$1" "$2" $3 2>/tmp/gdn.error)
    python3 - "$name" "$json" >>/tmp/gdn.table <<'END' || { echo "not timed: $name: $(tail -n 1 /tmp/gdn.error)"; }
import json, sys
r = json.loads(sys.argv[2])
s, b = r["median_seconds"], r.get("bytes") or 0
print("%-48s %9.1f us  %9.1f MB  %5.2f TB/s" % (sys.argv[1], s * 1e6, b / 1e6, b / s / 1e12))
END
}
f=gdn_backward.tile
big="B=1 S=32768 H=32"
none="Offset=none Rk=none"
for g in 1 4; do
    row "local G=$g" $f gdn_local_backward "T=bf16 DK=128 DV=128 G=$g $big $none Rq=none scale=0.1"
    for st in 1 2 3; do row "state G=$g STAGES=$st" $f gdn_state_backward "T=bf16 DK=128 DV=128 G=$g STAGES=$st $big $none Rq=none dHT=none dH0=none scale=0.1"; done
    for bv in 16 64; do row "state G=$g BV=$bv" $f gdn_state_backward "T=bf16 DK=128 DV=128 G=$g BV=$bv $big $none Rq=none dHT=none dH0=none scale=0.1"; done
    for bk in 64 128; do row "output G=$g BK=$bk" $f gdn_output_backward "T=bf16 DK=128 DV=128 G=$g BK=$bk $big $none Rq=none Dots=none scale=0.1"; done
    row "output G=$g BV=128 STAGES=1" $f gdn_output_backward "T=bf16 DK=128 DV=128 G=$g BV=128 STAGES=1 $big $none Rq=none Dots=none scale=0.1"
    row "wy G=$g" $f gdn_wy_backward "T=bf16 TB=f32 DK=128 DV=128 G=$g $big $none Dots=none"
done
for norm in false true; do for shape in "B=1 S=2048 H=32" "B=1 S=8192 H=32" "$big" "B=8 S=2048 H=32" "B=1 S=8192 H=64"; do
    row "forward NORM=$norm $shape" gdn.tile gdn_forward "T=bf16 TB=f32 DK=128 DV=128 G=1 NORM=$norm $shape Offset=none H0=none HT=none scale=0.1"
    row "backward NORM=$norm $shape" $f gdn_backward "T=bf16 TB=f32 DK=128 DV=128 G=1 NORM=$norm $shape Offset=none H0=none dHT=none dH0=none scale=0.1"
done; done
row "backward D=64" $f gdn_backward "T=bf16 TB=f32 DK=64 DV=64 G=1 NORM=true $big Offset=none H0=none dHT=none dH0=none scale=0.1"
row "backward D=256 S=8192 H=16" $f gdn_backward "T=bf16 TB=f32 DK=256 DV=256 G=1 NORM=true B=1 S=8192 H=16 Offset=none H0=none dHT=none dH0=none scale=0.1"
row "backward G=4" $f gdn_backward "T=bf16 TB=f32 DK=128 DV=128 G=4 NORM=true $big Offset=none H0=none dHT=none dH0=none scale=0.1"
row "kda forward" kda.tile kda_forward "T=bf16 TB=f32 DK=128 DV=128 G=1 NORM=true $big Offset=none H0=none HT=none scale=0.1"
row "kda backward" kda_backward.tile kda_backward "T=bf16 TB=f32 DK=128 DV=128 G=1 NORM=true $big Offset=none H0=none dHT=none dH0=none scale=0.1"
row "kda step B=64" kda.tile kda_step "T=bf16 DK=128 DV=128 R=1 G=1 NORM=true scale=0.1 From=none To=none B=64 H=32 M=64"
for bs in 64 128; do for bd in 64 128; do row "conv BS=$bs BD=$bd" causal_conv.tile causal_conv_backward_main "T=bf16 W=4 BS=$bs BD=$bd B=1 S=32768 D=8192 Offset=none Init=none dLast=none dInit=none"; done; done
row "conv sum" causal_conv.tile causal_conv_backward_sum "T=bf16 W=4 B=1 M=512 D=8192"
row "conv backward" causal_conv.tile causal_conv_backward "T=bf16 W=4 B=1 S=32768 D=8192 Offset=none Init=none dLast=none dInit=none"
recurrent_peers gdn kda
cat /tmp/gdn.table
