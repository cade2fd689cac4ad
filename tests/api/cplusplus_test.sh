#!/bin/sh
# SPDX-License-Identifier: MIT
# cplusplus_test.sh - for every C++ compiler that is here the headers are C++17, kiln.hpp is C++20, and programs of both run.
# usage: cplusplus_test.sh SOURCE-FOLDER LIBKILN
set -eu
source=$1 library=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tried=0

build_and_run() { # build_and_run STANDARD FILE
    # Arguments that are not named are 0, which is what is meant.
    $compiler -std="$1" -pedantic -Wall -Wextra -Werror -Wno-missing-field-initializers -I "$source/include" "$2" "$library" \
        -Wl,-rpath,"$(dirname "$library")" -o "$folder/program"
    "$folder/program"
}

for compiler in g++ clang++; do
    if ! command -v "$compiler" >/dev/null; then echo "cplusplus: no $compiler"; continue; fi
    build_and_run c++17 "$source/tests/api/cplusplus_program.cc"
    build_and_run c++20 "$source/tests/api/owners_program.cc"
    build_and_run c++20 "$source/examples/paged_decode.cpp"
    tried=$((tried + 1))
done
[ $tried -gt 0 ] || { echo "skipped: there is no C++ compiler"; exit 77; }
echo "cplusplus: ok, with $tried compilers"
