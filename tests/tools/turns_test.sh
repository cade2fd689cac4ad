#!/bin/sh
# SPDX-License-Identifier: MIT
# turns_test.sh - within 15 days scripts/test.sh takes all that takes turns: each kernel in each form, each file of the language's, each of
# ctest's tests, each file of the Python package's.
# usage: turns_test.sh BUILD SOURCE-FOLDER
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo "subdirs(\"$1\")" >"$folder/CTestTestfile.cmake"        # BUILD's own log is of the run that this is part of
(cd "$folder" && ctest -N) | sed -n 's/^ *Test *#[0-9]*: //p' | sort >"$folder/tests"
cd "$2" || exit 1
failed=0 passed=0

# Each line of FILE is in what the days took.
expect_all() { # expect_all WHAT FILE
    if sort -u "$folder/taken-$1" | comm -13 - "$2" | grep . >"$folder/missing"; then
        echo "FAIL: no day takes, of '$1':" $(cat "$folder/missing")
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
}
took() { printf '%s\n' "$2" >>"$folder/taken-$1"; }

. scripts/turns.sh
day=20000
while [ $day -lt 20015 ]; do
    take_turns $day "$(cat "$folder/tests")"
    took whole "$whole"
    took hopper "$compiled"
    took sanitized "$sanitized"
    took emulated "$emulated"
    took pipelined "$pipelined"
    took generic "$emulated_80"
    took check "$of_check"
    took avx2 "$of_avx2"
    took portable "$of_portable"
    took language-hopper "$language_90"
    took language-generic "$language_80"
    grep -vE "$rests" "$folder/tests" >>"$folder/taken-tests"
    grep -vE "$rests_asan" "$folder/tests" >>"$folder/taken-asan"
    took python "$(find python/tests -name 'test_*.py' | grep -vE "/($(echo "$PYTHON_WITHOUT" | tr ' ' '|')).py")"
    [ -z "$with_frameworks" ] || took frameworks "$(find python/tests -name 'test_*.py' | grep -vE "/($(echo "$PYTHON_WITHOUT" | tr ' ' '|')).py")"
    for test in $(echo "$groups" | tr ' ' '\n'); do
        grep -qx "$test" "$folder/tests" || echo "$test"
    done >"$folder/unknown"
    day=$((day + 1))
done
find kernels -name '*.tile' | sort >"$folder/kernels"
grep -vE '/(forward_bhsd|varlen|backward_varlen|masked|decode_dense_fp8).tile$' "$folder/kernels" >"$folder/others"
find tests/language/run -maxdepth 1 -name '*.tile' | sort >"$folder/language"
find python/tests -name 'test_*.py' | sort >"$folder/python"
all_pipelined | sort >"$folder/pipelined"
all_generic | sort >"$folder/generic"
for form in pipelined generic; do expect_all $form "$folder/$form"; done
for form in whole hopper sanitized emulated check; do expect_all $form "$folder/kernels"; done
for form in avx2 portable; do expect_all $form "$folder/others"; done
for form in language-hopper language-generic; do expect_all $form "$folder/language"; done
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
