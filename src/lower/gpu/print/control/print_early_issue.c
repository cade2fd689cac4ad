// SPDX-License-Identifier: MIT
// print_early_issue.c - printing: the loop and the scopes of a pipeline with early products (early_issue.c).
//
// before: an action with an EarlyIssue begins       after: its statement is open; in SCOPE_NEXT_STEP ring states and
//                                                          pointers are those of the next step
#include "lower/gpu/print/build/parts.h"
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/print/rings/print_rings.h"
#include "lower/gpu/print/control/print_statements.h"
#include "lower/gpu/print/control/print_steps.h"
#include "lower/gpu/plans/pipeline.h"

// This step's, while the next one's products are issued.
typedef struct StepVars {
    Var **pointers;  // by number of the tile
    RingVars *rings; // by number of the ring state
} StepVars;

// Is there a step; is there one after this?
static Expr *has_step(Printer *pr, const TileOp *pipeline, bool after)
{
    Arena *const a = pr->arena;
    Expr *all = NULL;
    for (int i = 0; i < pipeline->pipeline.n; i++) {
        const LoopIndex *const index = &pipeline->pipeline.indices[i];
        Expr *from, *to;
        index_bounds(pr, index, NULL, &from, &to);
        Var *const step = loop_var(pr, index->var); // bounds have a type each
        if (after) from = expr_binary(a, X_ADD, var_of(pr, step), expr_int(a, step->type, 1));
        Expr *const one = expr_binary(a, X_LT, cast(pr, step->type, from), cast(pr, step->type, to));
        all = all ? expr_binary(a, after ? X_OR : X_AND, all, one) : one;
    }
    return all;
}

// Where the next step's buffers are; after the last step, this one's.
static void next_ring_state(Printer *pr, const RingState *ring_state, Expr *more)
{
    Arena *const a = pr->arena;
    RingVars *const vars = ring_vars(pr, ring_state);
    Expr *const slot = var_of(pr, vars->slot), *const phase = var_of(pr, vars->phase);
    Expr *const wraps = expr_binary(a, X_EQ, slot, u32_const(pr, ring_state->buffers - 1));
    Expr *const next = expr_select(a, wraps, u32_const(pr, 0), expr_binary(a, X_ADD, slot, u32_const(pr, 1)));
    Expr *const next_phase = expr_select(a, expr_binary(a, X_AND, more, wraps), other_phase(pr, ring_state), phase);
    vars->phase = emit_declare(pr, DTYPE_U32, "phase_next", next_phase);
    vars->slot = emit_declare(pr, DTYPE_U32, "slot_next", expr_select(a, more, next, slot));
}

static bool is_of(const EarlyIssue *plan, const Ring *ring)
{
    for (int i = 0; i < plan->rings.count; i++)
        if (plan->rings.items[i] == ring) return true;
    return false;
}

static void begin_next_step(Printer *pr, const EarlyIssue *plan)
{
    StepVars *const vars = pr->step_vars = NEW(pr->arena, StepVars);
    vars->pointers = NEW_ARRAY(pr->arena, Var *, pr->lo->n_declared + 1);
    vars->rings = NEW_ARRAY(pr->arena, RingVars, pr->lo->ring_states.count + 1);
    Expr *const more = var_of(pr, emit_declare(pr, DTYPE_BOOL, "more", has_step(pr, plan->op, true)));
    for (int i = 0; i < pr->lo->ring_states.count; i++) {
        RingState *const ring_state = pr->lo->ring_states.items[i];
        vars->rings[i] = *ring_vars(pr, ring_state);
        if (ring_state->block == plan->op->pipeline.body && ring_state->stage == 0)
            next_ring_state(pr, ring_state, more);
    }
    for (int i = 0; i < pr->lo->n_declared; i++) {
        TileInfo *const tile = pr->lo->declared.items[i];
        vars->pointers[i] = tile_vars(pr, tile)->pointer;
        if (!tile->ring || !is_of(plan, tile->ring)) continue;
        const char *const name = arena_printf(pr->arena, "%s_next", tile->buffer->name);
        Var *const next = loop_new_pointer(pr->unit, vars->pointers[i]->type, name);
        tile_vars(pr, tile)->pointer = next;
        emit_definition(pr, next, NULL);
    }
}

static void end_next_step(Printer *pr)
{
    const StepVars *const vars = pr->step_vars;
    for (int i = 0; i < pr->lo->ring_states.count; i++) *ring_vars(pr, pr->lo->ring_states.items[i]) = vars->rings[i];
    for (int i = 0; i < pr->lo->n_declared; i++) tile_vars(pr, pr->lo->declared.items[i])->pointer = vars->pointers[i];
}

static void end_steps(Printer *pr, const Action *action)
{
    const EarlyIssue *const plan = action->print;
    for (int i = 0; i < plan->rings.count; i++) print_slot_pointers(pr, plan->rings.items[i]);
    end_loop(pr, action);
}

void begin_early_issue(Printer *pr, const Action *action)
{
    const EarlyIssue *const plan = action->print;
    if (action->kind == ACTION_LOOP) print_loop(pr, action);
    else if (action->scope.kind == SCOPE_ANY_STEP) begin_if(pr, push_nest(pr), has_step(pr, plan->op, false));
    else begin_next_step(pr, plan);
}

void end_early_issue(Printer *pr, const Action *action)
{
    if (action->kind == ACTION_LOOP) end_steps(pr, action);
    else if (action->scope.kind == SCOPE_ANY_STEP) pop_nest(pr);
    else end_next_step(pr);
}
