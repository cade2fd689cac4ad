// SPDX-License-Identifier: MIT
// gemm_tiles.c - the cost of a product by every tile of a table, and the least of them.
//
// Tiles go to the processors in rounds. A step of a tile along K takes what its arithmetic takes, or the bytes of both
// operands from L2, or a latency; a tile's end takes a time for each of its elements. The tiles that do not fill a round may be
// divided along K: their parts have ends of their own, and a second kernel reads them all. The whole takes what that adds
// up to, or what memory takes, and a tenth of the other. The figures are data (gemm_costs.c), which `kiln tune --gemm-table`
// fits to times of the tiles on shapes drawn by seed; it says how far from the best it then chooses. Measured shapes for which the
// model misses the best by more than a little have rows of their own.
#include "ops/gemm_tiles.h"

#include "base/arena.h"

#include <stdlib.h>

enum { PARTS_MAX = 33, STEPS_OF_PART = 2, STEP_BYTES = 128 };
enum { TWIN_STEPS = 27 };
enum {
    FEW_ON_CPU = 4,
    SOME_ON_CPU = 16,
    PACKED_ON_CPU = 32, // rows of a tile whose b is packed, at least
    CACHED_ON_CPU = 8 << 20,
    LEAST_STEP_ON_CPU = 64,
    STEP_ON_CPU = 512,
    ROW_ON_CPU = 4096,
};

static const GemmTile wide[] = {
    // f32 and f64 by multiply-adds, f32 in three products of tf32
    { 64, 64, 1, 4, GEMM_PLAIN, 1 },
    { 128, 128, 1, 4, GEMM_PLAIN, 1 },
};

static double over(double x, double y) { return (double)(((int64_t)x + (int64_t)y - 1) / (int64_t)y); }
static double most(double x, double y) { return x > y ? x : y; }
static double least(double x, double y) { return x < y ? x : y; }

// Bytes that a step brings to a processor.
static double moved_by_step(const GemmMachine *a, const GemmShape *s, const GemmTile *t, int bytes)
{
    const double rows = least(t->rows, (double)s->m) + (t->form == GEMM_TWIN ? t->columns / 2.0 : t->columns);
    return rows * STEP_BYTES * t->steps * (s->k * bytes % STEP_BYTES ? a->straddle : 1);
}

static double flops_of(const GemmMachine *a, const GemmShape *s)
{
    const int bytes = kiln_type_bits(s->type) / 8;
    if (s->type == KILN_F64) return a->flops_f64;
    if (bytes < 4 || s->precision == KILN_PRECISION_TF32) return a->tensor_flops[bytes];
    return s->precision == KILN_PRECISION_TF32X3 ? a->tensor_flops[4] / 3 : a->flops_f32;
}

static double step_ns(const GemmMachine *a, const GemmShape *s, const GemmTile *t, int bytes)
{
    const double rows = t->form == GEMM_TURNED ? t->rows : most(t->rows, 64); // an instruction has 64
    const double flops = rows * t->columns * STEP_BYTES * t->steps / bytes * 2 / flops_of(a, s);
    return (most(most(flops, moved_by_step(a, s, t, bytes) / a->l2_bytes), a->latency * t->steps) + a->step) *
           t->factor;
}

// Of memory, by the processors that have work.
static double memory_ns(const GemmMachine *a, const GemmShape *s, int bytes, double items)
{
    const double m = (double)s->m, n = (double)s->n, k = (double)s->k, active = least(items, s->processors);
    const double all = (double)s->batch * (m * k + k * n + m * n) * bytes;
    return all / least(a->bytes, active * a->each) + a->memory;
}

double gemm_cost(const GemmMachine *a, const GemmShape *s, const GemmTile *t, int parts)
{
    const int bytes = kiln_type_bits(s->type) / 8;
    const double processors = s->processors, elements = (double)t->rows * t->columns;
    const double steps = over((double)s->k, STEP_BYTES * t->steps / bytes);
    const int twins = t->form == GEMM_TWIN ? 2 : 1;
    const int64_t tiles =
        s->batch * twins * (int64_t)over((double)s->m, twins * t->rows) * (int64_t)over((double)s->n, t->columns);
    const double rest = parts > 1 ? (double)(tiles % s->processors) : 0, whole = (double)tiles - rest,
                 divided = rest * parts;
    const double step = step_ns(a, s, t, bytes);
    double ns = over(whole, processors) * (steps * step + a->end + a->end_element * elements);
    if (rest > 0)
        ns += a->divided + divided * elements * 4 / a->join_bytes +
              over(divided, processors) * (over(steps, parts) * step + a->part + a->part_element * elements);
    ns = most(ns, (double)tiles * steps * moved_by_step(a, s, t, bytes) / a->l2_all);
    const double memory = memory_ns(a, s, bytes, most(whole, divided));
    return a->launch + most(ns, memory) + least(ns, memory) / 10;
}

// Half of the rows or more are none, or there are many tiles of few rows: not measured either.
static bool is_wasteful(const GemmShape *s, const GemmTile *t)
{
    return (t->rows > 16 && t->rows >= 2 * most((double)s->m, 8)) || (t->rows < 64 && s->m > 4 * t->rows);
}

// What halves of a tile's columns are not: whole instructions.
static bool cannot_pair(const GemmTile *t) { return t->form != GEMM_PLAIN || t->columns % 64 != 0; }

// Rows that begin anywhere in a line are two lines for a step, and L2's rate is the limit; elsewhere twins are seldom faster.
static bool may_be_twins(const GemmShape *s, const GemmTile *t)
{
    const int64_t row = s->k * kiln_type_bits(s->type) / 8;
    return !s->no_twins && s->m > t->rows && row % STEP_BYTES != 0 && row >= TWIN_STEPS * STEP_BYTES;
}

int gemm_most_parts(const GemmShape *s, const GemmTile *t)
{
    if (is_wasteful(s, t) || (t->form == GEMM_TWIN && !may_be_twins(s, t))) return 0;
    const double steps = over((double)s->k, STEP_BYTES * t->steps / (kiln_type_bits(s->type) / 8));
    const int whole = s->paired || t->form == GEMM_TWIN ? 1 : (int)(steps / STEPS_OF_PART);
    return whole < 1 ? 1 : whole > PARTS_MAX ? PARTS_MAX : whole;
}

static void take(const GemmShape *s, const GemmTile *t, int parts, GemmChoice *best)
{
    const double ns = gemm_cost(&gemm_machine, s, t, parts);
    if (!best->rows || ns < best->ns)
        *best = (GemmChoice){ t->rows,   t->columns, STEP_BYTES * t->steps / (kiln_type_bits(s->type) / 8),
                              t->stages, t->form,    parts,
                              ns };
}

static void consider(const GemmShape *s, const GemmTile *t, GemmChoice *best)
{
    const int parts = gemm_most_parts(s, t);
    for (int i = 1; i <= parts; i++) take(s, t, i, best);
}

static int compare_known(const void *x, const void *y)
{
    const GemmKnown *const a = x, *const b = y;
    const int64_t d[] = { a->bytes - b->bytes, a->m - b->m, a->n - b->n, a->k - b->k };
    for (int i = 0; i < COUNT(d); i++)
        if (d[i]) return d[i] < 0 ? -1 : 1;
    return 0;
}

// A shape that was measured, and for which the model does not choose the best.
static const GemmKnown *find_known(const GemmShape *s)
{
    if (s->batch != 1 || s->m > INT32_MAX || s->n > INT32_MAX || s->k > INT32_MAX) return NULL;
    const GemmKnown wanted = { kiln_type_bits(s->type) / 8, (int)s->m, (int)s->n, (int)s->k, 0, 0 };
    return bsearch(&wanted, gemm_known, (size_t)gemm_n_known, sizeof *gemm_known, compare_known);
}

// Steps along K of a host: none longer than K, but by twos, so that few kernels are built.
static int depth_on_cpu(int64_t k, int most_steps)
{
    int depth = most_steps;
    while (depth > LEAST_STEP_ON_CPU && depth / 2 >= k) depth /= 2;
    return depth;
}

// B where it lies, in steps along K that are whole rows where these are a few pages, because a host's fetching ahead
// follows long rows best. What a step or a tile has beyond an edge is filled with zeros: as little as can be, where a step
// costs some columns beside its own.
static GemmChoice few_on_cpu(const GemmShape *s)
{
    enum { OF_STEP = 16, ROWS_OF_B = 64, LEAST_ROWS_OF_B = 16 };
    GemmChoice few = { 1, s->n < ROWS_OF_B ? LEAST_ROWS_OF_B : ROWS_OF_B, STEP_ON_CPU, 4, GEMM_PLAIN, 1, 0 };
    int64_t least_cost = INT64_MAX;
    while (few.rows < s->m) few.rows *= 2;
    for (int depth = STEP_ON_CPU; depth >= LEAST_STEP_ON_CPU; depth /= 2) {
        const int64_t cost = (s->k + depth - 1) / depth * (depth + OF_STEP);
        if (cost >= least_cost) continue;
        few.depth = depth;
        least_cost = cost;
    }
    for (int depth = STEP_ON_CPU; depth <= ROW_ON_CPU; depth += STEP_ON_CPU)
        if (s->k % depth == 0) few.depth = depth;
    return few;
}

// A host reads B where it lies for up to 4 rows, and for up to 16 where it comes from memory, whose rate decides then. Other
// rows share what is packed for them: the more the better, as long as tiles are in the second-level cache, and there are some
// for each processor. Rows beyond M take no time.
static GemmChoice choose_on_cpu(const GemmShape *s, bool is_wide)
{
    const int64_t of_b = s->n * s->k * kiln_type_bits(s->type) / 8;
    if (s->m <= FEW_ON_CPU || (s->m <= SOME_ON_CPU && !is_wide && of_b > CACHED_ON_CPU)) return few_on_cpu(s);
    const int depth = is_wide               ? 128
                      : s->type == KILN_F16 ? 256
                      : s->type == KILN_I8  ? 1024
                                            : 512; // f16 is packed as f32
    GemmChoice many = { 256, 256, depth_on_cpu(s->k, depth), 4, GEMM_PLAIN, 1, 0 };
    while (many.rows > PACKED_ON_CPU && many.rows / 2 >= s->m) many.rows /= 2;
    while (many.columns > 64 &&
           s->batch * ((s->m + many.rows - 1) / many.rows) * ((s->n + many.columns - 1) / many.columns) <
               2 * s->processors)
        many.columns /= 2;
    return many;
}

GemmChoice gemm_choose(const GemmShape *shape)
{
    GemmChoice best = { 0 };
    const bool is_wide = kiln_type_bits(shape->type) > 16 && shape->precision != KILN_PRECISION_TF32;
    if (shape->on_cpu) return choose_on_cpu(shape, is_wide);
    GemmShape whole = *shape; // of a pair: one product of twice the columns
    if (shape->paired) whole.n *= 2;
    const GemmTile *const table = is_wide ? wide : gemm_tiles;
    const GemmKnown *const known = is_wide || shape->paired ? NULL : find_known(shape);
    if (known && !(shape->no_twins && gemm_tiles[known->tile].form == GEMM_TWIN)) {
        take(&whole, &gemm_tiles[known->tile], known->parts, &best);
        return best;
    }
    for (int i = 0; i < (is_wide ? COUNT(wide) : gemm_n_tiles); i++)
        if (!(shape->paired && cannot_pair(&table[i]))) consider(&whole, &table[i], &best);
    if (!best.rows) take(&whole, &table[0], 1, &best); // the least wasteful
    if (shape->paired) best.columns /= 2;
    return best;
}
