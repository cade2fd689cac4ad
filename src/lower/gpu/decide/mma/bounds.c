// SPDX-License-Identifier: MIT
// bounds.c - ranges of what is known only at the launch, and of what is computed from it.
//
// after: symbols and grid coordinates have bounds, and so has every scalar that is set once: offsets are computed in 32
//        bits
// wherever these show that they fit
#include "lower/gpu/facts/lowering.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/decide/mma/products.h"
#include "lower/gpu/facts/info.h"

// Extents of tensors are below 2^31, in kernels with products below 2^28, so that sums of a few positions still fit
// 32 bits; the launch checks the symbols. Those that this build is for, or that a `require` lets be larger, take 64.
static void bound_symbol(Lowering *lo, int bind)
{
    Var *const symbol = lo->kernel->binds[bind].symbol;
    const uint64_t bit = (uint64_t)1 << bind;
    const Range r = symbol->hi ? expr_range(symbol->hi) : (Range){ 0 };
    if (((lo->target->wide & bit) || (r.has_hi && r.hi > lo->largest_extent)) && !lo->kernel->binds[bind].is_stride)
        lo->wide |= bit;
    if (symbol->hi) return;
    symbol->lo = symbol->lo ? symbol->lo : int_const(lo->arena, 0);
    symbol->hi = int_const(lo->arena, lo->wide & bit ? WIDE_SYMBOL_MAX : lo->largest_extent);
}

// Scalars that are set once have the range of their value.
static bool bound_local(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind != T_LET || !op->let.value || op->let.var->assigned || op->let.var->type != DTYPE_INT) return false;
    const Range r = expr_range(op->let.value);
    if (r.has_lo && !op->let.var->lo) op->let.var->lo = int_const(lo->arena, r.lo);
    if (r.has_hi && !op->let.var->hi) op->let.var->hi = int_const(lo->arena, r.hi);
    return false;
}

void find_bounds(Lowering *lo)
{
    TileKernel *const k = lo->kernel;
    lo->largest_extent = has_products(lo, k->body) ? 1 << 28 : INT32_MAX;
    for (int i = 0; i < k->n_binds; i++) bound_symbol(lo, i);
    for (int i = 0; i < k->n_grid; i++) { // coordinates are below their extents
        Var *const var = k->grid[i].var;
        var->lo = var->lo ? var->lo : int_const(lo->arena, 0);
        var->hi = var->hi ? var->hi : int_const(lo->arena, INT32_MAX);
    }
    each_op(lo, k->body, bound_local, NULL);
}
