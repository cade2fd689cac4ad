// SPDX-License-Identifier: MIT
// print_product_loop.c - printing: a loop of products that stay in flight, and what is released in and after it
// (product_loop.c).
//
// before: an action with a ProductLoop begins       after: its statement is open; from the loop on pr->held_slot is the
//                                                          slot that the step before used, -1 in the first step
#include "lower/gpu/print/build/build.h"
#include "lower/gpu/print/build/parts.h"
#include "lower/gpu/print/control/print_statements.h"
#include "lower/gpu/print/control/print_steps.h"
#include "lower/gpu/plans/pipeline.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/product.h"

static Expr *is_held(Printer *pr) { return i32_op(pr, X_GE, var_of(pr, pr->held_slot), 0); }

// The first step is the one before which no slot is held.
static void begin_steps(Printer *pr, const Action *action)
{
    const ProductLoop *const plan = action->print;
    pr->held_slot = emit_declare(pr, DTYPE_I32, "held", i32_const(pr, -1));
    Expr *const is_later_step = is_held(pr);
    for (int i = 0; i < plan->starting.count; i++) product_vars(pr, plan->starting.items[i])->adds = is_later_step;
    print_loop(pr, action);
}

// The other branch of the release after the loop: without a step there is nothing to release, and nothing was
// overwritten.
static void clear_unstarted(Printer *pr, const ProductLoop *plan)
{
    if (plan->starting.count) begin_else(pr, top_nest(pr));
    for (int i = 0; i < plan->starting.count; i++) {
        const TileInfo *const tile = tile_info(pr->lo, plan->starting.items[i]->op->matmul.dst.buffer);
        emit_call(pr, arena_printf(pr->arena, "clear<%d>", layout_registers(&tile->layout)), 1,
                  var_of(pr, tile_vars(pr, tile)->registers));
    }
}

void begin_product_loop(Printer *pr, const Action *action)
{
    if (action->kind == ACTION_LOOP) begin_steps(pr, action);
    else begin_if(pr, push_nest(pr), is_held(pr));
}

void end_product_loop(Printer *pr, const Action *action)
{
    const ProductLoop *const plan = action->print;
    if (action->kind == ACTION_LOOP) {
        end_loop(pr, action);
        return;
    }
    if (action->scope.kind == SCOPE_ANY_STEP) clear_unstarted(pr, plan);
    pop_nest(pr);
    if (action->scope.kind == SCOPE_BUT_FIRST)
        emit_assign(pr, pr->held_slot, cast(pr, DTYPE_I32, var_of(pr, ring_vars(pr, plan->ring_state)->slot)));
}
