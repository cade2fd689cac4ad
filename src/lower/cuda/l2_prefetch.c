// SPDX-License-Identifier: MIT
// l2_prefetch.c - the producer prefetches the next step's boxes into the L2 cache.
//
// With one buffer per tile a refill's latency is in the way of every step. Where several CTAs read the same boxes,
// each prefetches a part of the next step's: they come from memory once, and from the L2 cache when they are needed.
// (Latent attention: +13% with two tiles of rows, -14% with one, which is bound by memory.) Not for what a cluster
// reads once.
//
// before: the scalars of a step are declared      after: they still are, and no barrier knows of the prefetch
#include "lower/cuda/box.h"
#include "lower/cuda/producer.h"

// ---- which CTAs read the same

typedef struct Uses {
    Lowering *lo;
    const Var *var;
    bool found;
    int depth;
} Uses;

typedef struct Definition {
    const Var *var;
    Expr *value;
} Definition;

static bool find_definition(Lowering *lo, TileOp *op, void *context)
{
    Definition *const seek = context;
    if ((op->kind == T_LET || op->kind == T_SET) && op->let.var == seek->var) seek->value = op->let.value;
    return op->kind == T_FORALL;
}

static bool expr_depends(const Expr *x, void *context)
{
    Uses *const uses = context;
    if (x->kind != E_VAR) return false;
    uses->found |= x->var.var == uses->var;
    if (x->var.var->kind == VAR_LOCAL && uses->depth < 16 && !uses->found) {
        Definition seek = { x->var.var, NULL };
        each_op(uses->lo, uses->lo->kernel->body, find_definition, &seek);
        uses->depth++;
        if (seek.value) expr_any(seek.value, expr_depends, uses);
        uses->depth--;
    }
    return uses->found;
}

static void slot_depends(Expr **x, void *context) { expr_any(*x, expr_depends, context); }

static bool step_depends(Lowering *lo, TileOp *body, const Var *coordinate)
{
    Uses uses = { lo, coordinate, false, 0 };
    for (TileOp *op = body; op; op = op->next)
        if (is_fetch(lo, op)) {
            tile_each_expr(op, slot_depends, &uses);
            buffer_each_expr(op->copy.src.buffer, slot_depends, &uses);
        }
    return uses.found;
}

typedef struct Sharers {
    Expr *n, *at;
} Sharers; // CTAs with the same boxes; this one's number; NULL: alone

static Sharers find_sharers(Lowering *lo, TileOp *body)
{
    Sharers all = { NULL, NULL };
    for (int i = 0; i < lo->kernel->n_grid; i++) {
        Var *const coordinate = lo->kernel->grid[i].var;
        if (step_depends(lo, body, coordinate)) continue;
        Expr *const extent = var_of(lo, lo->grid_extents[i]), *const at = cast(lo, DTYPE_I32,
                                                                               var_of(lo, loop_var(lo, coordinate)));
        all.at = all.at ? i32_add(lo, i32_times(lo, all.at, extent), at) : at;
        all.n = all.n ? i32_times(lo, all.n, extent) : extent;
    }
    return all;
}

// ---- prefetching

static bool has_single_buffers(const Lowering *lo, const TileOp *body)
{
    for (int i = 0; i < lo->ring_states.count; i++)
        if (lo->ring_states.items[i]->block == body && lo->ring_states.items[i]->buffers != 1) return false;
    return true;
}

// Each CTA its part of fetches `first` .. `end` - 1 of the step.
static void prefetch_part(Lowering *lo, TileOp *body, const Sharers *sharers, int first, int end)
{
    Nest mine;
    int n = 0;
    for (TileOp *x = body; x; x = x->next) {
        declare_again(lo, x);
        if (!is_fetch(lo, x)) continue;
        if (n >= first && n < end) {
            begin_if(
                lo, &mine,
                expr_binary(lo->arena, X_EQ, expr_binary(lo->arena, X_MOD, i32_const(lo, n), sharers->n), sharers->at));
            print_box_copy(lo, plan_box_copy(lo, x, NULL));
            end_nest(lo, &mine);
        }
        n++;
    }
}

void prefetch_l2_ahead(Lowering *lo, TileOp *op, int first, int end)
{
    Arena *const a = lo->arena;
    TileOp *const body = op->pipeline.body;
    const LoopIndex *const index = &op->pipeline.indices[0];
    const Sharers sharers = find_sharers(lo, body);
    if (lo->shares || op->pipeline.n != 1 || !sharers.n || !lo->by_tma || lo->n_cuts == 0 ||
        !has_single_buffers(lo, body))
        return;
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
    prefetch_part(lo, body, &sharers, first, end);
    restore_vars(lo, known);
    end_nest(lo, &more);
}
