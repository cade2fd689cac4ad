// SPDX-License-Identifier: MIT
// print_l2_prefetch.c - printing: the next step's boxes into the L2 cache (l2_prefetch.c).
//
// before: the scalars of a step are declared      after: they still are
#include "lower/cuda/box.h"
#include "lower/cuda/print.h"
#include "lower/cuda/producer.h"

typedef struct Sharers {
    Expr *n, *at;
} Sharers; // CTAs with the same boxes; this one's number

static Sharers sharers_of(Lowering *lo, uint32_t sharing)
{
    Sharers all = { NULL, NULL };
    for (int i = 0; i < lo->kernel->n_grid; i++) {
        if (!(sharing >> i & 1)) continue;
        Expr *const extent = var_of(lo, lo->grid_extents[i]);
        Expr *const at = cast(lo, DTYPE_I32, var_of(lo, loop_var(lo, lo->kernel->grid[i].var)));
        all.at = all.at ? i32_add(lo, i32_times(lo, all.at, extent), at) : at;
        all.n = all.n ? i32_times(lo, all.n, extent) : extent;
    }
    return all;
}

// Each CTA its part of the boxes.
static void prefetch_part(Lowering *lo, const L2Prefetch *plan, const Sharers *sharers)
{
    Nest mine;
    int n = 0;
    for (TileOp *x = plan->op->pipeline.body; x; x = x->next) {
        declare_again(lo, x);
        if (!is_fetch(lo, x)) continue;
        if (n >= plan->first && n < plan->first + plan->boxes.count) {
            begin_if(
                lo, &mine,
                expr_binary(lo->arena, X_EQ, expr_binary(lo->arena, X_MOD, i32_const(lo, n), sharers->n), sharers->at));
            print_box_copy(lo, plan->boxes.items[n - plan->first]);
            end_nest(lo, &mine);
        }
        n++;
    }
}

void print_l2_prefetch(Lowering *lo, const L2Prefetch *plan)
{
    Arena *const a = lo->arena;
    const LoopIndex *const index = &plan->op->pipeline.indices[0];
    const Sharers sharers = sharers_of(lo, plan->sharing);
    Expr *from, *to;
    index_bounds(lo, index, NULL, &from, &to);
    Var *const at = loop_var(lo, index->var);
    Expr *const next = expr_binary(a, X_ADD, var_of(lo, at), expr_int(a, at->type, 1));
    Expr *wanted = expr_binary(a, X_AND, expr_binary(a, X_GT, sharers.n, i32_const(lo, 1)),
                               expr_binary(a, X_LT, next, cast(lo, at->type, to)));
    if (lo->by_warp) wanted = expr_binary(a, X_AND, wanted, is_zero(lo, lo->lane));
    const KnownVars known = known_vars(lo);
    Nest more;
    begin_if(lo, &more, wanted);
    *var_slot(lo, index->var) = emit_declare(lo, at->type, arena_printf(a, "%s_next", at->name), next);
    prefetch_part(lo, plan, &sharers);
    restore_vars(lo, known);
    end_nest(lo, &more);
}
