// SPDX-License-Identifier: MIT
// print_statements.c - Loop IR for the loops and jumps of the source, and for what stands around them.
//
// before: statements.c or the producer's walk has decided that the loop stays as the source has it
// after:  its nests are open until end_loop()
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

void begin_index_loops(Lowering *lo, const LoopIndex *indices, int n, Nest *nests)
{
    for (int i = 0; i < n; i++) begin_index_loop(lo, &nests[i], &indices[i], LOOP_NO_UNROLL, NULL);
}

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
