// SPDX-License-Identifier: MIT
// row_index_loop.c - the loop of a pipeline whose producer group knows which rows it gathers (row_indices.c).
//
// In line with the rows, their numbers make each step begin with two waits for memory, one after the other. So a step
// is
//
//     barrier;  row indices(t + 1), from registers;  prefetch rows(t + 1) into L2;  load the list for t + 2;  rows(t)
//
// A thread works out the row indices of one row, so they need no barrier among themselves. The one at the head lies
// between a buffer's rows and its next row indices, and between row indices and their rows.
//
// Rows that are converted in one line of a step need no L2 prefetch: when it is converted, its registers take the
// next step's (register_prefetch.c), and the lists for t + 2 are loaded while it is. Copies beside it have the time of
// a conversion. There a row belongs to the warp that gathers it: what the producer group's statements access at row r,
// in any tile of its own, no other warp does, and the barriers are those of a warp.
#include "lower/cuda/actions.h"
#include "lower/cuda/producer.h"

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

// tile[r] = .. with a register prefetch; false: it has no such form
bool emit_local(Lowering *lo, TileOp *op)
{
    TileOp *const forall = as_map(lo, op);
    Iteration it = own_iteration();
    Nest nest;
    if (!lo->register_prefetch || forall->forall.n != 1) return false;
    begin_row(lo, &forall->forall.indices[0], &nest);
    emit_thread_block(lo, forall->forall.body, &it);
    end_nest(lo, &nest);
    return true;
}

// ---- phases of a step

static bool is_fill(Lowering *lo, TileOp *op) { return op_info(lo, op)->fills; }

static void emit_phase(Lowering *lo, TileOp *block, Phase phase)
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
            (lo->register_prefetch ? point_register_prefetch : prefetch_rows)(lo, op);
        } else if (op->kind == T_IF) {
            if (!op_has(lo, op, is_fill)) continue;
            begin_if(lo, &nest, lower_expr(lo, op->branch.cond, NULL));
            emit_phase(lo, op->branch.then, phase);
            if (op->branch.otherwise) {
                begin_else(lo, &nest);
                emit_phase(lo, op->branch.otherwise, phase);
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
static void emit_phases(Lowering *lo, TileOp *op, Expr *step, Expr *end, bool flip, const Phase *phases, int n)
{
    Arena *const a = lo->arena;
    const KnownVars known = known_vars(lo);
    Nest nest;
    begin_if(lo, &nest, expr_binary(a, X_LT, step, end));
    Var **const slot = var_slot(lo, op->pipeline.indices[0].var);
    *slot = emit_declare(lo, (*slot)->type, arena_printf(a, "%s_ahead", (*slot)->name), step);
    point_double_buffers(lo, op, flip);
    for (int i = 0; i < n; i++) {
        if (i > 0 && lo->register_prefetch) emit_call(lo, "__syncwarp", 0);
        emit_phase(lo, op->pipeline.body, phases[i]);
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

Expr *await_lists(Lowering *lo, TileOp *pipeline)
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

// For two steps on.
void load_lists(Lowering *lo, TileOp *pipeline)
{
    static const Phase load[] = { LOAD };
    emit_phases(lo, pipeline, later(lo, loop_var(lo, pipeline->pipeline.indices[0].var), 2), var_of(lo, lo->end), false,
                load, COUNT(load));
}

// The loop of a pipeline with row indices; `rows` prints the rest of a step.
void emit_with_row_indices(Lowering *lo, TileOp *op, void rows(Lowering *, TileOp *))
{
    static const Phase load[] = { LOAD }, work_out_and_prefetch[] = { WORK_OUT, PREFETCH };
    Expr *from, *to;
    index_bounds(lo, &op->pipeline.indices[0], NULL, &from, &to);
    Var *const at = loop_var(lo, op->pipeline.indices[0].var);
    Var *const begin = emit_declare(lo, at->type, "begin", from), *const end = emit_declare(lo, at->type, "end", to);
    lo->end = end;
    lo->row_index_buffer = emit_declare(lo, DTYPE_U32, "row_index_buffer", u32_const(lo, 0));
    each_op(lo, op->pipeline.body, declare_early, NULL);
    Var *const thread = lo->thread, *const lane = lo->lane;
    number_threads(lo);
    declare_register_prefetch(lo, op);
    emit_phases(lo, op, var_of(lo, begin), var_of(lo, end), false, load, COUNT(load));
    if (lo->register_prefetch) { // both steps' elements before any row
        each_op(lo, op->pipeline.body, set_early_aside, NULL);
        emit_phases(lo, op, later(lo, begin, 1), var_of(lo, end), true, load, COUNT(load));
        each_op(lo, op->pipeline.body, swap_early, NULL);
    }
    sync_row_writers(lo);
    emit_phases(lo, op, var_of(lo, begin), var_of(lo, end), false, work_out_and_prefetch, COUNT(work_out_and_prefetch));
    if (lo->register_prefetch) each_op(lo, op->pipeline.body, swap_early, NULL);
    load_register_prefetch(lo);
    if (!lo->register_prefetch) emit_phases(lo, op, later(lo, begin, 1), var_of(lo, end), true, load, COUNT(load));
    Nest loop;
    begin_for(lo, &loop, at, var_of(lo, begin), var_of(lo, end), expr_int(lo->arena, at->type, 1), LOOP_NO_UNROLL);
    number_threads(lo);
    sync_row_writers(lo);
    emit_phases(lo, op, later(lo, at, 1), var_of(lo, end), true, work_out_and_prefetch, COUNT(work_out_and_prefetch));
    if (!lo->register_prefetch) load_lists(lo, op);
    point_double_buffers(lo, op, false);
    record_loop(lo, LOOP_ALL, op);
    rows(lo, op->pipeline.body);
    record_close(lo);
    emit_assign(lo, lo->row_index_buffer,
                expr_binary(lo->arena, X_BITXOR, var_of(lo, lo->row_index_buffer), u32_const(lo, 1)));
    end_nest(lo, &loop);
    lo->thread = thread;
    lo->lane = lane;
    lo->register_prefetch = NULL;
}
