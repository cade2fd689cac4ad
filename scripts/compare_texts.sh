#!/bin/sh
# SPDX-License-Identifier: MIT
# compare_texts.sh - whether two builds of Kiln emit the same C and CUDA text for every kernel and language case.
# usage: compare_texts.sh [--names|--kernels] BEFORE [AFTER]
#
# BEFORE and AFTER are build folders (such as build), or commits, which are built aside. AFTER is build if it is not given.
# Both take today's kernels. Forms: sm_90a, sm_80, --check, and those of CPUs. --names: what was only renamed is the same.
# --kernels: what CUDA texts hold of the prelude is passed over.
set -eu
cd "$(dirname "$0")/.."
names=
case ${1:-} in --names | --kernels) names=$1; shift ;; esac
[ $# -ge 1 ] || { sed -n '4p' "$0" | cut -c3-; exit 2; }
folder=$(mktemp -d)
trap 'git worktree remove --force "$folder/before-tree" 2>/dev/null || :; git worktree remove --force "$folder/after-tree" 2>/dev/null || :; rm -rf "$folder"' EXIT

tool_of() { # tool_of NAME BUILD-OR-COMMIT: the program that writes, and compares
    tool=$2/tests/emitted_texts
    if [ ! -x "$tool" ]; then
        git rev-parse -q --verify "$2^{commit}" >/dev/null || { echo "$2 is neither a build with tests nor a commit" >&2; exit 2; }
        git worktree add -q --detach "$folder/$1-tree" "$2"
        sh "$folder/$1-tree/scripts/build.sh" "$folder/$1-tree/build" "$(nproc)" >&2
        tool=$folder/$1-tree/build/tests/emitted_texts
    fi
    echo "$tool"
}

before=$(tool_of before "$1")
after=$(tool_of after "${2:-build}")
"$before" write "$folder/before" kernels tests/language/run
"$after" write "$folder/after" kernels tests/language/run
# shellcheck disable=SC2086
"$after" compare $names "$folder/before" "$folder/after"
