// SPDX-License-Identifier: MIT
// range.h - intervals of integers of which an end may be unknown, and what operations make of them.
//
// Each function is conservative: of any x in a and y in b, x op y is in the result, over the mathematical integers.
#ifndef KILN_IR_RANGE_H
#define KILN_IR_RANGE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Range {
    int64_t lo, hi;
    bool has_lo, has_hi;
} Range;
extern const Range range_unknown;

static inline Range range_exactly(int64_t value) { return (Range){ value, value, true, true }; }
static inline Range range_between(int64_t lo, int64_t hi) { return (Range){ lo, hi, true, true }; }
Range range_join(Range a, Range b); // holds both

// What is in both.
static inline Range range_meet(Range a, Range b)
{
    if (b.has_lo && (!a.has_lo || b.lo > a.lo)) {
        a.has_lo = true;
        a.lo = b.lo;
    }
    if (b.has_hi && (!a.has_hi || b.hi < a.hi)) {
        a.has_hi = true;
        a.hi = b.hi;
    }
    return a;
}

Range range_negate(Range a);
Range range_add(Range a, Range b);
Range range_scale(Range a, int64_t factor);
Range range_mul(Range a, Range b);
Range range_div(Range a,
                Range b); // rounds toward zero, as C does; of a divisor that may not be positive nothing is known
Range range_mod(Range a, Range b);
Range range_ceildiv(Range a, Range b);
Range range_min(Range a, Range b);
Range range_max(Range a, Range b);
Range range_bitand(Range a, Range b);
Range range_bitor(Range a, Range b); // of | and ^
Range range_shr(Range a, Range b, int bits);

#endif
