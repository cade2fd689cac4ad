// SPDX-License-Identifier: MIT
// range.c - arithmetic of intervals over the mathematical integers; what does not fit 64 bits is an end that is not known.
#include "ir/range.h"

const Range range_unknown;

Range range_add(Range a, Range b)
{
    Range r = range_unknown;
    r.has_lo = a.has_lo && b.has_lo && !__builtin_add_overflow(a.lo, b.lo, &r.lo);
    r.has_hi = a.has_hi && b.has_hi && !__builtin_add_overflow(a.hi, b.hi, &r.hi);
    return r;
}

Range range_scale(Range a, int64_t factor)
{
    Range r = range_unknown;
    if (factor == 0) return range_exactly(0);
    const bool flip = factor < 0;
    const bool has_lo = flip ? a.has_hi : a.has_lo, has_hi = flip ? a.has_lo : a.has_hi;
    r.has_lo = has_lo && !__builtin_mul_overflow(flip ? a.hi : a.lo, factor, &r.lo);
    r.has_hi = has_hi && !__builtin_mul_overflow(flip ? a.lo : a.hi, factor, &r.hi);
    return r;
}

Range range_join(Range a, Range b)
{
    Range r = range_unknown;
    r.has_lo = a.has_lo && b.has_lo;
    r.has_hi = a.has_hi && b.has_hi;
    if (r.has_lo) r.lo = a.lo < b.lo ? a.lo : b.lo;
    if (r.has_hi) r.hi = a.hi > b.hi ? a.hi : b.hi;
    return r;
}

Range range_min(Range a, Range b)
{
    Range r = range_unknown;
    r.has_lo = a.has_lo && b.has_lo;
    if (r.has_lo) r.lo = a.lo < b.lo ? a.lo : b.lo;
    r.has_hi = a.has_hi || b.has_hi;
    if (r.has_hi) r.hi = !b.has_hi || (a.has_hi && a.hi < b.hi) ? a.hi : b.hi;
    return r;
}

Range range_negate(Range a) { return range_scale(a, -1); }
Range range_max(Range a, Range b) { return range_negate(range_min(range_negate(a), range_negate(b))); }

Range range_mul(Range a, Range b)
{
    if (a.has_lo && a.has_hi && a.lo == a.hi) return range_scale(b, a.lo);
    if (b.has_lo && b.has_hi && b.lo == b.hi) return range_scale(a, b.lo);
    if (!(a.has_lo && b.has_lo)) return range_unknown;
    Range r = range_unknown;
    if (a.lo >= 0 && b.lo >= 0) {
        r.has_lo = !__builtin_mul_overflow(a.lo, b.lo, &r.lo);
        r.has_hi = a.has_hi && b.has_hi && !__builtin_mul_overflow(a.hi, b.hi, &r.hi);
        return r;
    }
    if (!(a.has_hi && b.has_hi)) return range_unknown;
    const int64_t xs[2] = { a.lo, a.hi }, ys[2] = { b.lo, b.hi };
    for (int i = 0; i < 4; i++) {
        int64_t product;
        if (__builtin_mul_overflow(xs[i / 2], ys[i % 2], &product)) return range_unknown;
        r = i == 0 ? range_exactly(product) : range_join(r, range_exactly(product));
    }
    return r;
}

// Rounds toward zero, as C does.
Range range_div(Range a, Range b)
{
    if (!b.has_lo || b.lo <= 0) return range_unknown;
    Range r = range_unknown;
    // Both ends move toward zero the least with the largest divisor, the most with the smallest.
    if (a.has_lo) {
        r.has_lo = true;
        r.lo = a.lo < 0 ? a.lo / b.lo : b.has_hi ? a.lo / b.hi : 0;
    }
    if (a.has_hi) {
        r.has_hi = true;
        r.hi = a.hi >= 0 ? a.hi / b.lo : b.has_hi ? a.hi / b.hi : 0;
    }
    return r;
}

Range range_mod(Range a, Range b)
{
    if (!b.has_lo || b.lo <= 0) return range_unknown;
    if (a.has_lo && a.lo >= 0 && a.has_hi && a.hi < b.lo) return a;
    Range r = range_unknown;
    if (b.has_hi) r = range_between(-(b.hi - 1), b.hi - 1);
    if (a.has_lo && a.lo >= 0) {
        r.has_lo = true;
        r.lo = 0;
    }
    if (a.has_hi && a.hi <= 0) {
        r.has_hi = true;
        r.hi = 0;
    }
    if (a.has_lo && a.lo >= 0 && a.has_hi && (!r.has_hi || a.hi < r.hi)) {
        r.has_hi = true;
        r.hi = a.hi;
    }
    return r;
}

static int64_t ceil_div(int64_t x, int64_t d) { return x / d + (x % d > 0); }

Range range_ceildiv(Range a, Range b)
{
    if (!b.has_lo || b.lo <= 0) return range_unknown;
    Range r = range_unknown;
    if (a.has_lo) {
        r.has_lo = true;
        r.lo = a.lo < 0 ? ceil_div(a.lo, b.lo) : b.has_hi ? ceil_div(a.lo, b.hi) : a.lo > 0;
    }
    if (a.has_hi) {
        r.has_hi = true;
        r.hi = a.hi >= 0 ? ceil_div(a.hi, b.lo) : b.has_hi ? ceil_div(a.hi, b.hi) : 0;
    }
    return r;
}

Range range_bitand(Range a, Range b)
{
    // What both sides can have set is at most the smaller of two non-negative numbers; one of them is enough.
    Range r = range_unknown;
    const bool a_ok = a.has_lo && a.lo >= 0, b_ok = b.has_lo && b.lo >= 0;
    if (!a_ok && !b_ok) return range_unknown;
    r.has_lo = true;
    if (a_ok && a.has_hi) {
        r.has_hi = true;
        r.hi = a.hi;
    }
    if (b_ok && b.has_hi && (!r.has_hi || b.hi < r.hi)) {
        r.has_hi = true;
        r.hi = b.hi;
    }
    return r;
}

// Of | and ^: no bit above the highest of either side.
Range range_bitor(Range a, Range b)
{
    if (!(a.has_lo && b.has_lo && a.lo >= 0 && b.lo >= 0)) return range_unknown;
    if (!(a.has_hi && b.has_hi)) return (Range){ .lo = 0, .has_lo = true };
    const uint64_t most = (uint64_t)(a.hi | b.hi);
    return range_between(0, most ? (int64_t)(UINT64_MAX >> __builtin_clzll(most)) : 0);
}

Range range_shr(Range a, Range b, int bits)
{
    if (!(b.has_lo && b.has_hi && b.lo == b.hi && b.lo >= 0 && b.lo < bits)) return range_unknown;
    a.lo >>= b.lo;
    a.hi >>= b.lo;
    return a;
}
