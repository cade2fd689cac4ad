// SPDX-License-Identifier: MIT
// rounds.h - printing: variables of a pipeline with rounds that are no steps.
#ifndef KILN_LOWER_GPU_PRINT_CONTROL_ROUNDS_H
#define KILN_LOWER_GPU_PRINT_CONTROL_ROUNDS_H

#include "lower/gpu/print/elements/elements.h"

// From the beginning of its loop on, until that ends.
typedef struct RoundVars {
    struct RoundVars *outer;
    Var *index, *begin, *end;
    Var *filled,
        *slot; // of a multistage pipeline: the slot that is filled next and that of the step; NULL: there is one
} RoundVars;

// Declares the bounds of a pipeline of one index.
static inline RoundVars *begin_round_vars(Printer *pr, const TileOp *op)
{
    const LoopIndex *const index = &op->pipeline.indices[0];
    RoundVars *const vars = NEW(pr->arena, RoundVars, .outer = pr->round_vars);
    pr->round_vars = vars;
    Expr *from, *to;
    index_bounds(pr, index, NULL, &from, &to);
    vars->index = loop_var(pr, index->var);
    vars->begin = emit_declare(pr, vars->index->type, "begin", from);
    vars->end = emit_declare(pr, vars->index->type, "end", to);
    return vars;
}

static inline void end_round_vars(Printer *pr) { pr->round_vars = pr->round_vars->outer; }

#endif
