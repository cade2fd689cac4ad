#!/bin/sh
# SPDX-License-Identifier: MIT
# turns_test.sh - within the days that scripts/turns.sh states scripts/test.sh takes all that takes turns: each part, each kernel in each
# form, each file of the language's, each of ctest's tests, each file of the Python package's. Any day takes each kernel on the CPU.
# usage: turns_test.sh BUILD SOURCE-FOLDER
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo "subdirs(\"$1\")" >"$folder/CTestTestfile.cmake"        # BUILD's own log is of the run that this is part of
(cd "$folder" && ctest -N) | sed -n 's/^ *Test *#[0-9]*: //p' | sort >"$folder/tests"
cd "$2" || exit 1
failed=0 passed=0

# Each line of FILE is in what the first so many days took.
expect_all() { # expect_all WHAT FILE [DAYS]
    : >"$folder/taken"
    for at in $(seq 20000 $((19999 + ${3:-15}))); do cat "$folder/taken-$1-$at"; done | sort -u >"$folder/taken"
    if comm -13 "$folder/taken" "$2" | grep . >"$folder/missing"; then
        echo "FAIL: none of ${3:-15} days takes, of '$1':" $(cat "$folder/missing")
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
}
took() { printf '%s\n' "$2" | tr ' ' '\n' >"$folder/taken-$1-$day"; }

. scripts/turns.sh
day=20000
while [ $day -lt 20015 ]; do
    take_turns $day "$(cat "$folder/tests")"
    took whole "$whole"
    took hopper "$whole $compiled"
    took sanitized "$sanitized"
    took emulated "$emulated"
    took pipelined "$pipelined"
    took generic "$emulated_80"
    took cpu "$whole $native $of_check $of_avx2 $of_portable"
    took native "$whole $native"
    took check "$of_check"
    took avx2 "$of_avx2"
    took portable "$of_portable"
    took language-hopper "$language_90"
    took language-hopper-few "$brief_90"
    took language-generic "$language_80"
    took parts "$(echo $all_parts | tr ' ' '\n' | grep -vxF "$(echo $left_parts | tr ' ' '\n')")"
    took tests "$(grep -vE "$rests" "$folder/tests")"
    took asan "$(grep -vE "$rests_asan" "$folder/tests")"
    took python "$(find python/tests -name 'test_*.py' | grep -vE "/($(echo "$PYTHON_WITHOUT" | tr ' ' '|')).py")"
    took frameworks "${with_frameworks:+$(cat "$folder/taken-python-$day")}"
    for part in $left_parts; do echo "$all_parts" | grep -qw "$part" || echo "$part"; done >>"$folder/unknown"
    day=$((day + 1))
done
for test in $(echo "$groups" | tr ' ' '\n'); do grep -qx "$test" "$folder/tests" || echo "$test"; done >>"$folder/unknown"
find kernels -name '*.tile' | sort >"$folder/kernels"
grep -vE '/(forward_bhsd|varlen|backward_varlen|masked|decode_dense_fp8).tile$' "$folder/kernels" >"$folder/others"
find tests/language/run -maxdepth 1 -name '*.tile' | sort >"$folder/language"
find python/tests -name 'test_*.py' | sort >"$folder/python"
all_pipelined | sort >"$folder/pipelined"
all_generic | sort >"$folder/generic"
echo $all_parts | tr ' ' '\n' | sort >"$folder/parts"
expect_all parts "$folder/parts" 6
expect_all cpu "$folder/kernels" 1                          # every day, in one form or another
expect_all pipelined "$folder/pipelined" 2
for form in native check sanitized; do expect_all $form "$folder/kernels" 3; done
expect_all hopper "$folder/kernels" 6
expect_all emulated "$folder/kernels" 5
expect_all generic "$folder/generic" 5
expect_all whole "$folder/kernels" 7
for form in avx2 portable; do expect_all $form "$folder/others" 6; done
for form in language-hopper language-hopper-few language-generic; do expect_all $form "$folder/language" 5; done
grep -E '^(emulated_)?ops_' "$folder/tests" | grep -vxF "$(echo "$groups" | tr ' ' '\n')" >"$folder/operators"   # but those of a group
expect_all tests "$folder/operators" 3
for form in tests asan; do expect_all $form "$folder/tests"; done
expect_all python "$folder/python"
grep -lE '^ *import (torch|jax|nbclient)' python/tests/test_*.py | grep -vE '/test_(ops|recurrent).py' | sort >"$folder/frameworks"
expect_all frameworks "$folder/frameworks"
# A wrong name would run every day. What a machine without C++ does not have has no turn there.
absent=' '
grep -q '^emulated_' "$folder/tests" || absent='emulated_.*|gpu_.*'
unknown=$(grep -cvxE "$absent" "$folder/unknown")
[ "$unknown" -eq 0 ] || { echo "FAIL: not tests:" $(cat "$folder/unknown"); failed=$((failed + 1)); }
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
