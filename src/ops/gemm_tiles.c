// SPDX-License-Identifier: MIT
// gemm_tiles.c - the cost of a product by every tile of a table, and the least of them.
//
// Tiles go to the processors in rounds. A tile takes a time for each step along K and one for its end; in the last, partial
// round tiles may be divided along K, so that all processors have work, and then parts are written, and added up by whoever
// ends a tile's last one. No product takes less than the bytes that it reads and writes. The figures are data: nanoseconds
// on an H100 of 132 processors, fitted to measured times of shapes drawn by seed (docs/operators.md).
#include "ops/gemm_tiles.h"

#include "base/arena.h"

typedef struct TileCost {
    int rows, columns, depth_bytes, stages;
    double step, end; // ns: of 128 bytes along K; of a tile
} TileCost;

enum { PARTS_MAX = 32, STEPS_OF_PART = 2 };

static const double launch_ns = 4000, divided_ns = 2500, bytes_of_ns = 3300;

static const TileCost narrow[] = { // elements of 1 or 2 bytes
    { 16, 64, 256, 8, 230, 1500 },   { 16, 128, 256, 6, 260, 1600 },  { 32, 64, 256, 8, 240, 1500 },
    { 32, 128, 256, 5, 270, 1700 },  { 64, 32, 256, 8, 230, 1500 },   { 64, 64, 256, 6, 250, 1700 },
    { 64, 128, 128, 8, 260, 2000 },  { 64, 256, 128, 4, 400, 2600 },  { 128, 64, 128, 8, 260, 2000 },
    { 128, 128, 128, 6, 400, 2500 }, { 128, 192, 128, 4, 550, 3000 }, { 128, 256, 128, 4, 720, 3500 },
};
static const TileCost wide[] = { // of 4 bytes: multiply-adds
    { 64, 64, 128, 4, 700, 2000 },
    { 128, 128, 128, 4, 2300, 3000 },
};

static int64_t over(int64_t x, int64_t y) { return (x + y - 1) / y; }

// What memory must move at least.
static double least_ns(const GemmShape *s)
{
    const double m = (double)s->m, n = (double)s->n, k = (double)s->k;
    return (double)s->batch * (m * k + k * n + m * n) * kiln_type_bits(s->type) / 8 / bytes_of_ns;
}

static double cost_of(const GemmShape *s, const TileCost *t, int depth, int parts)
{
    const int64_t tiles = s->batch * over(s->m, t->rows) * over(s->n, t->columns), steps = over(s->k, depth);
    const int64_t rest = parts > 1 ? tiles % s->processors : 0;
    const double step = t->step * t->depth_bytes / 128;
    double ns = launch_ns + (double)over(tiles - rest, s->processors) * ((double)steps * step + t->end);
    if (rest)
        ns += divided_ns + (double)over(rest * parts, s->processors) * ((double)over(steps, parts) * step + 1.5 * t->end) +
              parts * 0.4 * t->end;
    return ns > least_ns(s) ? ns : least_ns(s) + ns / 1000;
}

static void consider(const GemmShape *s, const TileCost *t, GemmChoice *best)
{
    const int depth = t->depth_bytes * 8 / kiln_type_bits(s->type);
    for (int parts = 1; parts <= PARTS_MAX; parts++) {
        if (parts > 1 && over(s->k, depth) < (int64_t)parts * STEPS_OF_PART) return;
        const double ns = cost_of(s, t, depth, parts);
        if (best->rows && ns >= best->ns) continue;
        *best = (GemmChoice){ t->rows, t->columns, depth, t->stages, parts, ns };
    }
}

GemmChoice gemm_choose(const GemmShape *shape)
{
    GemmChoice best = { 0 };
    const bool is_wide = kiln_type_bits(shape->type) > 16;
    if (shape->on_cpu) return (GemmChoice){ 128, 128, is_wide ? 128 : 256, 4, 1, 0 };
    const TileCost *const table = is_wide ? wide : narrow;
    for (int i = 0; i < (int)(is_wide ? COUNT(wide) : COUNT(narrow)); i++) consider(shape, &table[i], &best);
    return best;
}
