#!/bin/sh
# SPDX-License-Identifier: MIT
# generated_programs_test.sh - that a few generated programs agree, and that faults planted in them are found, each by an
# element that it changes.
# usage: [KILN_TEST_DAY=N] generated_programs_test.sh GENERATED_PROGRAMS
#   KILN_TEST_DAY  a third of the faults has its turn on that day; all have where it is not set
programs=$1
passed=0 failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

count() { # count NAME STATUS
    if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAIL $1"
        cat "$log"
    fi
}

"$programs" --seed=301 --programs=16 --sections=4 --forms=check >"$log" 2>&1
count "programs without a fault agree" $?
n=0
for plant in minimum comparison select start largest; do
    n=$((n + 1))
    [ -z "${KILN_TEST_DAY:-}" ] || [ $((n % 3)) -eq $((KILN_TEST_DAY % 3)) ] || continue
    ! "$programs" --seed=301 --programs=16 --sections=4 --forms=check --whole --plant=$plant >"$log" 2>&1 && grep -q '^FAIL check differs: .* is .*, expected ' "$log"
    count "a planted fault is found: $plant" $?
done
! "$programs" --forms=nothing >"$log" 2>&1 && grep -q "is not an option" "$log"
count "a form that is none is refused" $?
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
