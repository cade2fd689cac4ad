// SPDX-License-Identifier: MIT
// print_statements.c - Loop IR for the loops and jumps of the source, and for what stands around them.
//
// before: statements.c or the producer's walk has decided that the loop stays as the source has it
// after:  its nests are open until end_loop()
#include "lower/cuda/print_action.h"
#include "lower/cuda/elementwise.h"
#include "lower/cuda/print.h"
#include "lower/cuda/print_statements.h"

// ---- thread numbers

void save_threads(Lowering *lo)
{
    const Threads now = { lo->lane, lo->warp, lo->thread, lo->thread_of_all };
    VEC_PUSH(lo->arena, &lo->threads, now);
}

void return_to_threads(Lowering *lo)
{
    const Threads *const saved = &lo->threads.items[lo->threads.count - 1];
    lo->lane = saved->lane;
    lo->warp = saved->warp;
    lo->thread = saved->thread;
    lo->thread_of_all = saved->of_all;
}

void restore_threads(Lowering *lo)
{
    return_to_threads(lo);
    lo->threads.count--;
}

static Expr *again(Lowering *lo, Var *number) { return call_expr(lo, DTYPE_I32, "again", 1, var_of(lo, number)); }

// What is computed from them is not computed before, and held, or spilled, until then.
void print_threads(Lowering *lo)
{
    Var **const numbers[] = { &lo->lane, &lo->warp, &lo->thread, &lo->thread_of_all };
    const int n = !lo->gpu->tma && lo->is_specialised ? 4 : 3;
    for (int i = 0; i < n; i++) *numbers[i] = emit_declare(lo, DTYPE_I32, (*numbers[i])->name, again(lo, *numbers[i]));
}

void print_coordinates(Lowering *lo)
{
    for (int i = 0; i < lo->kernel->n_grid; i++) {
        Var *const coordinate = loop_var(lo, lo->kernel->grid[i].var);
        if (coordinate->type == DTYPE_I32) emit_assign(lo, coordinate, again(lo, coordinate));
    }
}

// ---- loops

static void begin_pipeline(Lowering *lo, const TileOp *op)
{
    for (int i = 0; i < op->pipeline.n; i++)
        begin_index_loop(lo, push_nest(lo), &op->pipeline.indices[i], LOOP_NO_UNROLL, NULL);
}

void print_loop(Lowering *lo, const Action *action)
{
    const TileOp *const op = action->loop.source;
    if (op->kind == T_PIPELINE) begin_pipeline(lo, op);
    else if (op->kind == T_FOR) begin_counted_loop(lo, push_nest(lo), op, LOOP_NO_UNROLL, NULL);
    else begin_while(lo, push_nest(lo), op->while_.cond, NULL);
}

void end_loop(Lowering *lo, const Action *action)
{
    const TileOp *const op = action->loop.source;
    const int n = op->kind == T_PIPELINE ? op->pipeline.n : 1;
    for (int i = 0; i < n; i++) pop_nest(lo);
}

void print_jump(Lowering *lo, const Action *action)
{
    const TileKind how = action->jump.how;
    emit_jump(lo, how == T_BREAK ? L_BREAK : how == T_CONTINUE ? L_CONTINUE : L_RETURN);
}

// ---- scalars

void declare_value(Lowering *lo, const TileOp *op)
{
    Var *const var = loop_var(lo, op->let.var);
    Expr *const value = let_value(lo, op, NULL);
    emit_definition(lo, var, value);
}

void print_value(Lowering *lo, const TileOp *op)
{
    if (op->kind == T_LET) declare_value(lo, op);
    else emit_assign(lo, loop_var(lo, op->let.var), lower_as(lo, op->let.var->type, op->let.value, NULL));
}

// A statement outside forall, by each thread that comes by.
static void emit_by_each(Lowering *lo, const TileOp *op)
{
    Iteration none = own_iteration();
    emit_thread_op(lo, (TileOp *)op, &none);
}

// One thread's store, seen by all after the next barrier.
static void emit_by_one(Lowering *lo, const TileOp *op)
{
    Nest nest;
    begin_if(lo, &nest, is_zero(lo, lo->thread));
    emit_by_each(lo, op);
    end_nest(lo, &nest);
}

// ---- atomics: one thread's

static bool begin_ordered(Lowering *lo, Nest *nest)
{
    print_parts_through(lo, ACTION_BARRIER_SYNC);
    if (lo->is_specialised && lo->walk != 0) return false;
    begin_if(lo, nest, is_zero(lo, lo->thread));
    emit_call(lo, "fence_device", 0);
    return true;
}

static void end_ordered(Lowering *lo, Nest *nest)
{
    emit_call(lo, "fence_device", 0);
    end_nest(lo, nest);
}

// One whose result every thread needs: one thread makes it and hands it out.
static void print_shared_atomic(Lowering *lo, const TileOp *op)
{
    Var *const var = loop_var(lo, op->let.var);
    if (op->kind == T_LET) emit_definition(lo, var, NULL);
    Var *const cell = loop_new_pointer(lo->unit, var->type, "cell");
    emit_definition(lo, cell, shared_pointer(lo, var->type, i32_const(lo, lo->scratch_offset)));
    Nest nest;
    if (begin_ordered(lo, &nest)) {
        Expr *const value = lower_as(lo, op->let.var->type, op->let.value, NULL);
        emit_element(lo, cell, i32_const(lo, 0), value);
        end_ordered(lo, &nest);
    }
    print_parts_through(lo, ACTION_BARRIER_SYNC);
    emit_assign(lo, var, expr_index(lo->arena, cell, i32_const(lo, 0)));
    print_parts_through(lo, ACTION_BARRIER_SYNC);
}

void print_atomic(Lowering *lo, const Action *action)
{
    Nest nest;
    if (begin_ordered(lo, &nest)) {
        emit_by_each(lo, action->op);
        end_ordered(lo, &nest);
    }
    print_parts_through(lo, ACTION_BARRIER_SYNC);
}

static void print_let(Lowering *lo, const TileOp *op)
{
    if (op->let.value && expr_has_atomic(op->let.value)) print_shared_atomic(lo, op);
    else print_value(lo, op);
}

void print_scalar(Lowering *lo, const Action *action)
{
    TileOp *const op = (TileOp *)action->op;
    if (op->kind == T_LET || op->kind == T_SET) print_let(lo, op);
    else if (op->kind == T_PRINT) emit_print(lo, op, NULL);
    else if (op->kind == T_ASSERT) emit_assert(lo, op, NULL);
    else if (op->kind == T_EXTERN) emit_external(lo, op, NULL);
    else if (op->kind == T_STORE || op->update.buffer) emit_by_one(lo, op);
    else emit_by_each(lo, op);
}
