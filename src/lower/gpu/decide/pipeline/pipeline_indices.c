// SPDX-License-Identifier: MIT
// pipeline_indices.c - a pipeline over several indices becomes one over a single index, where copies run ahead of a step by
// a number of steps (multistage.c): the step that they are for is then a sum.
//
// before: as the source says, from 0 on       after: pipelines have one index; the others are scalars at the step's
//         beginning, with their ranges
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/facts/info.h"

static bool begin_at_zero(const TileOp *op)
{
    for (int i = 0; i < op->pipeline.n; i++)
        if (!expr_is_int(op->pipeline.indices[i].lo, 0)) return false;
    return true;
}

static Expr *steps_of(Lowering *lo, const TileOp *op, int first)
{
    Expr *steps = int_const(lo->arena, 1);
    for (int i = first; i < op->pipeline.n; i++) steps = int_mul(lo->arena, steps, op->pipeline.indices[i].hi);
    return steps;
}

// The last index is the fastest.
static void merge_indices(Lowering *lo, TileOp *op)
{
    Arena *const a = lo->arena;
    const LoopIndex step = new_index(lo, "step", steps_of(lo, op, 0), op->span);
    for (int i = op->pipeline.n - 1; i >= 0; i--) {
        const LoopIndex *const index = &op->pipeline.indices[i];
        Expr *const slower = expr_binary(a, X_DIV, expr_var(a, step.var), steps_of(lo, op, i + 1));
        TileOp *const let = NEW(a, TileOp, .kind = T_LET, .span = op->span, .next = op->pipeline.body);
        let->let.var = index->var;
        let->let.value = i ? expr_binary(a, X_MOD, slower, index->hi) : slower;
        let->let.var->kind = VAR_LOCAL;
        op->pipeline.body = let;
    }
    op->pipeline.indices = NEW_ARRAY(a, LoopIndex, 1);
    op->pipeline.indices[0] = step;
    op->pipeline.n = 1;
}

static bool see_pipeline(Lowering *lo, TileOp *op, void *context)
{
    (void)context;
    if (op->kind == T_PIPELINE && op->pipeline.n > 1 && op->pipeline.stages > 1 && begin_at_zero(op))
        merge_indices(lo, op);
    return op->kind == T_FORALL;
}

void merge_pipeline_indices(Lowering *lo)
{
    if (lo->gpu->cp_async && !lo->gpu->tma && !lo->kernel->checked) each_op(lo, lo->kernel->body, see_pipeline, NULL);
}
