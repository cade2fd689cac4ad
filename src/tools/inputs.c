// SPDX-License-Identifier: MIT
// inputs.c - the numbers a check case runs on, the same on every machine.
//
// Element i comes from a hash of (seed, i) alone, so that threads fill a tensor in any order.
#include "tools/cases.h"

#include <math.h>
#include <stdlib.h>

static uint64_t scramble(uint64_t x) // splitmix64's finaliser
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static double unit(uint64_t bits) { return (double)(bits >> 11) * 0x1p-53; } // [0, 1)

static double normal(uint64_t bits) // Box and Muller, from two halves
{
    const double u = ((double)(bits >> 32) + 1) * 0x1p-32, v = (double)(uint32_t)bits * 0x1p-32;
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

typedef struct Filling {
    const CaseInput *input;
    DType type;
    char *data;
    int64_t n;
    uint64_t seed;
} Filling;

static int64_t random_integer(const Filling *f, int64_t i)
{
    const int64_t lo = (int64_t)f->input->a, hi = (int64_t)f->input->b;
    if (hi <= lo) return lo;
    return lo + (int64_t)((__uint128_t)scramble(f->seed + (uint64_t)i) * (uint64_t)(hi - lo + 1) >> 64);
}

static void fill_one(const Filling *f, int64_t i)
{
    const CaseInput *const in = f->input;
    const uint64_t bits = scramble(f->seed + (uint64_t)i);
    const bool is_float = dtype_is_float(f->type);
    switch (in->kind) {
    case INPUT_NORMAL:
        element_set(f->type, f->data, i, is_float ? in->a + in->b * normal(bits) : rint(in->a + in->b * normal(bits)));
        break;
    case INPUT_UNIFORM:
    case INPUT_SORTED:
        if (is_float) element_set(f->type, f->data, i, in->a + (in->b - in->a) * unit(bits));
        else element_set_int(f->type, f->data, i, random_integer(f, i));
        break;
    case INPUT_CONSTANT: element_set(f->type, f->data, i, in->a); break;
    case INPUT_PERMUTATION:
        element_set_int(f->type, f->data, i, i); // shuffled afterwards
        break;
    }
}

// Packed elements share bytes, so a thread takes whole groups of eight.
static void fill_groups(void *context, int64_t first, int64_t last)
{
    const Filling *const f = context;
    for (int64_t i = first * 8; i < last * 8 && i < f->n; i++) fill_one(f, i);
}

static void shuffle(const Filling *f)
{
    for (int64_t i = f->n - 1; i > 0; i--) {
        const int64_t j = (int64_t)(scramble(f->seed + (uint64_t)i) % (uint64_t)(i + 1));
        const int64_t x = element_get_int(f->type, f->data, i), y = element_get_int(f->type, f->data, j);
        element_set_int(f->type, f->data, i, y);
        element_set_int(f->type, f->data, j, x);
    }
}

static void sort(const Filling *f)
{
    double *const values = malloc(sizeof *values * (size_t)(f->n ? f->n : 1));
    for (int64_t i = 0; values && i < f->n; i++) values[i] = element_get(f->type, f->data, i);
    if (values) qsort(values, (size_t)f->n, sizeof *values, compare_doubles);
    for (int64_t i = 0; values && i < f->n; i++) element_set(f->type, f->data, i, values[i]);
    free(values);
}

void fill_input(const CaseInput *input, DType type, void *data, int64_t n, uint64_t seed)
{
    Filling f = { input, type, data, n, scramble(seed) };
    threads_run((n + 7) / 8, fill_groups, &f);
    if (input->kind == INPUT_PERMUTATION) shuffle(&f);
    if (input->kind == INPUT_SORTED) sort(&f);
}
