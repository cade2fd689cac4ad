#!/bin/sh
# SPDX-License-Identifier: MIT
# emitted_texts_test.sh - texts are the same each time they are made, and a comparison finds what was changed.
# usage: emitted_texts_test.sh EMITTED_TEXTS SOURCE-FOLDER
set -u
texts=$1
cd "$2" || exit 1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0
expect() { # expect STATUS PATTERN COMMAND...
    wanted=$1 pattern=$2; shift 2
    "$@" >"$folder/out" 2>&1
    status=$?
    if [ $status -eq "$wanted" ] && grep -qE -- "$pattern" "$folder/out"; then passed=$((passed + 1))
    else failed=$((failed + 1)); echo "FAIL: $* ended with $status, expected $wanted and '$pattern':"; head -n 20 "$folder/out"; fi
}
edit() { # edit SED-SCRIPT: in a copy of one text
    rm -rf "$folder/edited"; cp -r "$folder/one" "$folder/edited"
    sed -i "$1" "$folder"/edited/*softmax.sm_90a
}
expect 0 '^[1-9][0-9]* texts' "$texts" write "$folder/one" kernels/norm/softmax.tile
expect 0 '^[1-9][0-9]* texts' "$texts" write "$folder/two" kernels/norm/softmax.tile
expect 0 '^8 passed, 0 failed' "$texts" compare "$folder/one" "$folder/two"
edit 's/__syncthreads()/__syncwarp()/'
expect 1 '^DIFFERS: .*sm_90a, line' "$texts" compare "$folder/one" "$folder/edited"
edit 's/\<threadIdx\>/lane_of_block/g; s|//.*||'
expect 1 '^DIFFERS: ' "$texts" compare "$folder/one" "$folder/edited"
expect 0 '^renamed: threadIdx is now lane_of_block' "$texts" compare --names "$folder/one" "$folder/edited"
edit '0,/\<threadIdx\>/s/\<threadIdx\>/blockIdx/'
expect 1 '^DIFFERS: ' "$texts" compare --names "$folder/one" "$folder/edited"
edit 's/\(+ *\)4\>/\15/'
expect 1 '^DIFFERS: ' "$texts" compare --names "$folder/one" "$folder/edited"
edit 's/fminf(a, b)/fmaxf(a, b)/'
expect 1 '^DIFFERS: ' "$texts" compare "$folder/one" "$folder/edited"
expect 0 '^8 passed, 0 failed' "$texts" compare --kernels "$folder/one" "$folder/edited"
edit 's/__syncthreads()/__syncwarp()/'
expect 1 '^DIFFERS: .*sm_90a, line' "$texts" compare --kernels "$folder/one" "$folder/edited"
rm "$folder"/two/*sm_80
expect 1 '^MISSING: ' "$texts" compare "$folder/one" "$folder/two"
expect 2 '^usage' "$texts" compare
echo "$passed of $((passed + failed)) passed"
[ $failed -eq 0 ]
