// SPDX-License-Identifier: MIT
// gemm_tiles.c - the cost of a product by every tile of a table, and the least of them.
//
// Tiles go to the processors in rounds. A step of a tile along K takes what its arithmetic takes, or the bytes of both
// operands from L2, or a latency; a tile's end takes a time for each of its elements. The tiles that do not fill a round may be
// divided along K: their parts have ends of their own, and a second kernel reads them all. The whole takes what that adds
// up to, or what memory takes, and a tenth of the other. The figures are data: bench/gemm_fit.py fits them to the times
// of all tiles that bench/gemm_tune.py has measured on shapes drawn by seed, and says how far from the best it then chooses.
#include "ops/gemm_tiles.h"

#include "base/arena.h"

enum { PARTS_MAX = 33, STEPS_OF_PART = 2, STEP_BYTES = 128 };
enum { FEW_ON_CPU = 16, STEP_ON_CPU = 512, ROW_ON_CPU = 4096 };

typedef struct Tile {
    int rows, columns, steps, stages; // steps: of STEP_BYTES along K, in one
    bool turned;                      // computed transposed: instructions have 8 rows and 64 columns, not 64 and 8
} Tile;

// Of an H100 of 132 processors; ns, and what one ns brings.
typedef struct Machine {
    double tensor_flops[5];             // of one processor, by bytes of an element
    double flops_f32, flops_f64;        // by multiply-adds
    double l2_bytes, latency, step;     // of one processor; of a step of STEP_BYTES; of any step
    double launch, end, end_element;    // of the whole; of a tile
    double divided, part, part_element; // if there are parts: once, and of a part
    double join_bytes;                  // read by the second kernel
    double l2_all, each, bytes, memory; // L2 to all processors; memory to one and to all; once
    double straddle;                    // more bytes move where rows do not begin at lines
} Machine;

static const Machine machine = {
    .tensor_flops = { [1] = 12824, [2] = 6412, [4] = 3206 },
    .flops_f32 = 320,
    .flops_f64 = 160, // of f64: a guess, half of f32's
    .l2_bytes = 114.4,
    .latency = 81.5,
    .step = 7.836,
    .launch = 2289,
    .end = 1053,
    .end_element = 0.03931,
    .divided = 6866,
    .part = 609.5,
    .part_element = 0.05299,
    .join_bytes = 1946,
    .l2_all = 14060,
    .each = 84.41,
    .bytes = 2939,
    .memory = 4384,
    .straddle = 1.747,
};

static const Tile narrow[] = {
    // elements of 1 or 2 bytes and tf32, by tensor cores
    { 16, 64, 2, 8, false },   { 16, 128, 2, 6, false },  { 32, 64, 2, 8, false },   { 32, 128, 2, 5, false },
    { 64, 32, 2, 8, false },   { 64, 64, 2, 6, false },   { 64, 96, 2, 5, false },   { 64, 128, 2, 4, false },
    { 64, 192, 1, 6, false },  { 64, 256, 1, 4, false },  { 128, 64, 1, 8, false },  { 128, 96, 1, 7, false },
    { 128, 128, 1, 6, false }, { 128, 160, 1, 5, false }, { 128, 192, 1, 4, false }, { 128, 224, 1, 4, false },
    { 128, 240, 1, 4, false }, { 128, 256, 1, 4, false }, { 192, 128, 1, 4, false }, { 192, 160, 1, 4, false },
    { 192, 192, 1, 4, false }, { 256, 128, 1, 4, false }, { 80, 256, 1, 5, true },   { 112, 128, 1, 6, true },
    { 112, 256, 1, 4, true },  { 176, 128, 1, 5, true },  { 208, 128, 1, 5, true },
};
static const Tile wide[] = {
    // f32 and f64 by multiply-adds, f32 in three products of tf32
    { 64, 64, 1, 4, false },
    { 128, 128, 1, 4, false },
};

static double over(double x, double y) { return (double)(((int64_t)x + (int64_t)y - 1) / (int64_t)y); }
static double most(double x, double y) { return x > y ? x : y; }
static double least(double x, double y) { return x < y ? x : y; }

// Bytes that a step brings to a processor.
static double moved_by_step(const GemmShape *s, const Tile *t, int bytes)
{
    const double rows = least(t->rows, (double)s->m) + t->columns;
    return rows * STEP_BYTES * t->steps * (s->k * bytes % STEP_BYTES ? machine.straddle : 1);
}

static double flops_of(const GemmShape *s)
{
    const int bytes = kiln_type_bits(s->type) / 8;
    if (s->type == KILN_F64) return machine.flops_f64;
    if (bytes < 4 || s->precision == KILN_PRECISION_TF32) return machine.tensor_flops[bytes];
    return s->precision == KILN_PRECISION_TF32X3 ? machine.tensor_flops[4] / 3 : machine.flops_f32;
}

static double step_ns(const GemmShape *s, const Tile *t, int bytes)
{
    const Machine *const a = &machine;
    const double rows = t->turned ? t->rows : most(t->rows, 64); // an instruction has 64
    const double flops = rows * t->columns * STEP_BYTES * t->steps / bytes * 2 / flops_of(s);
    return most(most(flops, moved_by_step(s, t, bytes) / a->l2_bytes), a->latency * t->steps) + a->step;
}

// Of memory, by the processors that have work.
static double memory_ns(const GemmShape *s, int bytes, double items)
{
    const double m = (double)s->m, n = (double)s->n, k = (double)s->k, active = least(items, s->processors);
    const double all = (double)s->batch * (m * k + k * n + m * n) * bytes;
    return all / least(machine.bytes, active * machine.each) + machine.memory;
}

static double cost_of(const GemmShape *s, const Tile *t, int bytes, double steps, int parts)
{
    const Machine *const a = &machine;
    const double processors = s->processors, elements = (double)t->rows * t->columns;
    const int64_t tiles = s->batch * (int64_t)over((double)s->m, t->rows) * (int64_t)over((double)s->n, t->columns);
    const double rest = parts > 1 ? (double)(tiles % s->processors) : 0, whole = (double)tiles - rest,
                 divided = rest * parts;
    const double step = step_ns(s, t, bytes);
    double ns = over(whole, processors) * (steps * step + a->end + a->end_element * elements);
    if (rest > 0)
        ns += a->divided + divided * elements * 4 / a->join_bytes +
              over(divided, processors) * (over(steps, parts) * step + a->part + a->part_element * elements);
    ns = most(ns, (double)tiles * steps * moved_by_step(s, t, bytes) / a->l2_all);
    const double memory = memory_ns(s, bytes, most(whole, divided));
    return a->launch + most(ns, memory) + least(ns, memory) / 10;
}

// Half of the rows or more are none, or there are many tiles of few rows: not measured either.
static bool is_wasteful(const GemmShape *s, const Tile *t)
{
    return (t->rows > 16 && t->rows >= 2 * most((double)s->m, 8)) || (t->rows < 64 && s->m > 4 * t->rows);
}

// What halves of a tile's columns are not: whole instructions.
static bool cannot_pair(const Tile *t) { return t->turned || t->columns % 64 != 0; }

static void consider(const GemmShape *s, const Tile *t, GemmChoice *best)
{
    const int bytes = kiln_type_bits(s->type) / 8, depth = STEP_BYTES * t->steps / bytes;
    const double steps = over((double)s->k, depth);
    for (int parts = 1;
         parts <= (t->turned || s->paired ? 1 : PARTS_MAX) && (parts == 1 || steps >= parts * STEPS_OF_PART); parts++) {
        const double ns = cost_of(s, t, bytes, steps, parts);
        if (!best->rows || ns < best->ns)
            *best = (GemmChoice){ t->rows, t->columns, depth, t->stages, t->turned, parts, ns };
    }
}

// A host reads B where it lies for up to 16 rows, in steps along K that are whole rows where these are a few pages,
// because its fetching ahead follows long rows best. More rows share what is packed for them: the more the better, as
// long as tiles are in the second-level cache, and there are some for each processor.
static GemmChoice choose_on_cpu(const GemmShape *s, bool is_wide)
{
    if (s->m > FEW_ON_CPU) {
        const int depth = is_wide               ? 128
                          : s->type == KILN_F16 ? 256
                          : s->type == KILN_I8  ? 1024
                                                : 512; // f16 is packed as f32
        GemmChoice many = { 256, 256, depth, 4, false, 1, 0 };
        while (many.rows / 2 >= s->m) many.rows /= 2;
        while (many.columns > 64 &&
               s->batch * ((s->m + many.rows - 1) / many.rows) * ((s->n + many.columns - 1) / many.columns) <
                   2 * s->processors)
            many.columns /= 2;
        return many;
    }
    GemmChoice few = { 1, 64, STEP_ON_CPU, 4, false, 1, 0 };
    while (few.rows < s->m) few.rows *= 2;
    for (int depth = STEP_ON_CPU; depth <= ROW_ON_CPU; depth += STEP_ON_CPU)
        if (s->k % depth == 0) few.depth = depth;
    return few;
}

GemmChoice gemm_choose(const GemmShape *shape)
{
    GemmChoice best = { 0 };
    const bool is_wide = kiln_type_bits(shape->type) > 16 && shape->precision != KILN_PRECISION_TF32;
    if (shape->on_cpu) return choose_on_cpu(shape, is_wide);
    GemmShape whole = *shape; // of a pair: one product of twice the columns
    if (shape->paired) whole.n *= 2;
    const Tile *const table = is_wide ? wide : narrow;
    for (int i = 0; i < (is_wide ? COUNT(wide) : COUNT(narrow)); i++) {
        if (shape->paired && cannot_pair(&table[i])) continue;
        if (!best.rows || !is_wasteful(&whole, &table[i])) consider(&whole, &table[i], &best);
    }
    if (shape->paired) best.columns /= 2;
    return best;
}
