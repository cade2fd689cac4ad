// SPDX-License-Identifier: MIT
// needs.c - what the producer computes besides its copies: the scalars on which they, their loops and conditions depend.
//
// before: it is known which copies are fetched and which statements fill      after: find_needs(): lo->needed
#include "lower/cuda/producer.h"

bool is_fetch(Lowering *lo, const TileOp *op) { return op_info(lo, op)->fetched && !op_info(lo, op)->fills; }

bool makes_needed(const Lowering *lo, const TileOp *op)
{
    const bool sets = op->kind == T_LET || op->kind == T_SET;
    return sets ? lo->needed[op->let.var->id]
                : op->kind == T_UPDATE && op->update.var && lo->needed[op->update.var->id];
}

static bool is_work(Lowering *lo, TileOp *op) { return op_info(lo, op)->fetched || makes_needed(lo, op); }

bool has_work(Lowering *lo, TileOp *op) { return op_has(lo, op, is_work); }

bool declare_again(Lowering *lo, TileOp *op)
{
    if (op->kind != T_LET || !makes_needed(lo, op)) return false;
    *var_slot(lo, op->let.var) = NULL;
    declare_value(lo, op);
    return true;
}

typedef struct Need {
    Lowering *lo;
    bool changed;
} Need;

static bool need_var(const Expr *x, void *context)
{
    Need *const need = context;
    if (x->kind == E_VAR && x->var.var->id < need->lo->n_needed && !need->lo->needed[x->var.var->id])
        need->lo->needed[x->var.var->id] = need->changed = true;
    return false;
}

static void need_slot(Expr **x, void *context)
{
    if (*x) expr_any(*x, need_var, context);
}

static void need_view(const TileUse *use, void *context) { buffer_each_expr(use->buffer, need_slot, context); }

static bool need_fill(Lowering *lo, TileOp *op, void *context)
{
    tile_each_expr(op, need_slot, context);
    tile_uses(op, need_view, context);
    return false;
}

static bool need_op(Lowering *lo, TileOp *op, void *context)
{
    if (op_info(lo, op)->fills) {
        visit_op(lo, op, need_fill, context);
    } else if (op_info(lo, op)->fetched) {
        for (int d = 0; d < op->copy.src.buffer->rank; d++) {
            need_slot(&op->copy.src.subs[d].start, context);
            need_slot(&op->copy.src.subs[d].width, context);
        }
        buffer_each_expr(op->copy.src.buffer, need_slot, context);
    } else if (is_flow(op) ? has_work(lo, op) : makes_needed(lo, op)) {
        tile_each_expr(op, need_slot, context);
    }
    return op->kind == T_FORALL;
}

void find_needs(Lowering *lo)
{
    lo->n_needed = lo->kernel->n_vars + 1;
    lo->needed = NEW_ARRAY(lo->arena, bool, lo->n_needed);
    Need need = { lo, true };
    while (need.changed) {
        need.changed = false;
        each_op(lo, lo->kernel->body, need_op, &need);
    }
}
