#!/bin/sh
# SPDX-License-Identifier: MIT
# format_test.sh - all C files are as clang-format 14 and the .clang-format of their folder have them.
# usage: format_test.sh SOURCES
set -u
cd "$1" || exit 1
format=$(command -v clang-format-14) || { echo "skipped: there is no clang-format-14"; exit 77; }
find src bench tests examples include -name '*.[ch]' -exec "$format" --dry-run -Werror {} + 2>&1 | grep 'error:' && exit 1
echo "$(find src bench tests examples include -name '*.[ch]' | wc -l) files passed"
