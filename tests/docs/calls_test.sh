#!/bin/sh
# SPDX-License-Identifier: MIT
# calls_test.sh - blocks of C in docs/ that are marked 'c run' compile and run on the CPU; every operator stands in one of them.
# usage: calls_test.sh LIBRARY SOURCE-FOLDER
#
# A block stands in main, with `device`, `ops`, `stream`, and memory of zeros for each NAME_data that it names.
set -eu
library=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cc=${CC:-cc}
n=0
for file in "$source"/docs/*.md; do
    rm -f "$folder"/block.*
    awk -v output="$folder/block" '
        /^```/         { open = !open; wanted = open && /^```c run/; if (wanted) file = output "." ++n; next }
        open && wanted { print > file }' "$file"
    for block in "$folder"/block.*; do
        [ -e "$block" ] || continue
        n=$((n + 1))
        {
            echo '#include <kiln/ops/ops.h>'
            echo '#include <stdio.h>'
            grep '^#include' "$block"
            grep -o '[a-z_]*_data' "$block" | sort -u | sed 's/.*/static char &[1 << 23] __attribute__((aligned(256)));/'
            echo 'int main(void) {'
            echo 'kiln_device *device; kiln_ops *ops; kiln_stream *stream = NULL;'
            echo 'if (kiln_device_open("cpu", &device) || kiln_ops_open(device, NULL, &ops)) return 2;'
            grep -v '^#include' "$block"
            echo 'return *kiln_error_message() != 0; }'
        } >"$folder/call.c"
        $cc -std=c11 -Wall -Wextra -Werror -I"$source/include" "$folder/call.c" "$library" -Wl,-rpath,"$(dirname "$library")" \
            -o "$folder/call" || { echo "FAIL: $file: a block marked 'c run' does not compile"; exit 1; }
        "$folder/call" || { echo "FAIL: $file: a block marked 'c run' fails"; exit 1; }
    done
done
awk '/^```/ { open = !open; wanted = open && /^```c run/; next } open && wanted' "$source"/docs/operators.md >"$folder/all"
grep -oh 'kiln_status *kiln_[a-z0-9_]*(kiln_ops ' "$source"/include/kiln/ops/*.h | sed 's/(.*//; s/.* //' |
    grep -vx 'kiln_ops_.*\|.*_workspace_size' >"$folder/calls" || true
[ -s "$folder/calls" ] || { echo "FAIL: no call is declared in include/kiln/ops"; exit 1; }
while read -r call; do
    grep -q "\<$call(" "$folder/all" || { echo "FAIL: no block marked 'c run' of docs/operators.md calls $call"; exit 1; }
done <"$folder/calls"
[ "$n" -gt 0 ] || { echo "FAIL: no block is marked 'c run'"; exit 1; }
echo "$n blocks ran"
