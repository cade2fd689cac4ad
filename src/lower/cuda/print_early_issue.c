// SPDX-License-Identifier: MIT
// print_early_issue.c - printing: the loop and the scopes of a pipeline with early products (early_issue.c).
//
// before: an action with an EarlyIssue begins       after: its statement is open; in SCOPE_NEXT_STEP ring states and
//                                                          pointers are those of the next step
#include "lower/cuda/pipeline.h"
#include "lower/cuda/print.h"
#include "lower/cuda/print_action.h"
#include "lower/cuda/print_statements.h"

// This step's, while the next one's products are issued.
typedef struct StepVars {
    Var **pointers;         // by number of the tile
    RingState *ring_states; // by number
} StepVars;

// Is there a step; is there one after this?
static Expr *has_step(Lowering *lo, const TileOp *pipeline, bool after)
{
    Arena *const a = lo->arena;
    Expr *all = NULL;
    for (int i = 0; i < pipeline->pipeline.n; i++) {
        const LoopIndex *const index = &pipeline->pipeline.indices[i];
        Expr *from, *to;
        index_bounds(lo, index, NULL, &from, &to);
        if (after) from = expr_binary(a, X_ADD, var_of(lo, loop_var(lo, index->var)), expr_int(a, from->type, 1));
        Expr *const one = expr_binary(a, X_LT, from, to);
        all = all ? expr_binary(a, after ? X_OR : X_AND, all, one) : one;
    }
    return all;
}

// Where the next step's buffers are; after the last step, this one's.
static void next_ring_state(Lowering *lo, RingState *ring_state, Expr *more)
{
    Arena *const a = lo->arena;
    Expr *const slot = var_of(lo, ring_state->slot), *const phase = var_of(lo, ring_state->phase);
    Expr *const wraps = expr_binary(a, X_EQ, slot, u32_const(lo, ring_state->buffers - 1));
    Expr *const next = expr_select(a, wraps, u32_const(lo, 0), expr_binary(a, X_ADD, slot, u32_const(lo, 1)));
    Expr *const next_phase = expr_select(a, expr_binary(a, X_AND, more, wraps), other_phase(lo, ring_state), phase);
    ring_state->phase = emit_declare(lo, DTYPE_U32, "phase_next", next_phase);
    ring_state->slot = emit_declare(lo, DTYPE_U32, "slot_next", expr_select(a, more, next, slot));
}

static bool is_of(const EarlyIssue *plan, const Ring *ring)
{
    for (int i = 0; i < plan->rings.count; i++)
        if (plan->rings.items[i] == ring) return true;
    return false;
}

static void begin_next_step(Lowering *lo, const EarlyIssue *plan)
{
    StepVars *const vars = lo->step_vars = NEW(lo->arena, StepVars);
    vars->pointers = NEW_ARRAY(lo->arena, Var *, lo->n_declared + 1);
    vars->ring_states = NEW_ARRAY(lo->arena, RingState, lo->ring_states.count + 1);
    Expr *const more = var_of(lo, emit_declare(lo, DTYPE_BOOL, "more", has_step(lo, plan->op, true)));
    for (int i = 0; i < lo->ring_states.count; i++) {
        RingState *const ring_state = lo->ring_states.items[i];
        vars->ring_states[i] = *ring_state;
        if (ring_state->block == plan->op->pipeline.body && ring_state->stage == 0)
            next_ring_state(lo, ring_state, more);
    }
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        vars->pointers[i] = tile->pointer;
        if (!tile->ring || !is_of(plan, tile->ring)) continue;
        tile->pointer =
            loop_new_pointer(lo->unit, tile->pointer->type, arena_printf(lo->arena, "%s_next", tile->buffer->name));
        emit_definition(lo, tile->pointer, NULL);
    }
}

static void end_next_step(Lowering *lo)
{
    const StepVars *const vars = lo->step_vars;
    for (int i = 0; i < lo->ring_states.count; i++) *lo->ring_states.items[i] = vars->ring_states[i];
    for (int i = 0; i < lo->n_declared; i++) lo->declared.items[i]->pointer = vars->pointers[i];
}

static void end_steps(Lowering *lo, const Action *action)
{
    const EarlyIssue *const plan = action->print;
    for (int i = 0; i < plan->rings.count; i++) print_slot_pointers(lo, plan->rings.items[i]);
    end_loop(lo, action);
}

void begin_early_issue(Lowering *lo, const Action *action)
{
    const EarlyIssue *const plan = action->print;
    if (action->kind == ACTION_LOOP) print_loop(lo, action);
    else if (action->scope.kind == SCOPE_ANY_STEP) begin_if(lo, push_nest(lo), has_step(lo, plan->op, false));
    else begin_next_step(lo, plan);
}

void end_early_issue(Lowering *lo, const Action *action)
{
    if (action->kind == ACTION_LOOP) end_steps(lo, action);
    else if (action->scope.kind == SCOPE_ANY_STEP) pop_nest(lo);
    else end_next_step(lo);
}
