// SPDX-License-Identifier: MIT
// print_row_index_loop.c - printing: the loop of a pipeline whose producer group knows which rows it gathers, and what it
// makes a step early (row_index_loop.c).
//
// before: print_first_lists() declares the loop's variables       after: in the loop, row indices and lists of later steps
//         are under way, and the double buffers are the step's
#include "lower/gpu/print/build/parts.h"
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/print/control/rounds.h"
#include "lower/gpu/print/copies/print_producer.h"
#include "lower/gpu/print/copies/print_rows.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/plans/producer.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/values.h"

#include <assert.h>

typedef enum { LOAD, WORK_OUT, PREFETCH } Phase;

// ---- a row of each thread

static bool in_lanes(const Printer *pr)
{
    return pr->row_index_loop->prefetched && pr->row_index_loop->prefetched->in_lanes;
}

// Row r is thread r's, or a lane's of the warp that gathers it.
void begin_row(Printer *pr, const LoopIndex *index, Nest *nest)
{
    int64_t rows;
    full_extent(index, &rows);
    if (!pr->register_prefetch) {
        begin_if(pr, nest, i32_op(pr, X_LT, var_of(pr, pr->thread), rows));
        *var_slot(pr, index->var) = emit_declare(pr, DTYPE_I32, index->var->name, var_of(pr, pr->thread));
        return;
    }
    if (in_lanes(pr) && pr->lane_row != LANE_ROWS) { // four lanes have the same
        begin_block(pr, nest);
        Expr *const place =
            i32_add(pr, i32_op(pr, X_DIV, var_of(pr, pr->lane), 4), i32_mul(pr, var_of(pr, pr->warp), 8));
        *var_slot(pr, index->var) =
            emit_declare(pr, DTYPE_I32, index->var->name, i32_add(pr, place, i32_const(pr, pr->lane_row * 8 * 4)));
        return;
    }
    Expr *const lane = var_of(pr, pr->lane), *const first = i32_mul(pr, var_of(pr, pr->warp), 8);
    Expr *const line = in_lanes(pr) ? i32_op(pr, X_MOD, lane, 4) : i32_op(pr, X_DIV, lane, 8);
    Expr *const of_line = in_lanes(pr) ? i32_op(pr, X_DIV, lane, 4) : i32_op(pr, X_MOD, lane, 8);
    begin_if(pr, nest, in_lanes(pr) ? i32_op(pr, X_LT, line, rows / (8 * 4)) : i32_op(pr, X_LT, lane, rows / 4));
    Expr *const row = i32_add(pr, i32_add(pr, of_line, first), i32_mul(pr, line, 8 * 4));
    *var_slot(pr, index->var) = emit_declare(pr, DTYPE_I32, index->var->name, row);
}

static void load_row_index(Printer *pr, TileOp *op, const Iteration *it)
{
    const OpInfo *const info = info_of(pr->lo, op);
    Nest nest;
    begin_row(pr, &op->forall.indices[0], &nest);
    Expr *const value = lower_as(pr, op->forall.body->store.buffer->type, op->forall.body->store.value, it);
    if (in_lanes(pr)) emit_element(pr, op_vars(pr, info)->early, i32_const(pr, pr->lane_row), value);
    else emit_assign(pr, op_vars(pr, info)->early, value);
    end_nest(pr, &nest);
}

static void work_out_row_index(Printer *pr, TileOp *op, Iteration *it)
{
    const OpInfo *const info = info_of(pr->lo, op);
    TileOp store = *op->forall.body;
    Nest nest;
    begin_row(pr, &op->forall.indices[0], &nest);
    if (info->loads_early) {
        Var *const loaded = tile_new_var(pr->lo->kernel, VAR_LOCAL, store.store.buffer->type, "loaded", store.span);
        Var *const early = op_vars(pr, info)->early;
        *var_slot(pr, loaded) = in_lanes(pr) ? emit_declare(pr, early->type, "loaded",
                                                            expr_index(pr->arena, early, i32_const(pr, pr->lane_row)))
                                             : early;
        store.store.value = expr_var(pr->arena, loaded);
    }
    pr->divides_by_sizes = true;
    if (in_lanes(pr))
        emit_element(pr, tile_vars(pr, tile_info(pr->lo, store.store.buffer))->registers, i32_const(pr, pr->lane_row),
                     lower_as(pr, store.store.buffer->type, store.store.value, it));
    else emit_thread_block(pr, &store, it);
    pr->divides_by_sizes = false;
    end_nest(pr, &nest);
}

// tile[r] = ..
void print_row_elements(Printer *pr, const RowElements *plan)
{
    Iteration it = own_iteration();
    Nest nest;
    pr->lane_row = LANE_ROWS;
    begin_row(pr, &plan->map->forall.indices[0], &nest);
    emit_thread_block(pr, plan->map->forall.body, &it);
    end_nest(pr, &nest);
}

// ---- phases of a step

static bool has_fill(Printer *pr, TileOp *op)
{
    TileOp **body;
    bool found = info_of(pr->lo, op)->fills;
    for (int i = 0; op->kind != T_FORALL && (body = tile_bodies(op, i)) != NULL; i++)
        for (TileOp *inner = *body; inner && !found; inner = inner->next) found = has_fill(pr, inner);
    return found;
}

static const StepRows *rows_of(const RowIndexLoop *loop, const TileOp *op)
{
    for (int i = 0; i < loop->rows.count; i++)
        if (loop->rows.items[i]->op == op) return loop->rows.items[i];
    assert(false && "the rows of all fills are known");
    return NULL;
}

static void emit_phase(Printer *pr, const RowIndexLoop *loop, TileOp *block, Phase phase)
{
    Iteration it = own_iteration();
    for (TileOp *op = block; op; op = op->next) {
        const OpInfo *const info = info_of(pr->lo, op);
        Nest nest;
        if (declare_again(pr, op)) continue;
        if (info->is_row_index && phase == LOAD && info->loads_early) {
            load_row_index(pr, op, &it);
        } else if (info->is_row_index && phase == WORK_OUT) {
            work_out_row_index(pr, op, &it);
        } else if (info->fills && !info->is_row_index && phase == PREFETCH) {
            (pr->register_prefetch ? point_register_prefetch : prefetch_rows)(pr, rows_of(loop, op));
        } else if (op->kind == T_IF) {
            if (!has_fill(pr, op)) continue;
            begin_if(pr, &nest, lower_expr(pr, op->branch.cond, NULL));
            emit_phase(pr, loop, op->branch.then, phase);
            if (op->branch.otherwise) {
                begin_else(pr, &nest);
                emit_phase(pr, loop, op->branch.otherwise, phase);
            }
            end_nest(pr, &nest);
        }
    }
}

static void point_double_buffers(Printer *pr, const TileOp *pipeline, bool flip)
{
    Expr *row_index_buffer = var_of(pr, pr->row_index_buffer);
    if (flip) row_index_buffer = expr_binary(pr->arena, X_BITXOR, row_index_buffer, u32_const(pr, 1));
    for (int i = 0; i < pr->lo->n_declared; i++) {
        const TileInfo *const tile = pr->lo->declared.items[i];
        if (!tile->is_double_buffered || !is_within(pr->lo, tile->declared, pipeline)) continue;
        Expr *const offset = i32_add(
            pr, i32_const(pr, tile->offset),
            cast(pr, DTYPE_I32, expr_binary(pr->arena, X_MUL, row_index_buffer, u32_const(pr, tile->shared.bytes))));
        emit_assign(pr, tile_vars(pr, tile)->pointer, shared_pointer(pr, tile_vars(pr, tile)->pointer->type, offset));
    }
}

// One step's, if there is such a step; `flip`: in the other buffer than the current one's.
static void emit_phases(Printer *pr, const RowIndexLoop *loop, Expr *step, bool flip, const Phase *phases, int n)
{
    const TileOp *const op = loop->op;
    Arena *const a = pr->arena;
    const KnownVars known = known_vars(pr);
    Nest nest;
    begin_if(pr, &nest, expr_binary(a, X_LT, step, var_of(pr, pr->end)));
    Var **const slot = var_slot(pr, op->pipeline.indices[0].var);
    *slot = emit_declare(pr, (*slot)->type, arena_printf(a, "%s_ahead", (*slot)->name), step);
    point_double_buffers(pr, op, flip);
    for (int i = 0; i < n; i++) {
        if (i > 0 && pr->register_prefetch && !in_lanes(pr)) emit_call(pr, "__syncwarp", 0);
        emit_phase(pr, loop, op->pipeline.body, phases[i]);
    }
    end_nest(pr, &nest);
    restore_vars(pr, known);
}

// ---- elements of lists

typedef void VisitEarly(Printer *pr, TileOp *op, void *context);

// The row indices of a block that are loaded a step early.
static void each_early(Printer *pr, TileOp *block, VisitEarly *visit, void *context)
{
    for (TileOp *op = block; op; op = op->next) {
        const OpInfo *const info = info_of(pr->lo, op);
        TileOp **body;
        if (info->is_row_index && info->loads_early) visit(pr, op, context);
        for (int i = 0; op->kind != T_FORALL && (body = tile_bodies(op, i)) != NULL; i++)
            each_early(pr, *body, visit, context);
    }
}

static void declare_early(Printer *pr, TileOp *op, void *context)
{
    (void)context;
    const DType type = loop_type(op->forall.body->store.buffer->type);
    op_vars(pr, info_of(pr->lo, op))->early =
        in_lanes(pr) ? emit_array(pr, type, "early", LINES_HELD) : emit_declare(pr, type, "early", NULL);
}

static void set_early_aside(Printer *pr, TileOp *op, void *context)
{
    OpVars *const vars = op_vars(pr, info_of(pr->lo, op));
    vars->first = vars->early;
    declare_early(pr, op, context);
}

static void swap_early(Printer *pr, TileOp *op, void *context)
{
    (void)context;
    OpVars *const vars = op_vars(pr, info_of(pr->lo, op));
    Var *const early = vars->early;
    vars->early = vars->first;
    vars->first = early;
}

static void see_early(Printer *pr, TileOp *op, void *context)
{
    Expr **const all = context;
    Var *const early = op_vars(pr, info_of(pr->lo, op))->early;
    if (early->type != DTYPE_I32 && early->type != DTYPE_U32) return;
    Expr *const x = call_expr(pr, DTYPE_I32, "(int32_t)", 1, var_of(pr, early));
    *all = *all ? expr_binary(pr->arena, X_BITOR, *all, x) : x;
}

Expr *await_lists(Printer *pr, const TileOp *pipeline)
{
    Expr *all = NULL;
    each_early(pr, pipeline->pipeline.body, see_early, &all);
    if (!all) return i32_const(pr, 0);
    return expr_binary(pr->arena, X_BITAND, all, expr_call(pr->arena, DTYPE_I32, "(int32_t)blockIdx.z", -1, NULL));
}

// ---- the loop

// The producer is group 0: its threads count from 0.
static void number_threads(Printer *pr)
{
    pr->thread = emit_declare(pr, DTYPE_I32, "thread", call_expr(pr, DTYPE_I32, "thread_number", 0));
    pr->lane = emit_declare(pr, DTYPE_I32, "lane", i32_op(pr, X_BITAND, var_of(pr, pr->thread), WARP_LANES - 1));
}

static Expr *later(Printer *pr, const Var *at, int steps)
{
    return expr_binary(pr->arena, X_ADD, expr_var(pr->arena, (Var *)at), expr_int(pr->arena, at->type, steps));
}

static void load_phase(Printer *pr, const RowIndexLoop *loop, Expr *step, bool flip)
{
    static const Phase load[] = { LOAD };
    emit_phases(pr, loop, step, flip, load, COUNT(load));
}

static void index_phases(Printer *pr, const RowIndexLoop *loop, Expr *step, bool flip)
{
    static const Phase work_out_and_prefetch[] = { WORK_OUT, PREFETCH };
    emit_phases(pr, loop, step, flip, work_out_and_prefetch, COUNT(work_out_and_prefetch));
}

static Var *step_of(Printer *pr, const RowIndexLoop *loop) { return loop_var(pr, loop->op->pipeline.indices[0].var); }

// Of each row of a lane, where it has them in registers.
static void load_lists_of(Printer *pr, const RowIndexLoop *loop, Expr *step, bool flip)
{
    for (pr->lane_row = 0; pr->lane_row < (in_lanes(pr) ? LINES_HELD : 1); pr->lane_row++)
        load_phase(pr, loop, step, flip);
}

void point_lane_row(Printer *pr, int line, bool first)
{
    const RowIndexLoop *const loop = pr->row_index_loop;
    pr->lane_row = line;
    index_phases(pr, loop, first ? var_of(pr, pr->round_vars->begin) : later(pr, step_of(pr, loop), 1), false);
}

void load_lists(Printer *pr) // for two steps on
{
    const RowIndexLoop *const loop = pr->row_index_loop;
    load_phase(pr, loop, later(pr, step_of(pr, loop), 2), false);
}

void print_first_lists(Printer *pr, const RowIndexLoop *loop)
{
    const TileOp *const op = loop->op;
    const RoundVars *const vars = begin_round_vars(pr, op);
    pr->row_index_loop = loop;
    pr->end = vars->end;
    pr->row_index_buffer = emit_declare(pr, DTYPE_U32, "row_index_buffer", u32_const(pr, 0));
    each_early(pr, op->pipeline.body, declare_early, NULL);
    number_threads(pr);
    if (loop->prefetched) declare_register_prefetch(pr, loop->prefetched);
    load_lists_of(pr, loop, var_of(pr, vars->begin), false);
    if (pr->register_prefetch && !in_lanes(pr)) { // both steps' elements before any row
        each_early(pr, op->pipeline.body, set_early_aside, NULL);
        load_phase(pr, loop, later(pr, vars->begin, 1), true);
        each_early(pr, op->pipeline.body, swap_early, NULL);
    }
}

void print_first_indices(Printer *pr, const RowIndexLoop *loop)
{
    Var *const begin = pr->round_vars->begin;
    if (in_lanes(pr)) {
        for (int l = 0; l < LINES_HELD; l++) load_lane_row(pr, l, true);
        load_lists_of(pr, loop, later(pr, begin, 1), false);
        return;
    }
    index_phases(pr, loop, var_of(pr, begin), false);
    if (pr->register_prefetch) each_early(pr, loop->op->pipeline.body, swap_early, NULL);
    load_register_prefetch(pr);
    if (!pr->register_prefetch) load_phase(pr, loop, later(pr, begin, 1), true);
}

void begin_row_index_loop(Printer *pr)
{
    const RoundVars *const vars = pr->round_vars;
    begin_for(pr, push_nest(pr), vars->index, var_of(pr, vars->begin), var_of(pr, vars->end),
              expr_int(pr->arena, vars->index->type, 1), LOOP_NO_UNROLL);
    number_threads(pr);
}

void print_next_indices(Printer *pr, const RowIndexLoop *loop)
{
    if (in_lanes(pr)) { // the line's before have been loaded among the conversions
        load_lane_row(pr, LINES_HELD - 1, false);
        load_lists_of(pr, loop, later(pr, step_of(pr, loop), 2), false);
        return;
    }
    index_phases(pr, loop, later(pr, step_of(pr, loop), 1), true);
    if (!pr->register_prefetch) load_lists(pr);
    load_next_line(pr);
    point_double_buffers(pr, loop->op, false);
}

void end_row_index_loop(Printer *pr)
{
    emit_assign(pr, pr->row_index_buffer,
                expr_binary(pr->arena, X_BITXOR, var_of(pr, pr->row_index_buffer), u32_const(pr, 1)));
    pop_nest(pr);
    end_round_vars(pr);
    pr->register_prefetch = NULL;
    pr->row_index_loop = NULL;
}
