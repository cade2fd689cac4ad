// SPDX-License-Identifier: MIT
// statements.c - the code of each statement, as all threads of a group of consumers run it.
#include "lower/cuda/actions.h"
#include "lower/cuda/map.h"
#include "lower/cuda/product.h"
#include "lower/cuda/scan.h"

bool is_flow(const TileOp *op)
{
    return op->kind == T_FOR || op->kind == T_WHILE || op->kind == T_PIPELINE || op->kind == T_IF;
}

// ---- scalars

void declare_value(Lowering *lo, const TileOp *op)
{
    Var *const var = loop_var(lo, op->let.var);
    Expr *const value = let_value(lo, op, NULL);
    emit_definition(lo, var, value);
}

// Of a let or a set.
void print_value(Lowering *lo, const TileOp *op)
{
    if (op->kind == T_LET) declare_value(lo, op);
    else emit_assign(lo, loop_var(lo, op->let.var), lower_as(lo, op->let.var->type, op->let.value, NULL));
}

// A statement outside forall, by each thread that comes by.
static void emit_by_each(Lowering *lo, TileOp *op)
{
    Iteration none = own_iteration();
    emit_thread_op(lo, op, &none);
}

// One thread's store, seen by all after the next barrier.
static void emit_by_one(Lowering *lo, TileOp *op)
{
    Nest nest;
    begin_if(lo, &nest, is_zero(lo, lo->thread));
    emit_by_each(lo, op);
    end_nest(lo, &nest);
}

// ---- atomics: after everything before them, before everything after

static bool begin_ordered(Lowering *lo, Nest *nest)
{
    finish_staged_stores(lo);
    sync_all(lo);
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
static void emit_shared_atomic(Lowering *lo, TileOp *op)
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
    sync_all(lo);
    emit_assign(lo, var, expr_index(lo->arena, cell, i32_const(lo, 0)));
    sync_all(lo);
}

static void emit_ordered_atomic(Lowering *lo, TileOp *op)
{
    Nest nest;
    if (begin_ordered(lo, &nest)) {
        emit_by_each(lo, op);
        end_ordered(lo, &nest);
    }
    sync_all(lo);
}

// ---- loops and conditions

// Before Hopper the same threads copy, compute addresses for ldmatrix and hold accumulators: no step keeps addresses
// for the next.
void emit_body(Lowering *lo, TileOp *body)
{
    if (!lo->gpu->tma && has_products(lo, body)) {
        act_declare(lo, DECLARE_THREADS);
        act_declare(lo, DECLARE_COORDINATES);
    }
    emit_block(lo, body);
    wait_for_all(lo);
    advance_ring_states(lo, body, -1);
}

static void emit_steps(Lowering *lo, TileOp *op)
{
    if (can_software_pipeline(lo, op)) {
        decide_software_pipeline(lo, op);
        return;
    }
    if (can_issue_early(lo, op)) {
        decide_early_issue_loop(lo, op);
        return;
    }
    if (op_info(lo, op)->multistage) {
        emit_multistage(lo, op);
        return;
    }
    open_loop(lo, LOOP_ALL, op);
    emit_body(lo, op->pipeline.body);
    close_action(lo);
}

static void emit_pipeline(Lowering *lo, TileOp *op)
{
    const int n_products = loop_products(lo, op);
    if (n_products) {
        decide_product_loop(lo, op, n_products);
        return;
    }
    begin_partial_sums(lo, op);
    if (lo->is_specialised && unequal_registers(lo, lo->walk)) act_declare(lo, DECLARE_THREADS);
    preload_operands(lo, op);
    emit_steps(lo, op);
    end_partial_sums(lo, op);
}

static void emit_for(Lowering *lo, TileOp *op)
{
    begin_partial_sums(lo, op);
    open_loop(lo, LOOP_ALL, op);
    emit_body(lo, op->for_.body);
    close_action(lo);
    end_partial_sums(lo, op);
}

static void emit_while(Lowering *lo, TileOp *op)
{
    open_loop(lo, LOOP_ALL, op);
    emit_body(lo, op->while_.body);
    act_declare(lo, DECLARE_OUTER);
    emit_block(lo, op->while_.step);
    close_action(lo);
}

static void emit_branch(Lowering *lo, TileOp *block)
{
    const int in_flight = lo->in_flight.count;
    emit_block(lo, block);
    wait_for_copies(lo);
    if (lo->in_flight.count != in_flight) wait_for_all(lo);
    advance_ring_states(lo, block, -1);
}

static void emit_if(Lowering *lo, TileOp *op)
{
    open_action(lo, (Action){ .kind = ACTION_IF, .op = op, .branch = { .source = op, .is_uniform = true } });
    emit_branch(lo, op->branch.then);
    if (op->branch.otherwise) {
        otherwise_action(lo);
        emit_branch(lo, op->branch.otherwise);
    }
    close_action(lo);
}

static void act_jump(Lowering *lo, const TileOp *op)
{
    act(lo, (Action){ .kind = ACTION_JUMP, .op = op, .jump = { op->kind } });
}

// Where structure.c found no `if` to say it with: only instances that are a whole CTA may leave.
static void emit_return(Lowering *lo, TileOp *op)
{
    if (lo->is_persistent) {
        unsupported(lo, op->span, "a return at this place");
        return;
    }
    wait_for_all(lo);
    end_stores(lo);
    act_jump(lo, op);
}

void emit_op(Lowering *lo, TileOp *op)
{
    if (op->kind != T_MATMUL) record_op(lo, op);
    switch (op->kind) {
    case T_TILE:
        switch_buffer(lo, tile_info(lo, op->tile.buffer));
        clear_shadow(lo, tile_info(lo, op->tile.buffer));
        return;
    case T_LET:
    case T_SET:
        if (op->let.value && expr_has_atomic(op->let.value)) emit_shared_atomic(lo, op);
        else if (op->kind == T_LET) declare_value(lo, op);
        else emit_assign(lo, loop_var(lo, op->let.var), lower_as(lo, op->let.var->type, op->let.value, NULL));
        return;
    case T_UPDATE:
        if (op->update.buffer) emit_by_one(lo, op);
        else emit_by_each(lo, op);
        return;
    case T_STORE: emit_by_one(lo, op); return;
    case T_ATOMIC: emit_ordered_atomic(lo, op); return;
    case T_FORALL:
    case T_COPY:
    case T_FILL:
    case T_ATOMIC_TILE: act_elementwise(lo, op); return;
    case T_MATMUL: decide_product(lo, op); return;
    case T_SCAN: act_scan(lo, op); return;
    case T_FOR: emit_for(lo, op); return;
    case T_WHILE: emit_while(lo, op); return;
    case T_PIPELINE:
        emit_pipeline(lo, op);
        if (lo->is_specialised || !lo->gpu->tma) act_declare(lo, DECLARE_THREADS);
        return;
    case T_IF: emit_if(lo, op); return;
    case T_BREAK:
    case T_CONTINUE: act_jump(lo, op); return;
    case T_RETURN: emit_return(lo, op); return;
    case T_PRINT: emit_print(lo, op, NULL); return;
    case T_ASSERT: emit_assert(lo, op, NULL); return;
    case T_EXTERN: emit_external(lo, op, NULL); return;
    }
}
