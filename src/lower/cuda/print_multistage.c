// SPDX-License-Identifier: MIT
// print_multistage.c - printing: the loop of a multistage pipeline, its guards and its copies (multistage.c).
//
// before: an action with a MultistageSteps begins       after: its statement is open; its tiles' pointers are those of
//         the step that it is for
#include "lower/cuda/multistage.h"
#include "lower/cuda/elementwise.h"
#include "lower/cuda/print.h"
#include "lower/cuda/print_action.h"
#include "lower/cuda/rounds.h"

// ---- copies

void print_pieces(Lowering *lo, const Pieces *plan)
{
    Iteration it = plan->it;
    const TileOp *const store = plan->map->forall.body;
    const Expr *const load = store->store.value;
    const int width = it.layout.mode[it.vector].extent;
    int pieces = 1, n = 0;
    for (int i = 0; i < it.layout.n; i++)
        pieces *= it.layout.mode[i].input == IN_REGISTER && i != it.vector ? it.layout.mode[i].extent : 1;
    Nest modes[LAYOUT_MAX_MODES], block, guard;
    for (int i = it.layout.n - 1; i >= 0; i--) {
        if (it.layout.mode[i].input != IN_REGISTER || i == it.vector) continue;
        it.mode[i] = loop_new_var(lo->unit, DTYPE_I32, "r");
        begin_for(lo, &modes[n++], it.mode[i], i32_const(lo, 0), i32_const(lo, it.layout.mode[i].extent),
                  i32_const(lo, 1), pieces <= 16 ? LOOP_UNROLL : LOOP_NO_UNROLL);
    }
    begin_block(lo, &block);
    Expr *const inside = declare_indices(lo, &it, ~0u);
    Expr *const valid = both(lo, inside, replica_is_first(lo, &it.layout));
    if (valid) begin_if(lo, &guard, valid);
    Place from, to;
    if (place_element(lo, load->load.buffer, load->load.subs, &it, &from, load->span) &&
        place_element(lo, store->store.buffer, store->store.subs, &it, &to, store->span)) {
        Expr *const dst = expr_address(lo->arena, to.pointer, to.at);
        Expr *const src = expr_address(lo->arena, from.pointer, from.at);
        Expr *const rows = from.rows_inside ? from.rows_inside : expr_bool(lo->arena, true);
        if (from.columns)
            emit_call(lo, arena_printf(lo->arena, "copy_vector<%d>", width), 5, dst, src, rows, from.column,
                      from.columns);
        else emit_call(lo, arena_printf(lo->arena, "copy_inside<%d>", width), 3, dst, src, rows);
    }
    if (valid) end_nest(lo, &guard);
    end_nest(lo, &block);
    end_nests(lo, modes, n);
}

// ---- slots

static void point_to(Lowering *lo, const Multistage *multistage, Var *slot)
{
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        if (tile->multistage != multistage || multistage->buffers < 2) continue;
        Expr *const offset =
            i32_add(lo, i32_const(lo, tile->offset), i32_mul(lo, var_of(lo, slot), tile->shared.bytes));
        emit_assign(lo, tile->pointer, shared_pointer(lo, tile->pointer->type, offset));
    }
}

static void advance(Lowering *lo, const Multistage *multistage, Var *slot)
{
    if (multistage->buffers < 2) return;
    Expr *const next = i32_add(lo, var_of(lo, slot), i32_const(lo, 1));
    emit_assign(lo, slot, expr_select(lo->arena, i32_op(lo, X_EQ, next, multistage->buffers), i32_const(lo, 0), next));
}

void print_commit(Lowering *lo, const Action *action)
{
    const MultistageSteps *const plan = action->print;
    emit_call(lo, "copy_commit", 0);
    advance(lo, plan->multistage, lo->round_vars->filled);
}

// ---- the loop

static Var **index_slot(Lowering *lo, const Multistage *multistage)
{
    return var_slot(lo, multistage->pipeline->pipeline.indices[0].var);
}

static Expr *distance_of(Lowering *lo, const Multistage *multistage)
{
    return expr_int(lo->arena, lo->round_vars->index->type, multistage->buffers - 1);
}

static void begin_rounds(Lowering *lo, const Multistage *multistage)
{
    RoundVars *const vars = begin_round_vars(lo, multistage->pipeline);
    const bool has_slots = multistage->buffers > 1;
    vars->filled = has_slots ? emit_declare(lo, DTYPE_I32, "filled", i32_const(lo, 0)) : NULL;
    vars->slot = has_slots ? emit_declare(lo, DTYPE_I32, "slot", i32_const(lo, 0)) : NULL;
    Expr *const first = expr_binary(lo->arena, X_SUB, var_of(lo, vars->begin), distance_of(lo, multistage));
    begin_for(lo, push_nest(lo), vars->index, first, var_of(lo, vars->end), expr_int(lo->arena, vars->index->type, 1),
              LOOP_NO_UNROLL);
}

static void begin_step_ahead(Lowering *lo, const Multistage *multistage)
{
    const RoundVars *const vars = lo->round_vars;
    Var *const next = emit_declare(lo, vars->index->type, "next",
                                   expr_binary(lo->arena, X_ADD, var_of(lo, vars->index), distance_of(lo, multistage)));
    begin_if(lo, push_nest(lo), expr_binary(lo->arena, X_LT, var_of(lo, next), var_of(lo, vars->end)));
    point_to(lo, multistage, vars->filled);
    *index_slot(lo, multistage) = next;
}

// Every round is a step where none is made ahead.
static void begin_step(Lowering *lo, const MultistageSteps *plan)
{
    const RoundVars *const vars = lo->round_vars;
    if (!vars->slot) {
        begin_block(lo, push_nest(lo));
        return;
    }
    begin_if(lo, push_nest(lo), expr_binary(lo->arena, X_GE, var_of(lo, vars->index), var_of(lo, vars->begin)));
    if (plan->is_body) point_to(lo, plan->multistage, vars->slot);
}

void begin_multistage(Lowering *lo, const Action *action)
{
    const MultistageSteps *const plan = action->print;
    if (action->kind == ACTION_LOOP) begin_rounds(lo, plan->multistage);
    else if (action->scope.kind == SCOPE_STEP_AHEAD) begin_step_ahead(lo, plan->multistage);
    else begin_step(lo, plan);
}

void end_multistage(Lowering *lo, const Action *action)
{
    const MultistageSteps *const plan = action->print;
    const bool is_loop = action->kind == ACTION_LOOP;
    if (plan->is_body) advance(lo, plan->multistage, lo->round_vars->slot);
    pop_nest(lo);
    if (is_loop) end_round_vars(lo);
    else if (action->scope.kind == SCOPE_STEP_AHEAD) *index_slot(lo, plan->multistage) = lo->round_vars->index;
}
