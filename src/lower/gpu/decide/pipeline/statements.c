// SPDX-License-Identifier: MIT
// statements.c - what the consumers do for each statement, as actions.
//
// before: a role of consumers is open, and what stands around the statement is decided (consumer.c)
// after:  its actions are added; print_statements.c prints those that have no form of their own
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/facts/checked.h"
#include "lower/gpu/decide/pipeline/multistage.h"
#include "lower/gpu/decide/pipeline/map.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/facts/registers.h"
#include "lower/gpu/decide/layout/scan.h"
#include "lower/gpu/decide/pipeline/pipeline.h"
#include "lower/gpu/decide/pipeline/store.h"
#include "lower/gpu/decide/mma/products.h"
#include "lower/gpu/decide/pipeline/ring_uses.h"
#include "lower/gpu/decide/copy/rows.h"
#include "lower/gpu/decide/pipeline/walk.h"
#include "lower/gpu/facts/info.h"

// ---- scalars and atomics

static void act_scalar(Lowering *lo, TileOp *op) { act_op(lo, op, (Action){ .kind = ACTION_SCALAR }); }

// After everything before it, before everything after. One whose result every thread needs is handed out in shared
// memory, and the next may not overwrite it.
static void decide_atomic(Lowering *lo, TileOp *op, ActionKind kind)
{
    refuse_packed_views(lo, op);
    record_accesses(lo, open_action(lo, (Action){ .kind = kind, .op = op }), op);
    finish_staged_stores(lo);
    act_sync_all(lo);
    act_sync_all(lo);
    if (kind == ACTION_SCALAR) act_sync_all(lo);
    close_action(lo);
}

static void decide_value(Lowering *lo, TileOp *op)
{
    if (op->let.value && expr_has_atomic(op->let.value)) decide_atomic(lo, op, ACTION_SCALAR);
    else act_scalar(lo, op);
}

// As this pass through its block begins to fill it.
static void decide_tile(Lowering *lo, TileOp *op)
{
    const TileInfo *const tile = tile_info(lo, op->tile.buffer);
    const bool is_shared = tile->storage == TILE_IN_SHARED;
    if (tile->alternates)
        act(lo, (Action){ .kind = ACTION_ADVANCE, .ring = { .ring = NO_RING, .tile = tile->number } });
    if (!has_shadow(lo, tile)) return;
    if (is_shared) act_sync(lo); // of the step before, some may still read
    act(lo, (Action){ .kind = ACTION_DECLARE, .op = op, .declare = { .what = DECLARE_UNWRITTEN } });
    if (is_shared) act_sync(lo);
}

// ---- loops and conditions

// A block that may not run: its own copies are waited for in it, and a wait in it is none for those before it.
static void decide_apart(Lowering *lo, TileOp *block)
{
    const bool before = lo->copies_in_flight;
    decide_block(lo, block);
    wait_for_copies(lo);
    lo->copies_in_flight = before;
}

// Before Hopper the same threads copy, compute addresses for ldmatrix and hold accumulators: no step keeps addresses
// for the next.
void decide_body(Lowering *lo, TileOp *body)
{
    if (!lo->gpu->tma && has_products(lo, body)) {
        act_declare(lo, DECLARE_THREADS);
        act_declare(lo, DECLARE_COORDINATES);
    }
    const int in_flight = lo->in_flight.count;
    decide_apart(lo, body);
    if (lo->in_flight.count != in_flight) wait_for_all(lo); // what was issued before the loop is waited for after it
    advance_ring_states(lo, body, -1);
}

static void decide_steps(Lowering *lo, TileOp *op)
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
        decide_multistage(lo, op);
        return;
    }
    open_loop(lo, LOOP_ALL, op);
    decide_body(lo, op->pipeline.body);
    close_action(lo);
}

static void decide_pipeline(Lowering *lo, TileOp *op)
{
    const int n_products = loop_products(lo, op);
    if (n_products) {
        decide_product_loop(lo, op, n_products);
        return;
    }
    open_partial_sums(lo, op);
    if (lo->is_specialised && unequal_registers(lo, lo->walk)) act_declare(lo, DECLARE_THREADS);
    act_preloads(lo, op);
    decide_steps(lo, op);
    close_partial_sums(lo, op);
}

static void decide_for(Lowering *lo, TileOp *op)
{
    open_partial_sums(lo, op);
    open_loop(lo, LOOP_ALL, op);
    if (lo->has_register_prefetch && lo->is_specialised) // what a step makes of thread numbers is not kept for the next
        act_declare(lo, DECLARE_THREADS);
    decide_body(lo, op->for_.body);
    close_action(lo);
    close_partial_sums(lo, op);
}

static void decide_while(Lowering *lo, TileOp *op)
{
    open_loop(lo, LOOP_ALL, op);
    decide_body(lo, op->while_.body);
    act_declare(lo, DECLARE_OUTER);
    decide_block(lo, op->while_.step);
    close_action(lo);
}

static void decide_branch(Lowering *lo, TileOp *block)
{
    const int in_flight = lo->in_flight.count;
    decide_apart(lo, block);
    if (lo->in_flight.count != in_flight) wait_for_all(lo);
    advance_ring_states(lo, block, -1);
}

static void decide_if(Lowering *lo, TileOp *op)
{
    open_action(lo, (Action){ .kind = ACTION_IF, .op = op, .branch = { .source = op, .is_uniform = true } });
    decide_branch(lo, op->branch.then);
    if (op->branch.otherwise) {
        otherwise_action(lo);
        decide_branch(lo, op->branch.otherwise);
    }
    close_action(lo);
}

static void act_jump(Lowering *lo, const TileOp *op)
{
    act(lo, (Action){ .kind = ACTION_JUMP, .op = op, .jump = { op->kind } });
}

// Where structure.c found no `if` to say it with: only instances that are a whole CTA may leave.
static void decide_return(Lowering *lo, TileOp *op)
{
    if (lo->is_persistent) {
        unsupported(lo, op->span, "a return at this place");
        return;
    }
    wait_for_all(lo);
    end_stores(lo);
    act_jump(lo, op);
}

void decide_op(Lowering *lo, TileOp *op)
{
    switch (op->kind) {
    case T_TILE: decide_tile(lo, op); return;
    case T_LET:
    case T_SET: decide_value(lo, op); return;
    case T_UPDATE:
    case T_STORE:
    case T_PRINT:
    case T_ASSERT:
    case T_EXTERN: act_scalar(lo, op); return;
    case T_ATOMIC: decide_atomic(lo, op, ACTION_ATOMIC); return;
    case T_FORALL:
    case T_COPY:
    case T_FILL:
    case T_ATOMIC_TILE:
        act_elementwise(lo, op);
        if (op->kind != T_FILL) cover_in_flight(lo, op);
        return;
    case T_MATMUL: decide_product(lo, op); return;
    case T_SCAN: act_scan(lo, op); return;
    case T_FOR: decide_for(lo, op); return;
    case T_WHILE: decide_while(lo, op); return;
    case T_PIPELINE:
        decide_pipeline(lo, op);
        if (lo->is_specialised || !lo->gpu->tma) act_declare(lo, DECLARE_THREADS);
        return;
    case T_IF: decide_if(lo, op); return;
    case T_BREAK:
    case T_CONTINUE: act_jump(lo, op); return;
    case T_RETURN: decide_return(lo, op); return;
    }
}
