// SPDX-License-Identifier: MIT
// print_row_index_loop.c - printing: the loop of a pipeline whose producer group knows which rows it gathers, and what it
// makes a step early (row_index_loop.c).
//
// before: print_first_lists() declares the loop's variables       after: in the loop, row indices and lists of later steps
//         are under way, and the double buffers are the step's
#include "lower/cuda/print_action.h"
#include "lower/cuda/elementwise.h"
#include "lower/cuda/print_rows.h"
#include "lower/cuda/producer.h"
#include "lower/cuda/rounds.h"

#include <assert.h>

typedef enum { LOAD, WORK_OUT, PREFETCH } Phase;

// ---- a row of each thread

// Row r is thread r's, or a lane's of the warp that gathers it.
void begin_row(Lowering *lo, const LoopIndex *index, Nest *nest)
{
    int64_t rows;
    full_extent(index, &rows);
    if (!lo->register_prefetch) {
        begin_if(lo, nest, i32_op(lo, X_LT, var_of(lo, lo->thread), rows));
        *var_slot(lo, index->var) = emit_declare(lo, DTYPE_I32, index->var->name, var_of(lo, lo->thread));
        return;
    }
    begin_if(lo, nest, i32_op(lo, X_LT, var_of(lo, lo->lane), rows / 4));
    Expr *const lane = var_of(lo, lo->lane), *const first = i32_mul(lo, var_of(lo, lo->warp), 8);
    Expr *const row =
        i32_add(lo, i32_add(lo, i32_op(lo, X_MOD, lane, 8), first), i32_mul(lo, i32_op(lo, X_DIV, lane, 8), 8 * 4));
    *var_slot(lo, index->var) = emit_declare(lo, DTYPE_I32, index->var->name, row);
}

static void load_row_index(Lowering *lo, TileOp *op, const Iteration *it)
{
    OpInfo *const info = op_info(lo, op);
    Nest nest;
    begin_row(lo, &op->forall.indices[0], &nest);
    emit_assign(lo, info->early, lower_as(lo, op->forall.body->store.buffer->type, op->forall.body->store.value, it));
    end_nest(lo, &nest);
}

static void work_out_row_index(Lowering *lo, TileOp *op, Iteration *it)
{
    const OpInfo *const info = op_info(lo, op);
    TileOp store = *op->forall.body;
    Nest nest;
    begin_row(lo, &op->forall.indices[0], &nest);
    if (info->loads_early) {
        Var *const loaded = tile_new_var(lo->kernel, VAR_LOCAL, store.store.buffer->type, "loaded", store.span);
        *var_slot(lo, loaded) = info->early;
        store.store.value = expr_var(lo->arena, loaded);
    }
    emit_thread_block(lo, &store, it);
    end_nest(lo, &nest);
}

// tile[r] = ..
void print_row_elements(Lowering *lo, const RowElements *plan)
{
    Iteration it = own_iteration();
    Nest nest;
    begin_row(lo, &plan->map->forall.indices[0], &nest);
    emit_thread_block(lo, plan->map->forall.body, &it);
    end_nest(lo, &nest);
}

// ---- phases of a step

static bool is_fill(Lowering *lo, TileOp *op) { return op_info(lo, op)->fills; }

static const StepRows *rows_of(const RowIndexLoop *loop, const TileOp *op)
{
    for (int i = 0; i < loop->rows.count; i++)
        if (loop->rows.items[i]->op == op) return loop->rows.items[i];
    assert(false && "the rows of all fills are known");
    return NULL;
}

static void emit_phase(Lowering *lo, const RowIndexLoop *loop, TileOp *block, Phase phase)
{
    Iteration it = own_iteration();
    for (TileOp *op = block; op; op = op->next) {
        const OpInfo *const info = op_info(lo, op);
        Nest nest;
        if (declare_again(lo, op)) continue;
        if (info->is_row_index && phase == LOAD && info->loads_early) {
            load_row_index(lo, op, &it);
        } else if (info->is_row_index && phase == WORK_OUT) {
            work_out_row_index(lo, op, &it);
        } else if (info->fills && !info->is_row_index && phase == PREFETCH) {
            (lo->register_prefetch ? point_register_prefetch : prefetch_rows)(lo, rows_of(loop, op));
        } else if (op->kind == T_IF) {
            if (!op_has(lo, op, is_fill)) continue;
            begin_if(lo, &nest, lower_expr(lo, op->branch.cond, NULL));
            emit_phase(lo, loop, op->branch.then, phase);
            if (op->branch.otherwise) {
                begin_else(lo, &nest);
                emit_phase(lo, loop, op->branch.otherwise, phase);
            }
            end_nest(lo, &nest);
        }
    }
}

static void point_double_buffers(Lowering *lo, const TileOp *pipeline, bool flip)
{
    Expr *row_index_buffer = var_of(lo, lo->row_index_buffer);
    if (flip) row_index_buffer = expr_binary(lo->arena, X_BITXOR, row_index_buffer, u32_const(lo, 1));
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        if (!tile->is_double_buffered || !is_within(lo, tile->declared, pipeline)) continue;
        Expr *const offset = i32_add(
            lo, i32_const(lo, tile->offset),
            cast(lo, DTYPE_I32, expr_binary(lo->arena, X_MUL, row_index_buffer, u32_const(lo, tile->shared.bytes))));
        emit_assign(lo, tile->pointer, shared_pointer(lo, tile->pointer->type, offset));
    }
}

// One step's, if there is such a step; `flip`: in the other buffer than the current one's.
static void emit_phases(Lowering *lo, const RowIndexLoop *loop, Expr *step, bool flip, const Phase *phases, int n)
{
    const TileOp *const op = loop->op;
    Arena *const a = lo->arena;
    const KnownVars known = known_vars(lo);
    Nest nest;
    begin_if(lo, &nest, expr_binary(a, X_LT, step, var_of(lo, lo->end)));
    Var **const slot = var_slot(lo, op->pipeline.indices[0].var);
    *slot = emit_declare(lo, (*slot)->type, arena_printf(a, "%s_ahead", (*slot)->name), step);
    point_double_buffers(lo, op, flip);
    for (int i = 0; i < n; i++) {
        if (i > 0 && lo->register_prefetch) emit_call(lo, "__syncwarp", 0);
        emit_phase(lo, loop, op->pipeline.body, phases[i]);
    }
    end_nest(lo, &nest);
    restore_vars(lo, known);
}

// ---- elements of lists

static bool declare_early(Lowering *lo, TileOp *op, void *context)
{
    OpInfo *const info = op_info(lo, op);
    if (info->is_row_index && info->loads_early)
        info->early = emit_declare(lo, loop_type(op->forall.body->store.buffer->type), "early", NULL);
    return op->kind == T_FORALL;
}

static bool set_early_aside(Lowering *lo, TileOp *op, void *context)
{
    op_info(lo, op)->first = op_info(lo, op)->early;
    return declare_early(lo, op, context);
}

static bool swap_early(Lowering *lo, TileOp *op, void *context)
{
    (void)context;
    OpInfo *const info = op_info(lo, op);
    Var *const early = info->early;
    info->early = info->first;
    info->first = early;
    return op->kind == T_FORALL;
}

static bool see_early(Lowering *lo, TileOp *op, void *context)
{
    Expr **const all = context;
    const OpInfo *const info = op_info(lo, op);
    if (!info->is_row_index || !info->loads_early || (info->early->type != DTYPE_I32 && info->early->type != DTYPE_U32))
        return op->kind == T_FORALL;
    Expr *const x = call_expr(lo, DTYPE_I32, "(int32_t)", 1, var_of(lo, info->early));
    *all = *all ? expr_binary(lo->arena, X_BITOR, *all, x) : x;
    return op->kind == T_FORALL;
}

Expr *await_lists(Lowering *lo, const TileOp *pipeline)
{
    Expr *all = NULL;
    each_op(lo, pipeline->pipeline.body, see_early, &all);
    return all ? expr_binary(lo->arena, X_BITAND, all, expr_call(lo->arena, DTYPE_I32, "(int32_t)blockIdx.z", -1, NULL))
               : i32_const(lo, 0);
}

// ---- the loop

// The producer is group 0: its threads count from 0.
static void number_threads(Lowering *lo)
{
    lo->thread = emit_declare(lo, DTYPE_I32, "thread", call_expr(lo, DTYPE_I32, "thread_number", 0));
    lo->lane = emit_declare(lo, DTYPE_I32, "lane", i32_op(lo, X_BITAND, var_of(lo, lo->thread), WARP_LANES - 1));
}

static Expr *later(Lowering *lo, const Var *at, int steps)
{
    return expr_binary(lo->arena, X_ADD, expr_var(lo->arena, (Var *)at), expr_int(lo->arena, at->type, steps));
}

static void load_phase(Lowering *lo, const RowIndexLoop *loop, Expr *step, bool flip)
{
    static const Phase load[] = { LOAD };
    emit_phases(lo, loop, step, flip, load, COUNT(load));
}

static void index_phases(Lowering *lo, const RowIndexLoop *loop, Expr *step, bool flip)
{
    static const Phase work_out_and_prefetch[] = { WORK_OUT, PREFETCH };
    emit_phases(lo, loop, step, flip, work_out_and_prefetch, COUNT(work_out_and_prefetch));
}

static Var *step_of(Lowering *lo, const RowIndexLoop *loop) { return loop_var(lo, loop->op->pipeline.indices[0].var); }

void load_lists(Lowering *lo) // for two steps on
{
    const RowIndexLoop *const loop = lo->row_index_loop;
    load_phase(lo, loop, later(lo, step_of(lo, loop), 2), false);
}

void print_first_lists(Lowering *lo, const RowIndexLoop *loop)
{
    const TileOp *const op = loop->op;
    const RoundVars *const vars = begin_round_vars(lo, op);
    lo->row_index_loop = loop;
    lo->end = vars->end;
    lo->row_index_buffer = emit_declare(lo, DTYPE_U32, "row_index_buffer", u32_const(lo, 0));
    each_op(lo, op->pipeline.body, declare_early, NULL);
    number_threads(lo);
    if (loop->prefetched) declare_register_prefetch(lo, loop->prefetched);
    load_phase(lo, loop, var_of(lo, vars->begin), false);
    if (lo->register_prefetch) { // both steps' elements before any row
        each_op(lo, op->pipeline.body, set_early_aside, NULL);
        load_phase(lo, loop, later(lo, vars->begin, 1), true);
        each_op(lo, op->pipeline.body, swap_early, NULL);
    }
}

void print_first_indices(Lowering *lo, const RowIndexLoop *loop)
{
    Var *const begin = lo->round_vars->begin;
    index_phases(lo, loop, var_of(lo, begin), false);
    if (lo->register_prefetch) each_op(lo, loop->op->pipeline.body, swap_early, NULL);
    load_register_prefetch(lo);
    if (!lo->register_prefetch) load_phase(lo, loop, later(lo, begin, 1), true);
}

void begin_row_index_loop(Lowering *lo)
{
    const RoundVars *const vars = lo->round_vars;
    begin_for(lo, push_nest(lo), vars->index, var_of(lo, vars->begin), var_of(lo, vars->end),
              expr_int(lo->arena, vars->index->type, 1), LOOP_NO_UNROLL);
    number_threads(lo);
}

void print_next_indices(Lowering *lo, const RowIndexLoop *loop)
{
    index_phases(lo, loop, later(lo, step_of(lo, loop), 1), true);
    if (!lo->register_prefetch) load_lists(lo);
    point_double_buffers(lo, loop->op, false);
}

void end_row_index_loop(Lowering *lo)
{
    emit_assign(lo, lo->row_index_buffer,
                expr_binary(lo->arena, X_BITXOR, var_of(lo, lo->row_index_buffer), u32_const(lo, 1)));
    pop_nest(lo);
    end_round_vars(lo);
    lo->register_prefetch = NULL;
    lo->row_index_loop = NULL;
}
