#!/bin/sh
# SPDX-License-Identifier: MIT
# subjects_test.sh - commit subjects have at most 72 characters and begin with an area, as CONTRIBUTING.md says; merges begin with
# "Merge". Of commits after the last one that did not.
# usage: subjects_test.sh SOURCES
set -u
cd "$1" || exit 1
last=c20228c59bdbda80842f28232274c9f408e8fd9c
git cat-file -e "$last^{commit}" 2>/dev/null || { echo "skipped: commit $last is not there: no history, or a shallow one"; exit 77; }
git merge-base --is-ancestor "$last" HEAD || { echo "skipped: HEAD does not descend from $last"; exit 77; }
git log --format='%h %s' "$last"..HEAD | LC_ALL=C.UTF-8 awk '
    { subject = substr($0, index($0, " ") + 1) }
    length(subject) > 72 { print "FAIL: " $1 ": " length(subject) " characters, expected at most 72: " subject; failed++ }
    subject !~ /^(Merge|[a-z0-9_.+\/-]+(, [a-z0-9_.+\/-]+)*: [^ ])/ { print "FAIL: " $1 ": no area, as in \"cuda: \": " subject; failed++ }
    END { printf "%d subjects passed, %d failed\n", NR - failed, failed; exit failed > 0 }'
