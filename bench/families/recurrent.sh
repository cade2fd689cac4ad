#!/bin/sh
# SPDX-License-Identifier: MIT
# Layers with a state on a GPU: their checks, and the times of kernels and calls. Runs in the root of the repository; some 8 minutes.
# Last: a table of time, bytes that have to be moved, and the share of 4.0 TB/s (H200; H100: 3.0) that this is.
. bench/families/common.sh
[ -z "${QUICK:-}" ] || { recurrent_peers step mamba2; exit; }
check_kernels kernels/linear
check_operators recurrent

: >/tmp/recurrent.table
row() { # row NAME FILE KERNEL ARGUMENT...
    name=$1; shift
    json=$(timeout 60 "$build/kiln" run --device="$device" --json --seconds=1 --no-check "kernels/linear/$1" "$2" $3 2>/tmp/recurrent.error)
    python3 - "$name" "$json" >>/tmp/recurrent.table <<'END' || { echo "not timed: $name: $(tail -n 1 /tmp/recurrent.error)"; }
import json, sys
r = json.loads(sys.argv[2])
s, b = r["median_seconds"], r.get("bytes") or 0
print("%-44s %9.1f us  %9.1f MB  %5.2f TB/s  %7.1f GFLOP" % (sys.argv[1], s * 1e6, b / 1e6, b / s / 1e12, (r.get("operations") or 0) / 1e9))
END
}
big="B=1 S=32768 H=32"
none="Offset=none Rk=none"
for bv in 16 32 64; do row "gdn_state BV=$bv" gdn.tile gdn_state "T=bf16 T0=f32 DK=128 BV=$bv G=1 $big DV=128 $none H0=none"; done
row "gdn_state BV=32 CV=2" gdn.tile gdn_state "T=bf16 T0=f32 DK=128 BV=32 CV=2 G=1 $big DV=128 $none H0=none"
row "gdn_state norms" gdn.tile gdn_state "T=bf16 T0=f32 DK=128 BV=32 G=1 $big DV=128 Offset=none H0=none"
row "gdn_prepare" gdn.tile gdn_prepare "T=bf16 TB=f32 DK=128 DV=128 G=1 $big $none A=none"
row "gdn_prepare norms" gdn.tile gdn_prepare "T=bf16 TB=f32 DK=128 DV=128 G=1 $big Offset=none A=none"
row "gdn_prepare G=2" gdn.tile gdn_prepare "T=bf16 TB=f32 DK=128 DV=128 G=2 $big $none A=none"
scan="T=bf16 DK=128 G=1 $big DV=128 scale=0.1 Offset=none H0=none HT=none Starts=none Zs=none Norm=none"
for bv in 16 32 64; do row "gdn_scan BV=$bv" gdn.tile gdn_scan "$scan BV=$bv Rk=none"; done
row "gdn_scan STAGES=2" gdn.tile gdn_scan "$scan STAGES=2 Rk=none"
row "gdn_scan norms" gdn.tile gdn_scan "$scan"
for bv in 32 64; do row "gdn_scan linear BV=$bv" gdn.tile gdn_scan "$scan BV=$bv Rk=none W=none Gate=none"; done
for hb in 4 8 16; do row "gdn_output HB=$hb" gdn.tile gdn_output "T=bf16 DK=128 DV=128 HB=$hb G=1 $big $none scale=0.1"; done
row "gdn_output norms" gdn.tile gdn_output "T=bf16 DK=128 DV=128 G=1 $big Offset=none scale=0.1"
for shape in "B=1 S=2048 H=32" "B=1 S=8192 H=32" "B=1 S=32768 H=32" "B=8 S=2048 H=32" "B=1 S=8192 H=64"; do
    row "gdn_forward $shape" gdn.tile gdn_forward "T=bf16 TB=f32 DK=128 DV=128 G=1 NORM=true $shape Offset=none H0=none HT=none scale=0.1"
done
row "mamba2_forward B=8 S=4096 H=80" mamba2.tile mamba2_forward "T=bf16 P=64 N=128 G=80 B=8 S=4096 H=80 Init=none Last=none"
row "mamba2_products" mamba2.tile mamba2_products "T=bf16 N=128 L=256 B=8 NC=16 S=4096 G=1"
row "mamba2_sums" mamba2.tile mamba2_sums "T=bf16 L=256 B=8 NC=16 S=4096 H=80"
row "gdn_forward B=1 S=32768 H=32 three kernels" gdn.tile gdn_forward "T=bf16 TB=f32 DK=128 DV=128 G=1 NORM=true FUSED=false $big Offset=none H0=none HT=none scale=0.1"
row "gdn_forward B=1 S=32768 H=16 three kernels" gdn.tile gdn_forward "T=bf16 TB=f32 DK=128 DV=128 G=1 NORM=true FUSED=false B=1 S=32768 H=16 Offset=none H0=none HT=none scale=0.1"
row "gdn_forward B=1 S=32768 H=16" gdn.tile gdn_forward "T=bf16 TB=f32 DK=128 DV=128 G=1 NORM=true B=1 S=32768 H=16 Offset=none H0=none HT=none scale=0.1"
row "gdn_forward D=64 B=1 S=32768 H=32" gdn.tile gdn_forward "T=bf16 TB=f32 DK=64 DV=64 G=1 NORM=true $big Offset=none H0=none HT=none scale=0.1"
row "gdn_forward D=256 B=1 S=8192 H=16" gdn.tile gdn_forward "T=bf16 TB=f32 DK=256 DV=256 G=1 NORM=true B=1 S=8192 H=16 Offset=none H0=none HT=none scale=0.1"
row "gdn_forward G=2 B=1 S=32768 H=32" gdn.tile gdn_forward "T=bf16 TB=f32 DK=128 DV=128 G=2 NORM=true $big Offset=none H0=none HT=none scale=0.1"
row "linear_attention B=1 S=32768 H=32" linear_attention.tile linear_attention "T=bf16 DK=128 DV=128 G=1 $big Gi=none Decay=none Offset=none H0=none HT=none scale=0.1"
row "linear_attention B=1 S=32768 H=32 two kernels" linear_attention.tile linear_attention "T=bf16 DK=128 DV=128 G=1 FUSED=false $big Gi=none Decay=none Offset=none H0=none HT=none scale=0.1"
row "retention B=1 S=32768 H=32" linear_attention.tile linear_attention "T=bf16 DK=128 DV=128 G=1 $big Gi=none Offset=none H0=none HT=none scale=0.1"
row "linear_attention f16 B=8 S=4096 H=32 D=256" linear_attention.tile linear_attention "T=f16 DK=256 DV=256 G=1 B=8 S=4096 H=32 Gi=none Decay=none Offset=none H0=none HT=none scale=0.1"
step="T=bf16 DK=128 DV=128 R=1 G=1 DELTA=true NORM=true scale=0.1 Decay=none From=none To=none"
for bv in 16 32 64 128; do row "step f32 B=64 H=32 BV=$bv" step.tile recurrent_step "$step BV=$bv B=64 H=32 M=64"; done
for b in 1 8 256; do row "step f32 B=$b H=32" step.tile recurrent_step "$step B=$b H=32 M=$b"; done
for bv in 32 64 128; do row "step bf16 states B=256 H=32 BV=$bv" step.tile recurrent_step "$step TS=bf16 BV=$bv B=256 H=32 M=256"; done
row "step of 4 drafts in place B=64 H=32" step.tile recurrent_step "T=bf16 DK=128 DV=128 R=4 G=1 DELTA=true NORM=true scale=0.1 Decay=none From=none To=none B=64 H=32 M=64"
for bp in 16 32 64; do row "mamba2_step f32 B=64 H=80 BP=$bp" mamba2.tile mamba2_step "T=bf16 P=64 N=128 G=80 R=1 BP=$bp B=64 H=80 M=64 From=none To=none"; done
for w in 512 1024 2048; do row "mamba2_state_passing W=$w" mamba2.tile mamba2_state_passing "T=f16 W=$w B=8 NC=16 H=80 P=64 N=128 L=256"; done
for bs in 16 32 64; do for bd in 64 128; do row "causal_conv BS=$bs BD=$bd" causal_conv.tile causal_conv "T=bf16 W=4 BS=$bs BD=$bd B=1 S=32768 D=8192 Offset=none"; done; done
row "causal_conv_step B=256 D=8192" causal_conv.tile causal_conv_step "T=bf16 W=4 R=1 B=256 D=8192 M=256 From=none To=none"
recurrent_peers step
cat /tmp/recurrent.table
