// SPDX-License-Identifier: MIT
// l2_prefetch.c - the producer prefetches the next step's boxes into the L2 cache.
//
// With one buffer per tile a refill's latency is in the way of every step. Where several CTAs read the same boxes,
// each prefetches a part of the next step's: they come from memory once, and from the L2 cache when they are needed.
// (Latent attention: +13% with two tiles of rows, -14% with one, which is bound by memory.) Not for what a cluster
// reads once.
//
// before: the copies of a step are actions      after: so is the prefetch, of which no barrier knows
#include "lower/gpu/plans/producer.h"
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/decide/copy/fetch.h"
#include "lower/gpu/facts/box.h"
#include "lower/gpu/facts/slices.h"
#include "lower/gpu/facts/info.h"

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

// Coordinates of the grid on which no box of the step depends.
static uint32_t find_sharing(Lowering *lo, TileOp *body)
{
    uint32_t coordinates = 0;
    for (int i = 0; i < lo->kernel->n_grid; i++)
        if (!step_depends(lo, body, lo->kernel->grid[i].var)) coordinates |= 1u << i;
    return coordinates;
}

// ---- prefetching

static bool has_single_buffers(const Lowering *lo, const TileOp *body)
{
    for (int i = 0; i < lo->ring_states.count; i++)
        if (lo->ring_states.items[i]->block == body && lo->ring_states.items[i]->buffers != 1) return false;
    return true;
}

static bool has_walks(Lowering *lo, TileOp *op) { return op_info(lo, op)->im2col != NULL; }

void prefetch_l2_ahead(Lowering *lo, TileOp *op, int first, int end)
{
    TileOp *const body = op->pipeline.body;
    const uint32_t sharing = find_sharing(lo, body);
    if (lo->shares || op->pipeline.n != 1 || !sharing || !lo->by_tma || lo->n_cuts == 0 ||
        !has_single_buffers(lo, body) || block_has(lo, body, has_walks))
        return;
    L2Prefetch *const plan = NEW(lo->arena, L2Prefetch, .op = op, .sharing = sharing, .first = first);
    int n = 0;
    for (TileOp *x = body; x; x = x->next) {
        if (!is_fetch(lo, x)) continue;
        if (n >= first && n < end && copy_is_box(lo, x)) VEC_PUSH(lo->arena, &plan->boxes, plan_box_copy(lo, x, NULL));
        n++;
    }
    if (plan->boxes.count > 0) act(lo, (Action){ .kind = ACTION_PREFETCH, .print = plan });
}
