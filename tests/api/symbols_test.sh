#!/bin/sh
# SPDX-License-Identifier: MIT
# symbols_test.sh - only kiln_ names leave the shared library, which asks for the environment safely. usage: symbols_test.sh LIBKILN
set -eu
command -v nm >/dev/null || { echo "skipped: there is no nm"; exit 0; }
others=$(nm -D --defined-only "$1" | awk '{ print $3 }' | grep -v '^kiln_' || true)
[ -z "$others" ] || { echo "these names leave the library:"; echo "$others"; exit 1; }
test "$(nm -D --defined-only "$1" | grep -c ' T kiln_')" -gt 30
# In a program with more rights than its user the environment decides nothing: secure_getenv is what is called.
if nm -D --undefined-only "$1" | grep -qE ' getenv(@|$)'; then
    echo "the library calls getenv"; exit 1
fi
nm -D --undefined-only "$1" | grep -qE ' secure_getenv(@|$)'
echo "symbols: ok"
