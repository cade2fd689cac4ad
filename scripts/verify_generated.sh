#!/bin/sh
# SPDX-License-Identifier: MIT
# verify_generated.sh - schedules of generated programs for sm_90a and sm_80, with and without --check: the verifier has to be silent.
# usage: verify_generated.sh PROGRAMS [SEED] [BUILD]
#
# Nothing is run, and nothing is compiled by NVRTC: 10 000 programs take some minutes of one processor. Kernels that a target does not
# support are counted. A kernel that the verifier refuses is kept, and its name printed.
set -u
programs=${1:?PROGRAMS} seed=${2:-1} build=${3:-build} sections=8
folder=$(mktemp -d)
KILN_CACHE=$folder/cache
export KILN_CACHE
passed=0 failed=0 skipped=0 done=0
while [ "$done" -lt "$programs" ]; do
    file=$folder/generated.tile
    "$build/tests/generated_programs" --show --forms= --programs=1 --sections=$sections --seed=$((seed + done)) >"$folder/shown" || exit 2
    sed '/^[0-9]* programs of /,$d' "$folder/shown" >"$file"
    made=$(sed -n 's/^\([0-9]*\) programs of .*/\1/p' "$folder/shown")
    for form in --arch=90 --arch=80 '--arch=90 --check' '--arch=80 --check'; do
        # shellcheck disable=SC2086
        if "$build/kiln" dump --stage=source $form "$file" generated >/dev/null 2>"$folder/said"; then passed=$((passed + made))
        elif grep -qE 'is not supported|unsupported' "$folder/said"; then skipped=$((skipped + made))
        else
            failed=$((failed + 1))
            kept=$(mktemp "${TMPDIR:-/tmp}/generated-XXXXXX")
            cp "$file" "$kept"
            echo "FAIL seed $((seed + done)), $form, $kept: $(head -n 3 "$folder/said")"
        fi
    done
    done=$((done + made))
done
rm -rf "$folder"
echo "$done programs in four forms:"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
