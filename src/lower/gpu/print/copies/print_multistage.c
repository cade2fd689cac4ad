// SPDX-License-Identifier: MIT
// print_multistage.c - printing: the loop of a multistage pipeline, its guards and its copies (multistage.c).
//
// before: an action with a MultistageSteps begins       after: its statement is open; its tiles' pointers are those of
//         the step that it is for
#include "lower/gpu/print/copies/print_multistage.h"
#include "lower/gpu/print/build/parts.h"
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/print/control/rounds.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/values.h"

// ---- copies

// Where a piece of a view begins that shows a tensor's rows as other elements, in these.
static Expr *recast_source(Printer *pr, const Buffer *buffer, Place *from)
{
    while (!recasts_rows(buffer)) buffer = buffer->base.buffer;
    const char *const name = arena_printf(pr->arena, "bitcast<const %s *>", dtype_info[loop_type(buffer->type)].c_name);
    const int each = dtype_bits(buffer->type) / dtype_bits(from->root->type);
    from->column = expr_binary(pr->arena, X_DIV, from->column, expr_int(pr->arena, from->column->type, each));
    if (from->columns) from->columns = lower_int64(pr, buffer->shape[buffer->rank - 1], NULL);
    return call_expr(pr, DTYPE_I64, name, 1, recast_address(pr, from));
}

void print_pieces(Printer *pr, const Pieces *plan)
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
        it.mode[i] = loop_new_var(pr->unit, DTYPE_I32, "r");
        begin_for(pr, &modes[n++], it.mode[i], i32_const(pr, 0), i32_const(pr, it.layout.mode[i].extent),
                  i32_const(pr, 1), pieces <= 16 ? LOOP_UNROLL : LOOP_NO_UNROLL);
    }
    begin_block(pr, &block);
    Expr *const inside = declare_indices(pr, &it, ~0u);
    Expr *const valid = both(pr->lo, inside, replica_is_first(pr, &it.layout));
    if (valid) begin_if(pr, &guard, valid);
    Place from, to;
    place_element(pr, load->load.buffer, load->load.subs, &it, &from, load->span);
    place_element(pr, store->store.buffer, store->store.subs, &it, &to, store->span);
    Expr *const dst = expr_address(pr->arena, to.pointer, to.at);
    Expr *const src =
        from.recast ? recast_source(pr, load->load.buffer, &from) : expr_address(pr->arena, from.pointer, from.at);
    Expr *const rows = from.rows_inside ? from.rows_inside : expr_bool(pr->arena, true);
    if (from.columns)
        emit_call(pr, arena_printf(pr->arena, "copy_vector<%d>", width), 5, dst, src, rows, from.column, from.columns);
    else emit_call(pr, arena_printf(pr->arena, "copy_inside<%d>", width), 3, dst, src, rows);
    if (valid) end_nest(pr, &guard);
    end_nest(pr, &block);
    end_nests(pr, modes, n);
}

// ---- slots

static void point_to(Printer *pr, const Multistage *multistage, Var *slot)
{
    for (int i = 0; i < pr->lo->n_declared; i++) {
        const TileInfo *const tile = pr->lo->declared.items[i];
        if (tile->multistage != multistage || multistage->buffers < 2) continue;
        Expr *const offset =
            i32_add(pr, i32_const(pr, tile->offset), i32_mul(pr, var_of(pr, slot), tile->shared.bytes));
        emit_assign(pr, tile_vars(pr, tile)->pointer, shared_pointer(pr, tile_vars(pr, tile)->pointer->type, offset));
    }
}

static void advance(Printer *pr, const Multistage *multistage, Var *slot)
{
    if (multistage->buffers < 2) return;
    Expr *const next = i32_add(pr, var_of(pr, slot), i32_const(pr, 1));
    emit_assign(pr, slot, expr_select(pr->arena, i32_op(pr, X_EQ, next, multistage->buffers), i32_const(pr, 0), next));
}

void print_commit(Printer *pr, const Action *action)
{
    const MultistageSteps *const plan = action->print;
    emit_call(pr, "copy_commit", 0);
    advance(pr, plan->multistage, pr->round_vars->filled);
}

// ---- the loop

static Var **index_slot(Printer *pr, const Multistage *multistage)
{
    return var_slot(pr, multistage->pipeline->pipeline.indices[0].var);
}

static Expr *distance_of(Printer *pr, const Multistage *multistage)
{
    return expr_int(pr->arena, pr->round_vars->index->type, multistage->buffers - 1);
}

static void begin_rounds(Printer *pr, const Multistage *multistage)
{
    RoundVars *const vars = begin_round_vars(pr, multistage->pipeline);
    const bool has_slots = multistage->buffers > 1;
    vars->filled = has_slots ? emit_declare(pr, DTYPE_I32, "filled", i32_const(pr, 0)) : NULL;
    vars->slot = has_slots ? emit_declare(pr, DTYPE_I32, "slot", i32_const(pr, 0)) : NULL;
    Expr *const first = expr_binary(pr->arena, X_SUB, var_of(pr, vars->begin), distance_of(pr, multistage));
    begin_for(pr, push_nest(pr), vars->index, first, var_of(pr, vars->end), expr_int(pr->arena, vars->index->type, 1),
              LOOP_NO_UNROLL);
}

static void begin_step_ahead(Printer *pr, const Multistage *multistage)
{
    const RoundVars *const vars = pr->round_vars;
    Var *const next = emit_declare(pr, vars->index->type, "next",
                                   expr_binary(pr->arena, X_ADD, var_of(pr, vars->index), distance_of(pr, multistage)));
    begin_if(pr, push_nest(pr), expr_binary(pr->arena, X_LT, var_of(pr, next), var_of(pr, vars->end)));
    point_to(pr, multistage, vars->filled);
    *index_slot(pr, multistage) = next;
}

// Every round is a step where none is made ahead.
static void begin_step(Printer *pr, const MultistageSteps *plan)
{
    const RoundVars *const vars = pr->round_vars;
    if (!vars->slot) {
        begin_block(pr, push_nest(pr));
        return;
    }
    begin_if(pr, push_nest(pr), expr_binary(pr->arena, X_GE, var_of(pr, vars->index), var_of(pr, vars->begin)));
    if (plan->is_body) point_to(pr, plan->multistage, vars->slot);
}

void begin_multistage(Printer *pr, const Action *action)
{
    const MultistageSteps *const plan = action->print;
    if (action->kind == ACTION_LOOP) begin_rounds(pr, plan->multistage);
    else if (action->scope.kind == SCOPE_STEP_AHEAD) begin_step_ahead(pr, plan->multistage);
    else begin_step(pr, plan);
}

void end_multistage(Printer *pr, const Action *action)
{
    const MultistageSteps *const plan = action->print;
    const bool is_loop = action->kind == ACTION_LOOP;
    if (plan->is_body) advance(pr, plan->multistage, pr->round_vars->slot);
    pop_nest(pr);
    if (is_loop) end_round_vars(pr);
    else if (action->scope.kind == SCOPE_STEP_AHEAD) *index_slot(pr, plan->multistage) = pr->round_vars->index;
}
