#!/bin/sh
# SPDX-License-Identifier: MIT
# sweep_test.sh - a small shape of each family of `kiln bench --sweep` is as its references say. On a day of scripts/test.sh a third of
# the families.
# usage: sweep_test.sh KILN-COMMAND
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export KILN_CACHE="$folder/cache" NO_COLOR=1
unset KILN_TEST_DEVICE
"$1" bench --sweep --list | sed -n 's/^\([a-z0-9-]*\): .*/\1/p' >"$folder/all"
day=${KILN_TEST_DAY:-}
awk -v day="$day" 'day == "" || NR % 3 == day % 3' "$folder/all" >"$folder/families"
# shellcheck disable=SC2046
"$1" bench --sweep --check-only --small --count=1 --seed=1 $(cat "$folder/families") >"$folder/out" 2>&1
status=$?
wanted=$(grep -c . "$folder/families") correct=$(grep -c ' | correct | ' "$folder/out")
[ $status = 0 ] && [ "$wanted" -gt 0 ] && [ "$correct" = "$wanted" ] && echo "$correct of $wanted families correct" && exit 0
echo "FAIL: $correct of $wanted families correct, exit status $status"
grep -v ' | correct | ' "$folder/out"
exit 1
