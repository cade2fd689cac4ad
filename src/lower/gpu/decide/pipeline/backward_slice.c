// SPDX-License-Identifier: MIT
// backward_slice.c - what the producer computes besides its copies: the scalars on which they, their loops and
// conditions depend.
//
// before: it is known which copies are fetched and which statements fill      after: find_backward_slice(): lo->needed
#include "lower/gpu/decide/pipeline/producer.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/slices.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/decide/pipeline/walk.h"
#include "lower/gpu/facts/info.h"

static bool is_work(Lowering *lo, TileOp *op) { return op_info(lo, op)->fetched || is_in_backward_slice(lo, op); }

bool has_work(Lowering *lo, TileOp *op) { return op_has(lo, op, is_work); }

typedef struct SliceSearch {
    Lowering *lo;
    bool changed;
} SliceSearch;

static bool slice_var(const Expr *x, void *context)
{
    SliceSearch *const search = context;
    if (x->kind == E_VAR && x->var.var->id < search->lo->n_in_backward_slice &&
        !search->lo->in_backward_slice[x->var.var->id])
        search->lo->in_backward_slice[x->var.var->id] = search->changed = true;
    return false;
}

static void slice_slot(Expr **x, void *context)
{
    if (*x) expr_any(*x, slice_var, context);
}

static void slice_view(const TileUse *use, void *context) { buffer_each_expr(use->buffer, slice_slot, context); }

static bool slice_fill(Lowering *lo, TileOp *op, void *context)
{
    tile_each_expr(op, slice_slot, context);
    tile_uses(op, slice_view, context);
    return false;
}

static bool slice_op(Lowering *lo, TileOp *op, void *context)
{
    if (op_info(lo, op)->fills || (op_info(lo, op)->fetched && op->kind == T_FORALL)) {
        visit_op(lo, op, slice_fill, context);
    } else if (op_info(lo, op)->fetched) {
        for (int d = 0; d < op->copy.src.buffer->rank; d++) {
            slice_slot(&op->copy.src.subs[d].start, context);
            slice_slot(&op->copy.src.subs[d].width, context);
        }
        buffer_each_expr(op->copy.src.buffer, slice_slot, context);
        if (op_info(lo, op)->im2col) visit_op(lo, as_map(lo, op), slice_fill, context);
    } else if (is_flow(op) ? has_work(lo, op) : is_in_backward_slice(lo, op)) {
        tile_each_expr(op, slice_slot, context);
    }
    return op->kind == T_FORALL;
}

void find_backward_slice(Lowering *lo)
{
    lo->n_in_backward_slice = lo->kernel->n_vars + 1;
    lo->in_backward_slice = NEW_ARRAY(lo->arena, bool, lo->n_in_backward_slice);
    SliceSearch search = { lo, true };
    while (search.changed) {
        search.changed = false;
        each_op(lo, lo->kernel->body, slice_op, &search);
    }
}
