// SPDX-License-Identifier: MIT
// random_layout.h - random layouts for tests: from a seed, of any modes, with replicas and padding.
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

// A mode of a coordinate and the input that counts it; dim REPLICATED: of none.
typedef struct Mode {
    LayoutInput input;
    int extent, dim, stride;
} Mode;

typedef struct Modes {
    Mode item[MAX_DIGITS];
    int n;
} Modes;

static inline void shuffle_modes(Random *random, Modes *modes)
{
    for (int i = modes->n - 1; i > 0; i--) {
        const int j = below(random, i + 1);
        const Mode mode = modes->item[i];
        modes->item[i] = modes->item[j];
        modes->item[j] = mode;
    }
}

// The modes of a coordinate below `coverage`, in random order of the primes.
static inline void add_primes(Random *random, Modes *modes, int dim, int coverage)
{
    int primes[16], n = 0, stride = 1;
    for (int p = 2; coverage > 1; coverage % p == 0 ? (primes[n++] = p, coverage /= p) : p++) {
    }
    for (; n > 0; n--) {
        const int i = below(random, n);
        modes->item[modes->n++] = (Mode){ IN_REGISTER, primes[i], dim, stride };
        stride *= primes[i];
        primes[i] = primes[n - 1];
    }
}

// Hands `count` of an input out over modes that are still of registers; what remains replicates.
static inline void hand_out(Random *random, Modes *modes, LayoutInput input, int count, int replicated_percent)
{
    for (int i = 0; i < modes->n && count > 1; i++) {
        Mode *const mode = &modes->item[i];
        if (mode->input != IN_REGISTER || mode->dim == REPLICATED || count % mode->extent != 0) continue;
        if (below(random, 100) < replicated_percent) continue;
        mode->input = input;
        count /= mode->extent;
    }
    for (int p = 2; count > 1; p = count % p == 0 ? p : p + 1)
        while (count % p == 0) {
            modes->item[modes->n++] = (Mode){ input, p, REPLICATED, 0 };
            count /= p;
        }
}

// In the order in which the modes stand. Neighbours that are one mode become one, now and then.
static inline Layout layout_of(Random *random, const Modes *modes, int rank, const int *extents)
{
    Layout layout = layout_new(rank, extents);
    for (int i = 0; i < modes->n; i++) {
        const Mode *const mode = &modes->item[i];
        LayoutMode *const last = layout.n ? &layout.mode[layout.n - 1] : NULL;
        if (last && last->input == mode->input && last->dim == mode->dim && mode->dim != REPLICATED &&
            last->stride * last->extent == mode->stride && (layout.n == LAYOUT_MAX_MODES || below(random, 2)))
            last->extent *= mode->extent;
        else layout_add(&layout, mode->input, mode->extent, mode->dim, mode->stride);
    }
    return layout;
}

// A layout of these extents that covers at least as much, by modes that are not merged yet.
static inline Modes random_modes(Random *random, int rank, const int *coverage, Partition partition)
{
    Modes modes = { .n = 0 };
    const int replicated = below(random, 3) == 0 ? 40 : 0;
    for (int d = 0; d < rank; d++) add_primes(random, &modes, d, coverage[d]);
    shuffle_modes(random, &modes);
    hand_out(random, &modes, IN_GROUP, partition.groups, replicated);
    hand_out(random, &modes, IN_WARP, partition.warps, replicated);
    hand_out(random, &modes, IN_LANE, WARP_LANES, replicated);
    shuffle_modes(random, &modes);
    return modes;
}

// Modes of registers and lanes change places; sometimes lanes give theirs up, or get one of the registers'.
static inline void mix_within_warps(Random *random, Modes *modes)
{
    for (int times = 0; times < 6; times++) {
        Mode *const a = &modes->item[below(random, modes->n)], *const b = &modes->item[below(random, modes->n)];
        if (a->input > IN_LANE || b->input > IN_LANE || a->extent != b->extent || a->dim == REPLICATED) continue;
        if (b->dim == REPLICATED && b->input == IN_REGISTER) continue;
        const LayoutInput input = a->input;
        if (b->dim == REPLICATED && input == IN_REGISTER) { // a lane's replicas divide the registers
            *b = (Mode){ IN_LANE, a->extent, a->dim, a->stride };
            *a = modes->item[--modes->n];
        } else if (b->dim == REPLICATED || below(random, 4)) {
            const Mode whole = *a;
            a->dim = b->dim, a->stride = b->stride;
            b->dim = whole.dim, b->stride = whole.stride;
        } else if (input == IN_LANE && modes->n < MAX_DIGITS) { // a lane's mode goes to registers
            modes->item[modes->n++] = (Mode){ IN_REGISTER, a->extent, a->dim, a->stride };
            a->dim = REPLICATED, a->stride = 0;
        }
    }
}

#endif
