#!/bin/sh
# SPDX-License-Identifier: MIT
# structure_test.sh - what docs/architecture.md promises of the sources: no circle of calls spans two folders, folders of
# deciding and of printing call only those above them in its tables, printing calls nothing of deciding and changes nothing
# of it, functions have at most 60 lines, headers of src/lower/gpu at most 200; what another GPU would change is listed; files that comments name are there.
# usage: structure_test.sh BUILD SOURCES      BUILD holds the library's objects
set -u
cd "$2" || exit 1
objects=$1/CMakeFiles/kiln_objects.dir/src
[ -d "$objects" ] || { echo "skipped: $objects is not there"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
report() { # report WHAT: fails with the lines of $work/found, if there are any
    if [ -s "$work/found" ]; then
        failed=$((failed + 1))
        sed "s|^|FAIL: $1: |" "$work/found"
    else passed=$((passed + 1)); fi
}

# "NAME FOLDER" of each function and variable that a folder needs, and that it defines. Objects whose source is gone are none.
find "$objects" -name '*.o' -exec nm -gA {} + | awk -v objects="$objects/" -v work="$work" '
    {
        file = substr($1, length(objects) + 1)
        sub(/:.*/, "", file)
        source = substr(file, 1, length(file) - 2)
        if (!(source in there)) { there[source] = (getline line <("src/" source)) > 0; close("src/" source) }
        if (!there[source]) next
        folder = source
        sub(/\/[^\/]*$/, "", folder)
    }
    $(NF - 1) == "U" { print $NF, folder >(work "/needed"); next }
    $(NF - 1) ~ /^[TDBRCVW]$/ { print $NF, folder >(work "/defined") }'
sort -u "$work/needed" >"$work/needed.sorted"
sort -u "$work/defined" >"$work/defined.sorted"
# Arrows between folders, each with one name that makes it; then those that are on a circle: who reaches whom, both ways.
join "$work/needed.sorted" "$work/defined.sorted" | awk '$2 != $3' >"$work/arrows"
awk '
    { from[NR] = $2; to[NR] = $3; name[NR] = $1; reach[$2, $3] = 1; folder[$2]; folder[$3] }
    END {
        for (k in folder) for (i in folder) if ((i, k) in reach) for (j in folder) if ((k, j) in reach) reach[i, j] = 1
        for (n = 1; n <= NR; n++) if ((to[n], from[n]) in reach) print from[n] " calls " to[n] " (" name[n] "), which reaches it"
    }' "$work/arrows" | sort | awk '{ if (!seen[$1, $3]++) print }' >"$work/found"
report "a circle of calls"

# The folders of decide and print, in the order of their tables; a folder that is in none is an error, too.
for part in decide print; do
    awk -v part="$part" '
        $0 ~ "^\\| folder of `" part "`" { inside = 1; next }
        inside && !/^\|/ { inside = 0 }
        inside && /^\| `/ { split($0, cell, "`"); print "lower/gpu/" part "/" cell[2], ++n }' docs/architecture.md
done >"$work/order"
awk '
    NR == FNR { place[$1] = $2; next }
    { split($2, a, "/"); split($3, b, "/") }
    a[3] !~ /^(decide|print)$/ || a[1] "/" a[2] != "lower/gpu" || a[3] != b[3] { next }
    !($2 in place) || !($3 in place) || place[$2] <= place[$3] { print $2 " calls " $3 " (" $1 "), which is not above it" }
    ' "$work/order" "$work/arrows" >"$work/found"
[ "$(wc -l <"$work/order")" -gt 9 ] || echo "docs/architecture.md has no tables of folders" >>"$work/found"
report "a call of a later folder"

awk '$2 ~ /^lower\/gpu\/print/ && $3 ~ /^lower\/gpu\/decide/ { print "printing calls " $1 " of deciding" }' "$work/arrows" >"$work/found"
grep -rnE '"lower/gpu/decide/' src/lower/gpu/print src/lower/gpu/plans src/lower/gpu/facts src/lower/gpu/schedule >>"$work/found"
report "a decision while printing"

grep -rnE 'Lowering \*' src/lower/gpu/print | grep -v 'const Lowering \*' >"$work/found"
report "printing could change what was decided"

# The files that another GPU changes ("Another GPU"): `folder/name.c` from src on; `name.c` alone is in the folder before it.
# Rows of what is added name files that are not there yet.
awk '
    /^## / { inside = $0 == "## Another GPU" }
    /^\*\*A target/ { list = "hip" }
    /^\*\*An instruction/ { list = "blackwell" }
    inside && /^\| / && !/^\| (added|left alone|---)/ {
        n = split($0, part, "`")
        for (i = 2; i <= n; i += 2) {
            if (part[i] !~ /\.[ch]$/) continue
            if (part[i] ~ /\//) { folder = part[i]; sub(/[^\/]*$/, "", folder) } else part[i] = folder part[i]
            print list, part[i]
        }
    }' docs/architecture.md | sort -u >"$work/listed"
[ "$(wc -l <"$work/listed")" -gt 50 ] || echo "docs/architecture.md has no such lists" >"$work/unlisted"
while read -r list file; do [ -e "src/$file" ] || echo "$list: src/$file is not there"; done <"$work/listed" >>"$work/unlisted"
names() { # names LIST PATTERN: files of src that have it and are not in the list
    grep -rlE "$2" src/layout src/lower/gpu --include='*.[ch]' | sed 's|^src/||' | while read -r file; do
        grep -qxF "$1 $file" "$work/listed" || echo "$1: src/$file has $2, and is not listed"
    done
}
{
    names hip 'WARP_LANES|WARPGROUP_THREADS|LANE_BITS'
    names hip '"cuda/'
    names hip 'gpu_mma\(|case PRODUCT_(WGMMA|MMA)\b'
    names blackwell 'PRODUCT_(WGMMA|MMA)\b|gpu_mma\(|(case|kind =) ACTION_MMA_WAIT'
} >>"$work/unlisted"
sort -u "$work/unlisted" >"$work/found"
report "what another GPU changes"

# In this layout a body begins with a line that is a brace and ends with one.
find src -name '*.c' -exec awk '
    FNR == 1 { start = 0 }
    /^\{$/ { start = FNR; head = before }
    /^\}$/ && start { if (FNR - start + 1 > 60) print FILENAME ":" start ": " FNR - start + 1 " lines"; start = 0 }
    { before = $0 }' {} + >"$work/found"
report "a long function"

# A comment that names a file of src, by a folder and its name, as it ends there.
find src include -name "*.[ch]" >"$work/files"
grep -rnoE '//.*' src --include='*.[ch]' | grep -oE '^[^:]*:[0-9]+|\b[a-z_]+(/[a-z_0-9]+)+\.[ch]\b' | awk '
    NR == FNR { path = "/" $0; while (sub(/^\/[^\/]*/, "", path)) there[path]; next }
    /:[0-9]+$/ { at = $0; next }
    !(("/" $0) in there) && !/^(tests|bench|include)\// { print at ": " $0 " is not there" }' "$work/files" - >"$work/found"
report "a comment about a file that is gone"

find src/lower/gpu -name '*.h' -exec awk 'END { if (NR > 200) print FILENAME ": " NR " lines" }' {} \; >"$work/found"
report "a long header"
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
