#!/bin/sh
# SPDX-License-Identifier: MIT
# cplusplus_test.sh - the headers are C++17 for every compiler that is here, and a program of it runs. usage: cplusplus_test.sh SOURCE-FOLDER LIBKILN
set -eu
source=$1 library=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tried=0
for compiler in g++ clang++; do
    if ! command -v "$compiler" >/dev/null; then echo "cplusplus: no $compiler"; continue; fi
    $compiler -std=c++17 -pedantic -Wall -Wextra -Werror -I "$source/include" "$source/tests/api/cplusplus_program.cc" "$library" \
        -Wl,-rpath,"$(dirname "$library")" -o "$folder/program"
    "$folder/program"
    tried=$((tried + 1))
done
[ $tried -gt 0 ] || { echo "skipped: there is no C++ compiler"; exit 77; }
echo "cplusplus: ok, with $tried compilers"
