#!/bin/sh
# SPDX-License-Identifier: MIT
# license_test.sh - every source file says under what licence it stands.
# usage: license_test.sh SOURCE-FOLDER
#
# Of what is text and no source (documents, expected output, the corpora of the fuzzers and of the grammar) LICENSE alone says it.
set -u
cd "$1" || exit 1
head -n 1 LICENSE | grep -qx 'MIT License' || { echo "FAIL: LICENSE is not the MIT licence"; exit 1; }
if files=$(git ls-files --cached --others --exclude-standard 2>/dev/null) && [ -n "$files" ]; then :
else files=$(find . -type f -not -path './build*' | sed 's|^\./||'); fi
passed=0 failed=0
for file in $files; do
    case $file in *.md|*.ipynb|*.expect|tests/fuzz/corpus/*|editors/tree-sitter-kiln/test/*|LICENSE|.gitignore|.clang-format) continue ;; esac
    [ -f "$file" ] || continue                             # removed, and not committed yet
    if head -n 2 "$file" | grep -q 'SPDX-License-Identifier: MIT'; then passed=$((passed + 1))
    else failed=$((failed + 1)); echo "FAIL: $file lacks 'SPDX-License-Identifier: MIT' in its first two lines"; fi
done
echo "$passed of $((passed + failed)) passed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
