#!/bin/sh
# SPDX-License-Identifier: MIT
# symbols_test.sh - only kiln_ names leave the libraries; the shared one asks for the environment safely.
# usage: symbols_test.sh LIBKILN ARCHIVE...
set -eu
command -v nm >/dev/null || { echo "skipped: there is no nm"; exit 0; }
library=$1
shift
for archive; do                                            # these meet the names of a program
    others=$(nm -g --defined-only "$archive" | awk 'NF == 3 && $3 !~ /^kiln_/ { print $3 }')
    [ -z "$others" ] || { echo "these names leave $archive:"; echo "$others"; exit 1; }
    test "$(nm -g --defined-only "$archive" | grep -c ' T kiln_')" -gt 20
done
others=$(nm -D --defined-only "$library" | awk '{ print $3 }' | grep -v '^kiln_' || true)
[ -z "$others" ] || { echo "these names leave the library:"; echo "$others"; exit 1; }
test "$(nm -D --defined-only "$library" | grep -c ' T kiln_')" -gt 30
# In a program with more rights than its user the environment decides nothing: secure_getenv is what is called.
if nm -D --undefined-only "$library" | grep -qE ' getenv(@|$)'; then
    echo "the library calls getenv"; exit 1
fi
nm -D --undefined-only "$library" | grep -qE ' secure_getenv(@|$)'
echo "symbols: ok"
