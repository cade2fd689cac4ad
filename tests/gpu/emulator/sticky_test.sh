#!/bin/sh
# SPDX-License-Identifier: MIT
# sticky_test.sh - after a fault a device takes nothing more; `kiln test` opens it anew, in a new process if the driver
# wants one, so that a fault costs the case alone.
# usage: BUILD=folder sticky_test.sh KILN
set -u
kiln=$1
emulated=$(cd "$(dirname "$0")/../../../scripts" && pwd)/emulated.sh
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cat >"$work/faults.tile" <<'END'
kernel faults<int BN = 32>(in f32 X[N], out f32 Y[N], int how)
{
    grid (n : ceildiv(N, BN)) warps(1);
    assert(how != 1 || n != 1, "planted");              // one block, since any of several may be first
    fragment f32 x[BN] = X[n*BN +: BN];
    Y[n*BN +: BN] = x;
}
reference faults { for (int i = 0; i < N; i++) Y[i] = X[i] + (how == 2 && i == 3 ? 1 : 0); }
check faults<BN = {32, 64}>(N = {32, 100}, how = {0, 1, 2, 0}) { }
check faults(N = 70, how = 0) { }
END
cat >"$work/more.tile" <<'END'
kernel more(in f32 X[N], out f32 Y[N])
{
    grid (n : ceildiv(N, 64)) warps(1);
    fragment f32 x[64] = X[n*64 +: 64];
    Y[n*64 +: 64] = x;
}
reference more { for (int i = 0; i < N; i++) Y[i] = X[i]; }
check more(N = {64, 70}) { }
END
failed=0 n=0
expect() {                               # the number of lines that a pattern matches
    n=$((n + 1))
    got=$(grep -cE -- "$2" "$work/out")
    [ "$got" -eq "$1" ] || { failed=$((failed + 1)); echo "FAIL: $got lines, not $1, say '$2'; there was:"; cat "$work/out" "$work/err"; }
}
run() {                                  # run STICKY [OPTION]
    KILN_EMULATOR_STICKY=$1 sh "$emulated" "$kiln" test ${2:-} --device=cuda:0 "$work/faults.tile" "$work/more.tile" >"$work/out" 2>"$work/err"
    status=$?
    n=$((n + 1))
    [ "$status" -eq 1 ] || { failed=$((failed + 1)); echo "FAIL: kiln test ended with $status, expected 1"; }
}
for how in 1 2; do
    run $how
    expect 1 '^13 passed, 6 failed, 0 skipped'
    expect 1 'FAIL.*faults.tile: 11 passed, 6 failed, 0 skipped'
    expect 2 'FAIL .*faults<BN=(32|64)>\(N=100, how=1\)'
    expect 2 'planted \(block 1\)'
    expect 4 'FAIL .*faults<BN=(32|64)>\(N=(32|100), how=2\)'
    expect 4 'first: Y\[3\] is .*, expected '
    expect 2 'faults<32> on .*sm_90.*, X f32\[100\], Y f32\[100\]'
done
run 2 --json
expect 19 '^  \{"file".*\}(,|$)'
expect 1 '^\], "passed": 13, "failed": 6, "skipped": 0\}'
if command -v python3 >/dev/null; then python3 -m json.tool "$work/out" >/dev/null || failed=$((failed + 1)); fi
echo "$((n - failed)) of $n expectations passed"
[ "$failed" -eq 0 ]
