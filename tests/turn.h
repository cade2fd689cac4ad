// SPDX-License-Identifier: MIT
// turn.h - of a long list of cases, those whose turn it is on the day that scripts/test.sh names in KILN_TEST_DAY, a number;
// all where it names none.
#ifndef KILN_TESTS_TURN_H
#define KILN_TESTS_TURN_H

#include <stdbool.h>
#include <stdlib.h>

// Case i, where one of `of` has its turn each day.
static inline bool has_turn(int i, int of)
{
    const char *const day = getenv("KILN_TEST_DAY");
    return !day || !*day || i % of == atoi(day) % of;
}

#endif
