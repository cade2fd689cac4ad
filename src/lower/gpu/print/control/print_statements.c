// SPDX-License-Identifier: MIT
// print_statements.c - Loop IR for the loops and jumps of the source, and for what stands around them.
//
// before: statements.c or the producer's walk has decided that the loop stays as the source has it
// after:  its nests are open until end_loop()
#include "lower/gpu/print/control/print_statements.h"
#include "lower/gpu/print/build/parts.h"
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/facts/elementwise.h"

// ---- thread numbers

void save_threads(Printer *pr)
{
    const Threads now = { pr->lane, pr->warp, pr->thread, pr->thread_of_all };
    VEC_PUSH(pr->arena, &pr->threads, now);
}

void return_to_threads(Printer *pr)
{
    const Threads *const saved = &pr->threads.items[pr->threads.count - 1];
    pr->lane = saved->lane;
    pr->warp = saved->warp;
    pr->thread = saved->thread;
    pr->thread_of_all = saved->of_all;
}

void restore_threads(Printer *pr)
{
    return_to_threads(pr);
    pr->threads.count--;
}

static Expr *again(Printer *pr, Var *number) { return call_expr(pr, DTYPE_I32, "again", 1, var_of(pr, number)); }

// What is computed from them is not computed before, and held, or spilled, until then.
void print_threads(Printer *pr)
{
    Var **const numbers[] = { &pr->lane, &pr->warp, &pr->thread, &pr->thread_of_all };
    const int n = !pr->lo->gpu->tma && pr->lo->is_specialised ? 4 : 3;
    for (int i = 0; i < n; i++) *numbers[i] = emit_declare(pr, DTYPE_I32, (*numbers[i])->name, again(pr, *numbers[i]));
}

void print_coordinates(Printer *pr)
{
    for (int i = 0; i < pr->lo->kernel->n_grid; i++) {
        Var *const coordinate = loop_var(pr, pr->lo->kernel->grid[i].var);
        if (coordinate->type == DTYPE_I32) emit_assign(pr, coordinate, again(pr, coordinate));
    }
}

// ---- loops

static void begin_pipeline(Printer *pr, const TileOp *op)
{
    for (int i = 0; i < op->pipeline.n; i++)
        begin_index_loop(pr, push_nest(pr), &op->pipeline.indices[i], LOOP_NO_UNROLL, NULL);
}

void print_loop(Printer *pr, const Action *action)
{
    const TileOp *const op = action->loop.source;
    if (op->kind == T_PIPELINE) begin_pipeline(pr, op);
    else if (op->kind == T_FOR) begin_counted_loop(pr, push_nest(pr), op, LOOP_NO_UNROLL, NULL);
    else begin_while(pr, push_nest(pr), op->while_.cond, NULL);
}

void end_loop(Printer *pr, const Action *action)
{
    const TileOp *const op = action->loop.source;
    const int n = op->kind == T_PIPELINE ? op->pipeline.n : 1;
    for (int i = 0; i < n; i++) pop_nest(pr);
}

void print_jump(Printer *pr, const Action *action)
{
    const TileKind how = action->jump.how;
    emit_jump(pr, how == T_BREAK ? L_BREAK : how == T_CONTINUE ? L_CONTINUE : L_RETURN);
}

// ---- scalars

void declare_value(Printer *pr, const TileOp *op)
{
    Var *const var = loop_var(pr, op->let.var);
    Expr *const value = let_value(pr, op, NULL);
    emit_definition(pr, var, value);
}

void print_value(Printer *pr, const TileOp *op)
{
    if (op->kind == T_LET) declare_value(pr, op);
    else emit_assign(pr, loop_var(pr, op->let.var), lower_as(pr, op->let.var->type, op->let.value, NULL));
}

// A statement outside forall, by each thread that comes by.
static void emit_by_each(Printer *pr, const TileOp *op)
{
    Iteration none = own_iteration();
    emit_thread_op(pr, (TileOp *)op, &none);
}

// One thread's store, seen by all after the next barrier.
static void emit_by_one(Printer *pr, const TileOp *op)
{
    Nest nest;
    begin_if(pr, &nest, is_zero(pr, pr->thread));
    emit_by_each(pr, op);
    end_nest(pr, &nest);
}

// ---- atomics: one thread's

static bool begin_ordered(Printer *pr, Nest *nest)
{
    print_parts_through(pr, ACTION_BARRIER_SYNC);
    if (pr->lo->is_specialised && pr->lo->walk != 0) return false;
    begin_if(pr, nest, is_zero(pr, pr->thread));
    emit_call(pr, "fence_device", 0);
    return true;
}

static void end_ordered(Printer *pr, Nest *nest)
{
    emit_call(pr, "fence_device", 0);
    end_nest(pr, nest);
}

// One whose result every thread needs: one thread makes it and hands it out.
static void print_shared_atomic(Printer *pr, const TileOp *op)
{
    Var *const var = loop_var(pr, op->let.var);
    if (op->kind == T_LET) emit_definition(pr, var, NULL);
    Var *const cell = loop_new_pointer(pr->unit, var->type, "cell");
    emit_definition(pr, cell, shared_pointer(pr, var->type, i32_const(pr, pr->lo->scratch_offset)));
    Nest nest;
    if (begin_ordered(pr, &nest)) {
        Expr *const value = lower_as(pr, op->let.var->type, op->let.value, NULL);
        emit_element(pr, cell, i32_const(pr, 0), value);
        end_ordered(pr, &nest);
    }
    print_parts_through(pr, ACTION_BARRIER_SYNC);
    emit_assign(pr, var, expr_index(pr->arena, cell, i32_const(pr, 0)));
    print_parts_through(pr, ACTION_BARRIER_SYNC);
}

void print_atomic(Printer *pr, const Action *action)
{
    Nest nest;
    if (begin_ordered(pr, &nest)) {
        emit_by_each(pr, action->op);
        end_ordered(pr, &nest);
    }
    print_parts_through(pr, ACTION_BARRIER_SYNC);
}

static void print_let(Printer *pr, const TileOp *op)
{
    if (op->let.value && expr_has_atomic(op->let.value)) print_shared_atomic(pr, op);
    else print_value(pr, op);
}

void print_scalar(Printer *pr, const Action *action)
{
    TileOp *const op = (TileOp *)action->op;
    if (op->kind == T_LET || op->kind == T_SET) print_let(pr, op);
    else if (op->kind == T_PRINT) emit_print(pr, op, NULL);
    else if (op->kind == T_ASSERT) emit_assert(pr, op, NULL);
    else if (op->kind == T_EXTERN) emit_external(pr, op, NULL);
    else if (op->kind == T_STORE || op->update.buffer) emit_by_one(pr, op);
    else emit_by_each(pr, op);
}
