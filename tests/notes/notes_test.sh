#!/bin/sh
# SPDX-License-Identifier: MIT
# notes_test.sh - the performance notes of kinds.tile, word by word, and those of the library, which may only become fewer.
# usage: notes_test.sh KILN SOURCES; KILN_UPDATE_GOLDEN=1 rewrites what is expected.
#
# expected.txt has a line for each note of the library that no header accepts: target, file, kernel, kind. A kernel with a
# note that is not there fails: write it as the note says, or accept(KIND, "reason") in the line of its grid. One that is
# there and is gone fails too: the list then has to shrink.
set -u
kiln=$1
cd "$2" || exit 1
here=tests/notes
passed=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

notes() { # notes TARGET FILE|FOLDER...
    case $1 in cpu) set -- --device=cpu "$@" ;; *) set -- --arch=90 "$@" ;; esac
    option=$1
    shift 2
    "$kiln" explain --notes "$option" "$@"
}

for target in sm_90a cpu; do
    golden=$here/kinds.$target.expect
    # but for the figures, which follow the rates of machines
    notes $target $here/kinds.tile 2>&1 | sed "s/ ([^()]*of the time)//" >"$work/kinds"
    [ -n "${KILN_UPDATE_GOLDEN:-}" ] && cp "$work/kinds" "$golden"
    if diff -u "$golden" "$work/kinds"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAIL the notes of kinds.tile for $target"
    fi
    if notes $target kernels >"$work/library" 2>"$work/errors"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        cat "$work/errors"
        echo "FAIL kernels whose notes cannot be found for $target"
    fi
    echo "$target: $(tail -n 1 "$work/library")"
    # a kernel's name stands above its notes
    awk -v target=$target '
        /^[A-Za-z_0-9]+$/ { kernel = $0 }
        /performance note:/ { file = $1; sub(/:.*/, "", file); kind = $NF; gsub(/[][]/, "", kind); print target, file, kernel, kind }' \
        "$work/library" >>"$work/list"
done
# one kernel's stand with everything else that is said of it
if "$kiln" explain $here/kinds.tile scattered 2>&1 | grep -q 'performance note: .*\[scattered\]'; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "FAIL no note in what explain says of one kernel"
fi
LC_ALL=C sort "$work/list" >"$work/actual"
[ -n "${KILN_UPDATE_GOLDEN:-}" ] && { echo '# SPDX-License-Identifier: MIT' && cat "$work/actual"; } >$here/expected.txt
grep -v '^#' $here/expected.txt | LC_ALL=C sort >"$work/expected"
LC_ALL=C comm -13 "$work/expected" "$work/actual" >"$work/more"
LC_ALL=C comm -23 "$work/expected" "$work/actual" >"$work/fewer"
if [ -s "$work/more" ]; then
    failed=$((failed + 1))
    sed 's/^/FAIL a performance note more: /' "$work/more"
    echo "see 'kiln explain --notes --arch=90 FILE' (or --device=cpu) for what to write instead"
else passed=$((passed + 1)); fi
if [ -s "$work/fewer" ]; then
    failed=$((failed + 1))
    sed 's/^/FAIL a performance note is gone: /' "$work/fewer"
    echo "shrink the list: take these lines out of $here/expected.txt"
else passed=$((passed + 1)); fi
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
