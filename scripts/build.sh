#!/bin/sh
# SPDX-License-Identifier: MIT
# build.sh - configure and build with CMake, quietly unless something is wrong.
# usage: build.sh FOLDER JOBS [CMAKE-OPTION...]
set -u
folder=$1 jobs=$2
shift 2
cd "$(dirname "$0")/.."
mkdir -p "$folder" || exit 1
log=$folder/build.log
[ -t 1 ] && echo "building in $folder ..."
if cmake -S . -B "$folder" "$@" >"$log" 2>&1 && cmake --build "$folder" -j "$jobs" >>"$log" 2>&1; then
    grep -A6 'warning:' "$log"
    exit 0
fi
grep -E -A6 'error: |CMake Error|undefined reference|kiln: |\*\*\* ' "$log" | head -n 60
echo "the build failed; all of its output is in $log"
exit 1
