#!/bin/sh
# SPDX-License-Identifier: MIT
# docs_test.sh - what README.md and docs/ say is there, is there.
# usage: docs_test.sh KILN-COMMAND SOURCE-FOLDER
#
#   ```tile run    a block that stands alone: it builds for the CPU, and its checks pass if it has any
#   docs/guide.md  its tile blocks, one after another, are the file that it writes: the file's checks pass, and the
#                  commands that it types work
#   output         what blocks show below `$ kiln dump`, `explain` and `layout`, these print; of a line with "..." what stands before that
#   form           tile blocks, and all of kernels/ and tests/language/run/, are as `kiln fmt` writes them
#   paths          what is linked, and what is named below kernels/, docs/, examples/, src/ ..., exists
#   options        each --option after `kiln COMMAND` is one that `kiln COMMAND --help` lists
set -u
kiln=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$source" || exit 1
passed=0 failed=0

ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAIL: $*"; }

# blocks PATTERN FILE OUTPUT: the fenced blocks whose fence matches PATTERN, as OUTPUT.1.tile, OUTPUT.2.tile ...
blocks() {
    awk -v pattern="$1" -v output="$3" '
        /^```/         { open = !open; wanted = open && $0 ~ pattern; if (wanted) file = output "." ++n ".tile"; next }
        open && wanted { print > file }' "$2"
}

run_block() { # run_block FILE NAME: its checks, or a build of its first kernel
    if grep -q '^check ' "$1"; then "$kiln" test "$1" >"$folder/out" 2>&1
    else "$kiln" build "$1" >"$folder/out" 2>&1
    fi && { ok; return; }
    bad "$2:"; cat "$folder/out" "$1"
}

for file in README.md docs/*.md; do
    name=$(basename "$file" .md)
    blocks '^```tile run' "$file" "$folder/$name"
    for block in "$folder/$name".*.tile; do
        [ -e "$block" ] && run_block "$block" "$file, a block marked 'tile run'"
    done
done
mkdir "$folder/guide"
blocks '^```tile' docs/guide.md "$folder/guide/part"
for part in $(ls "$folder/guide" | sort -t. -k2n); do cat "$folder/guide/$part"; done >"$folder/whole.tile"
run_block "$folder/whole.tile" "docs/guide.md, its blocks together"

# The commands that the guide types, beside that file and at a small size.
cp "$folder/whole.tile" "$folder/guide/fused_softmax.tile"
awk '/^```/ { open = !open; sh = open && /^```sh/; next } open && sh && /^kiln /' docs/guide.md |
    sed 's/ *#.*//; s/^kiln //; s/M=[0-9]*/M=64/' >"$folder/commands"
[ -s "$folder/commands" ] || bad "docs/guide.md types no command"
while read -r command; do
    # shellcheck disable=SC2086
    if (cd "$folder/guide" && "$kiln" $command >"$folder/out" 2>&1 </dev/null); then ok
    else bad "docs/guide.md: kiln $command:"; cat "$folder/out"; fi
done <"$folder/commands"

# ---- output

# Each block of the documents that begins with such a command: the command in shown.N, the lines that it should print in shown.N.lines.
awk -v output="$folder/shown" '
    /^```/ { open = !open; wanted = 0; next }
    open && /^\$ / { wanted = /^\$ kiln (dump|explain|layout) /; if (wanted) print substr($0, 3) > (output "." ++n); next }
    open && wanted && NF { print > (output "." n ".lines") }' docs/*.md
for block in "$folder"/shown.*.lines; do
    command=$(cat "${block%.lines}")
    (kiln() { "$kiln" "$@"; }; eval "$command") >"$folder/printed" 2>"$folder/out" </dev/null
    if awk '{ gsub(/ +/, " "); sub(/ $/, "") }
            NR == FNR { printed[NR] = $0; next }
            { at = index($0, "..."); found = 0; for (i in printed) found += at ? substr(printed[i], 1, at - 1) == substr($0, 1, at - 1) : printed[i] == $0 }
            !found { print; missing = 1 }
            END { exit missing }' "$folder/printed" "$block" >"$folder/missing"; then ok
    else bad "docs: '$command' does not print:"; cat "$folder/missing" "$folder/out"; fi
done

# ---- form

for file in README.md docs/*.md; do
    name=$(basename "$file" .md)
    blocks '^```tile' "$file" "$folder/form-$name"
    for block in "$folder/form-$name".*.tile; do
        [ -e "$block" ] || continue
        if "$kiln" fmt --check "$block" >/dev/null 2>"$folder/out"; then ok
        else bad "$file: a block is not as 'kiln fmt' writes it:"; cat "$folder/out"; "$kiln" fmt --print "$block" | diff "$block" -; fi
    done
done
if "$kiln" fmt --check kernels tests/language/run >"$folder/out" 2>&1; then ok; else bad "'kiln fmt' would change:"; cat "$folder/out"; fi

# ---- paths

exists() { # exists FILE PATH: from the root, or beside FILE
    if [ -e "$2" ] || [ -e "$(dirname "$1")/$2" ]; then ok; else bad "$1 names $2, which does not exist"; fi
}
for file in README.md docs/*.md; do
    grep -oE '\]\([^)#:]+[)#]' "$file" | sed -E 's/^\]\(//; s/[)#]$//' >"$folder/paths"
    grep -oE '\b(kernels|docs|examples|src|include|scripts|tests|bench)/[A-Za-z0-9_/.-]*[A-Za-z0-9_/]' "$file" >>"$folder/paths"
    sort -u "$folder/paths" | grep -v '<' >"$folder/unique"
    while read -r path; do exists "$file" "$path"; done <"$folder/unique"
done

# ---- options and targets of make

for file in README.md docs/*.md; do
    grep -oE '\bkiln [a-z]+( [^`#]*)?' "$file" | while read -r line; do
        command=$(echo "$line" | cut -d' ' -f2)
        for option in $(echo "$line" | grep -oE -- '--[a-z][a-z-]*'); do echo "$command $option"; done
    done | sort -u >"$folder/options"
    while read -r command option; do
        if "$kiln" "$command" --help 2>/dev/null | grep -qE -- "^ *$option\\b" || [ "$option" = --help ]; then ok
        else bad "$file names 'kiln $command $option', which 'kiln $command --help' does not list"; fi
    done <"$folder/options"
    for target in $(grep -oE '^make [a-z-]+|`make [a-z-]+' "$file" | sed 's/.*make //' | sort -u); do
        if grep -q "^$target:" Makefile; then ok; else bad "$file says 'make $target', which the Makefile lacks"; fi
    done
done

echo "$passed of $((passed + failed)) passed"
[ $failed -eq 0 ]
