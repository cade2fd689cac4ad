// SPDX-License-Identifier: MIT
// print_product_loop.c - printing: a loop of products that stay in flight, and what is released in and after it
// (product_loop.c).
//
// before: an action with a ProductLoop begins       after: its statement is open; from the loop on lo->held_slot is the
//                                                          slot that the step before used, -1 in the first step
#include "lower/cuda/pipeline.h"
#include "lower/cuda/print.h"
#include "lower/cuda/print_action.h"
#include "lower/cuda/print_statements.h"

static Expr *is_held(Lowering *lo) { return i32_op(lo, X_GE, var_of(lo, lo->held_slot), 0); }

// The first step is the one before which no slot is held.
static void begin_steps(Lowering *lo, const Action *action)
{
    const ProductLoop *const plan = action->print;
    lo->held_slot = emit_declare(lo, DTYPE_I32, "held", i32_const(lo, -1));
    Expr *const is_later_step = is_held(lo);
    for (int i = 0; i < plan->starting.count; i++) plan->starting.items[i]->adds = is_later_step;
    print_loop(lo, action);
}

// The other branch of the release after the loop: without a step there is nothing to release, and nothing was
// overwritten.
static void clear_unstarted(Lowering *lo, const ProductLoop *plan)
{
    if (plan->starting.count) begin_else(lo, top_nest(lo));
    for (int i = 0; i < plan->starting.count; i++) {
        const TileInfo *const tile = tile_info(lo, plan->starting.items[i]->op->matmul.dst.buffer);
        emit_call(lo, arena_printf(lo->arena, "clear<%d>", layout_registers(&tile->layout)), 1,
                  var_of(lo, tile->registers));
    }
}

void begin_product_loop(Lowering *lo, const Action *action)
{
    if (action->kind == ACTION_LOOP) begin_steps(lo, action);
    else begin_if(lo, push_nest(lo), is_held(lo));
}

void end_product_loop(Lowering *lo, const Action *action)
{
    const ProductLoop *const plan = action->print;
    if (action->kind == ACTION_LOOP) {
        end_loop(lo, action);
        return;
    }
    if (action->scope.kind == SCOPE_ANY_STEP) clear_unstarted(lo, plan);
    pop_nest(lo);
    if (action->scope.kind == SCOPE_BUT_FIRST)
        emit_assign(lo, lo->held_slot, cast(lo, DTYPE_I32, var_of(lo, plan->ring_state->slot)));
}
