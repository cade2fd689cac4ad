// SPDX-License-Identifier: MIT
// print_l2_prefetch.c - printing: the next step's boxes into the L2 cache (l2_prefetch.c).
//
// before: the scalars of a step are declared      after: they still are
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/print/copies/print_producer.h"
#include "lower/gpu/print/copies/tma.h"
#include "lower/gpu/facts/slices.h"

typedef struct Sharers {
    Expr *n, *at;
} Sharers; // CTAs with the same boxes; this one's number

static Sharers sharers_of(Printer *pr, uint32_t sharing)
{
    Sharers all = { NULL, NULL };
    for (int i = 0; i < pr->lo->kernel->n_grid; i++) {
        if (!(sharing >> i & 1)) continue;
        Expr *const extent = var_of(pr, pr->grid_extents[i]);
        Expr *const at = cast(pr, DTYPE_I32, var_of(pr, loop_var(pr, pr->lo->kernel->grid[i].var)));
        all.at = all.at ? i32_add(pr, i32_times(pr, all.at, extent), at) : at;
        all.n = all.n ? i32_times(pr, all.n, extent) : extent;
    }
    return all;
}

// Each CTA its part of the boxes.
static void prefetch_part(Printer *pr, const L2Prefetch *plan, const Sharers *sharers)
{
    Nest mine;
    int n = 0;
    for (TileOp *x = plan->op->pipeline.body; x; x = x->next) {
        declare_again(pr, x);
        if (!is_fetch(pr->lo, x)) continue;
        if (n >= plan->first && n < plan->first + plan->boxes.count) {
            begin_if(
                pr, &mine,
                expr_binary(pr->arena, X_EQ, expr_binary(pr->arena, X_MOD, i32_const(pr, n), sharers->n), sharers->at));
            print_box_copy(pr, plan->boxes.items[n - plan->first]);
            end_nest(pr, &mine);
        }
        n++;
    }
}

void print_l2_prefetch(Printer *pr, const L2Prefetch *plan)
{
    Arena *const a = pr->arena;
    const LoopIndex *const index = &plan->op->pipeline.indices[0];
    const Sharers sharers = sharers_of(pr, plan->sharing);
    Expr *from, *to;
    index_bounds(pr, index, NULL, &from, &to);
    Var *const at = loop_var(pr, index->var);
    Expr *const next = expr_binary(a, X_ADD, var_of(pr, at), expr_int(a, at->type, 1));
    Expr *wanted = expr_binary(a, X_AND, expr_binary(a, X_GT, sharers.n, i32_const(pr, 1)),
                               expr_binary(a, X_LT, next, cast(pr, at->type, to)));
    if (pr->lo->by_warp) wanted = expr_binary(a, X_AND, wanted, is_zero(pr, pr->lane));
    const KnownVars known = known_vars(pr);
    Nest more;
    begin_if(pr, &more, wanted);
    *var_slot(pr, index->var) = emit_declare(pr, at->type, arena_printf(a, "%s_next", at->name), next);
    prefetch_part(pr, plan, &sharers);
    restore_vars(pr, known);
    end_nest(pr, &more);
}
