#!/bin/sh
# SPDX-License-Identifier: MIT
# build.sh - configure and build with CMake; says how far it is, and where the results lie.
# usage: build.sh FOLDER JOBS [CMAKE-OPTION...]
set -u
folder=$1 jobs=$2
shift 2
cd "$(dirname "$0")/.."
mkdir -p "$folder" || exit 1
log=$folder/build.log
began=$(date +%s)

# What is built takes minutes on a small machine: a line for each quarter of it, of what make says is done.
watch_build() {
    tee -a "$log" | awk -v began="$began" '
        /^\[ *[0-9]+%\]/ { sub(/^\[ */, ""); done = int($0 / 25) * 25
                          if (done > told && done < 100) { told = done; print "  " done "%"; fflush() } }'
}

configure_and_build() {
    cmake -S . -B "$folder" "$@" >"$log" 2>&1 || return
    { cmake --build "$folder" -j "$jobs" 2>&1; echo $? >"$folder/build.status"; } | watch_build
    return "$(cat "$folder/build.status")"
}

echo "building in $folder with $jobs jobs; all that is said goes to $log"
if configure_and_build "$@"; then
    grep -A6 'warning:' "$log"
    made=
    for file in kiln libkiln.so libkiln_static.a libkiln_launch.a; do [ -e "$folder/$file" ] && made="$made $folder/$file"; done
    echo "built in $(($(date +%s) - began)) s:$made"
    exit 0
fi
grep -E -A6 'error: |CMake Error|undefined reference|kiln: |\*\*\* ' "$log" | head -n 60
echo "the build failed; all of its output is in $log"
exit 1
