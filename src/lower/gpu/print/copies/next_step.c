// SPDX-License-Identifier: MIT
// next_step.c - printing: variables of a pipeline's indices that are a step ahead, and places in tensors.
//
// before: the pipeline's loop is about to begin      after: what the next step loads can be addressed in this one
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/print/copies/print_rows.h"
#include "lower/gpu/facts/values.h"

// ---- places

Expr *i64_add(Printer *pr, Expr *a, Expr *b) { return !a ? b : !b ? a : expr_binary(pr->arena, X_ADD, a, b); }

static Expr *i64_mul(Printer *pr, Expr *a, Expr *b) { return expr_binary(pr->arena, X_MUL, a, b); }

Expr *place_in_tensor(Printer *pr, const Buffer *tensor, Expr *const *subs)
{
    Expr *at = NULL;
    for (int d = 0; d < tensor->rank; d++) {
        Expr *const sub = subs[d];
        if (tensor->stride[0]) {
            at = sub ? i64_add(pr, at, i64_mul(pr, sub, lower_int64(pr, tensor->stride[d], NULL))) : at;
        } else {
            at = at ? i64_mul(pr, at, lower_int64(pr, tensor->shape[d], NULL)) : NULL;
            at = sub ? i64_add(pr, at, sub) : at;
        }
    }
    return at ? at : expr_int(pr->arena, DTYPE_I64, 0);
}

Expr *is_below(Printer *pr, const Buffer *tensor, int d, Expr *sub)
{
    return call_expr(pr, DTYPE_BOOL, "is_below", 2, sub, lower_int64(pr, tensor->shape[d], NULL));
}

// ---- indices

static Expr *one_of(Printer *pr, const Var *var) { return expr_int(pr->arena, var->type, 1); }

void declare_next_step(Printer *pr, const TileOp *op, Var **next)
{
    for (int i = 0; i < op->pipeline.n; i++) {
        const LoopIndex *const index = &op->pipeline.indices[i];
        Expr *from, *to;
        index_bounds(pr, index, NULL, &from, &to);
        Var *const own = loop_var(pr, index->var);
        next[i] = emit_declare(pr, own->type, arena_printf(pr->arena, "next_%s", own->name), cast(pr, own->type, from));
    }
}

static void advance_from(Printer *pr, const TileOp *op, Var *const *next, int i)
{
    const LoopIndex *const index = &op->pipeline.indices[i];
    Expr *from, *to;
    Nest over;
    emit_assign(pr, next[i], expr_binary(pr->arena, X_ADD, var_of(pr, next[i]), one_of(pr, next[i])));
    if (i == 0) return;
    index_bounds(pr, index, NULL, &from, &to);
    begin_if(pr, &over, expr_binary(pr->arena, X_GE, var_of(pr, next[i]), cast(pr, next[i]->type, to)));
    emit_assign(pr, next[i], cast(pr, next[i]->type, from));
    advance_from(pr, op, next, i - 1);
    end_nest(pr, &over);
}

void advance_next_step(Printer *pr, const TileOp *op, Var *const *next)
{
    advance_from(pr, op, next, op->pipeline.n - 1);
}

void use_next_step(Printer *pr, const TileOp *op, Var *const *next)
{
    for (int i = 0; i < op->pipeline.n; i++) *var_slot(pr, op->pipeline.indices[i].var) = next[i];
}
