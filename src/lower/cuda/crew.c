// SPDX-License-Identifier: MIT
// crew.c - how many threads an instance has, and their numbers.
//
// The consumers are warps(n), or what the kernel's products and tiles ask for. In front of them stands the producer, of a
// whole group where registers are divided between groups (registers.c), else of one warp.
//
// before: jumps are structure       after: lo->crew, the groups and warps of the consumers
#include "lower/cuda/cuda.h"

typedef struct Sizes {
    int64_t rows;
    bool products;
    int64_t largest;
} Sizes;

static bool measure_products(Lowering *lo, TileOp *op, void *context)
{
    Sizes *const sizes = context;
    int64_t rows;
    if (op->kind == T_MATMUL) {
        sizes->products = true;
        const Operand *const a = &op->matmul.a;
        if (expr_as_int(region_extent(&a->region, a->transposed ? 1 : 0), &rows) && rows > sizes->rows)
            sizes->rows = rows;
    }
    if (op->kind == T_TILE) {
        int64_t n = 1, extent;
        for (int d = 0; d < op->tile.buffer->rank; d++)
            n *= expr_as_int(op->tile.buffer->shape[d], &extent) ? extent : 1;
        if (n > sizes->largest) sizes->largest = n;
    }
    return false;
}

// warps(n), or one group per 64 rows of the tallest product, at most two.
void choose_crew(Lowering *lo)
{
    Sizes sizes = { 0 };
    each_op(lo, lo->kernel->body, measure_products, &sizes);
    int warps = lo->kernel->warps;
    if (!warps) warps = sizes.products ? (sizes.rows >= 128 ? 8 : 4) : sizes.largest > 8192 ? 8 : 4;
    if (warps > CONSUMER_WARPS_MAX) warps = CONSUMER_WARPS_MAX;
    lo->crew = warps < 4 ? (Crew){ 1, warps } : (Crew){ warps / 4, 4 };
}

int crew_threads(Crew crew) { return crew.groups * crew.warps * WARP_LANES; }

int consumer_threads(const Lowering *lo) { return crew_threads(lo->crew); }

int all_threads(const Lowering *lo) { return crew_threads(lo->all); }

int producer_threads(const Lowering *lo)
{
    return !lo->has_producer ? 0 : lo->crew.warps == 4 ? WARPGROUP_THREADS : WARP_LANES;
}

// Of the threads from number `first` on.
void declare_threads(Lowering *lo, int first, Crew crew)
{
    Expr *thread = literal(lo, DTYPE_I32, "(int32_t)threadIdx.x");
    if (first) thread = i32_op(lo, X_SUB, thread, first);
    lo->thread = emit_declare(lo, DTYPE_I32, "thread", thread);
    lo->lane = emit_declare(lo, DTYPE_I32, "lane", i32_op(lo, X_BITAND, var_of(lo, lo->thread), WARP_LANES - 1));
    Expr *const warp = i32_op(lo, X_SHR, var_of(lo, lo->thread), 5);
    Expr *const number = emit_i32(lo, "warp_number", call_expr(lo, DTYPE_I32, "uniform", 1, warp));
    lo->warp = emit_declare(lo, DTYPE_I32, "warp", i32_op(lo, X_MOD, number, crew.warps));
    lo->group = emit_declare(lo, DTYPE_I32, "group", i32_op(lo, X_DIV, number, crew.warps));
}
