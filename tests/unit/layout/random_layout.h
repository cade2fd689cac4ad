// SPDX-License-Identifier: MIT
// random_layout.h - random layouts for tests: from a seed, of any digits, with replicas and padding.
#ifndef KILN_TESTS_UNIT_LAYOUT_RANDOM_LAYOUT_H
#define KILN_TESTS_UNIT_LAYOUT_RANDOM_LAYOUT_H

#include "layout/layout.h"

#include <stdint.h>

enum { MAX_DIGITS = 32 };

typedef struct Random {
    uint64_t state;
} Random;

static inline int below(Random *random, int n)
{
    random->state = random->state * 6364136223846793005u + 1442695040888963407u;
    return (int)((random->state >> 33) % (uint64_t)n);
}

// A digit of a coordinate and the input that counts it; dim REPLICATED: of none.
typedef struct Digit {
    LayoutInput input;
    int extent, dim, stride;
} Digit;

typedef struct Digits {
    Digit item[MAX_DIGITS];
    int n;
} Digits;

static inline void shuffle_digits(Random *random, Digits *digits)
{
    for (int i = digits->n - 1; i > 0; i--) {
        const int j = below(random, i + 1);
        const Digit digit = digits->item[i];
        digits->item[i] = digits->item[j];
        digits->item[j] = digit;
    }
}

// The digits of a coordinate below `coverage`, in random order of the primes.
static inline void add_primes(Random *random, Digits *digits, int dim, int coverage)
{
    int primes[16], n = 0, stride = 1;
    for (int p = 2; coverage > 1; coverage % p == 0 ? (primes[n++] = p, coverage /= p) : p++) {
    }
    for (; n > 0; n--) {
        const int i = below(random, n);
        digits->item[digits->n++] = (Digit){ IN_REGISTER, primes[i], dim, stride };
        stride *= primes[i];
        primes[i] = primes[n - 1];
    }
}

// Hands `count` of an input out over digits that are still of registers; what remains replicates.
static inline void hand_out(Random *random, Digits *digits, LayoutInput input, int count, int replicated_percent)
{
    for (int i = 0; i < digits->n && count > 1; i++) {
        Digit *const digit = &digits->item[i];
        if (digit->input != IN_REGISTER || digit->dim == REPLICATED || count % digit->extent != 0) continue;
        if (below(random, 100) < replicated_percent) continue;
        digit->input = input;
        count /= digit->extent;
    }
    for (int p = 2; count > 1; p = count % p == 0 ? p : p + 1)
        while (count % p == 0) {
            digits->item[digits->n++] = (Digit){ input, p, REPLICATED, 0 };
            count /= p;
        }
}

// In the order in which the digits stand. Neighbours that are one mode become one, now and then.
static inline Layout layout_of(Random *random, const Digits *digits, int rank, const int *extents)
{
    Layout layout = layout_new(rank, extents);
    for (int i = 0; i < digits->n; i++) {
        const Digit *const digit = &digits->item[i];
        LayoutMode *const last = layout.n ? &layout.mode[layout.n - 1] : NULL;
        if (last && last->input == digit->input && last->dim == digit->dim && digit->dim != REPLICATED &&
            last->stride * last->extent == digit->stride && (layout.n == LAYOUT_MAX_MODES || below(random, 2)))
            last->extent *= digit->extent;
        else layout_add(&layout, digit->input, digit->extent, digit->dim, digit->stride);
    }
    return layout;
}

// A layout of these extents that covers at least as much, by digits that are not merged yet.
static inline Digits random_digits(Random *random, int rank, const int *coverage, Partition partition)
{
    Digits digits = { .n = 0 };
    const int replicated = below(random, 3) == 0 ? 40 : 0;
    for (int d = 0; d < rank; d++) add_primes(random, &digits, d, coverage[d]);
    shuffle_digits(random, &digits);
    hand_out(random, &digits, IN_GROUP, partition.groups, replicated);
    hand_out(random, &digits, IN_WARP, partition.warps, replicated);
    hand_out(random, &digits, IN_LANE, WARP_LANES, replicated);
    shuffle_digits(random, &digits);
    return digits;
}

// Digits of registers and lanes change places; sometimes lanes give theirs up, or get one of the registers'.
static inline void mix_within_warps(Random *random, Digits *digits)
{
    for (int times = 0; times < 6; times++) {
        Digit *const a = &digits->item[below(random, digits->n)], *const b = &digits->item[below(random, digits->n)];
        if (a->input > IN_LANE || b->input > IN_LANE || a->extent != b->extent || a->dim == REPLICATED) continue;
        if (b->dim == REPLICATED && b->input == IN_REGISTER) continue;
        const LayoutInput input = a->input;
        if (b->dim == REPLICATED && input == IN_REGISTER) { // a lane's replicas divide the registers
            *b = (Digit){ IN_LANE, a->extent, a->dim, a->stride };
            *a = digits->item[--digits->n];
        } else if (b->dim == REPLICATED || below(random, 4)) {
            const Digit whole = *a;
            a->dim = b->dim, a->stride = b->stride;
            b->dim = whole.dim, b->stride = whole.stride;
        } else if (input == IN_LANE && digits->n < MAX_DIGITS) { // a lane's digit goes to registers
            digits->item[digits->n++] = (Digit){ IN_REGISTER, a->extent, a->dim, a->stride };
            a->dim = REPLICATED, a->stride = 0;
        }
    }
}

#endif
