// SPDX-License-Identifier: MIT
// product_loop.c - a loop of nothing but accumulating products: they stay in flight over the back edge.
//
// What one step read is released when the next step's products have been issued. A tile that is zeros before the loop
// is overwritten by the first step instead of being filled: filling takes time in which no product is under way.
#include "lower/cuda/actions.h"

static const RingState *ring_state_of_body(const Lowering *lo, const TileOp *body)
{
    const RingState *ring_state = NULL;
    for (int i = 0; i < lo->ring_states.count; i++)
        if (lo->ring_states.items[i]->block == body) ring_state = lo->ring_states.items[i];
    return ring_state;
}

// In a loop whose end depends on what it computes ptxas serialises products that are in flight from step to step.
static bool is_inside_while(Lowering *lo, const TileOp *op)
{
    for (const TileOp *parent = op_info(lo, op)->parent; parent; parent = op_info(lo, parent)->parent)
        if (parent->kind == T_WHILE) return true;
    return false;
}

// A product that can stay in flight; the metadata of a sparse operand are in registers.
static bool may_stay_in_flight(Lowering *lo, TileOp *op)
{
    const OpInfo *const info = op_info(lo, op);
    return is_wgmma(lo, op) && !info->product->a_in_registers && !info->barrier_before && op->matmul.accumulate &&
           !op->matmul.promote && !op->matmul.meta && !is_split_k(lo, op);
}

int loop_products(Lowering *lo, TileOp *pipeline)
{
    const RingState *const ring_state = ring_state_of_body(lo, pipeline->pipeline.body);
    int n = 0;
    if (lo->is_specialised || is_inside_while(lo, pipeline) || !ring_state || ring_state->buffers < 2) return 0;
    for (TileOp *x = pipeline->pipeline.body; x; x = x->next) {
        if (op_info(lo, x)->fetched || x->kind == T_TILE || x->kind == T_LET) continue;
        if (!may_stay_in_flight(lo, x)) return 0;
        n++;
    }
    return n;
}

// ---- tiles that the first step overwrites

static Product *only_product_into(Lowering *lo, TileOp *body, const Buffer *tile)
{
    Product *only = NULL;
    for (TileOp *x = body; x; x = x->next)
        if (x->kind == T_MATMUL && x->matmul.dst.buffer == tile) {
            if (only) return NULL;
            only = op_info(lo, x)->product;
        }
    return only;
}

// Zeros before such a loop need not be made, but where the loop has no step.
bool starts_in_loop(Lowering *lo, const TileOp *fill)
{
    const Buffer *const tile = fill->fill.dst.buffer;
    TileOp *loop = fill->next;
    while (loop && (loop->kind == T_TILE || (loop->kind == T_FILL && loop->fill.dst.buffer != tile))) loop = loop->next;
    if (!expr_equal(fill->fill.value, zero_of(lo, fill->fill.value->type)) || !region_is_whole(&fill->fill.dst) ||
        !loop || loop->kind != T_PIPELINE || !loop_products(lo, loop))
        return false;
    Product *const product = only_product_into(lo, loop->pipeline.body, tile);
    if (product) product->starts_tile = true;
    return product;
}

static bool starts_tile(Lowering *lo, const TileOp *op)
{
    return op->kind == T_MATMUL && op_info(lo, op)->product->starts_tile;
}

// Before the loop: the first step is the one that no buffer is held from.
static void note_first_step(Lowering *lo, TileOp *body, Expr *is_held)
{
    for (TileOp *x = body; x; x = x->next)
        if (starts_tile(lo, x)) op_info(lo, x)->product->adds = is_held;
}

// After the loop, as the other branch of the release of what is held: without a step there is nothing to release.
static void clear_unstarted(Lowering *lo, TileOp *body, Nest *released)
{
    bool any = false;
    for (TileOp *x = body; x; x = x->next) {
        if (!starts_tile(lo, x)) continue;
        if (!any) begin_else(lo, released);
        any = true;
        const TileInfo *const tile = tile_info(lo, x->matmul.dst.buffer);
        emit_call(lo, arena_printf(lo->arena, "clear<%d>", layout_registers(&tile->layout)), 1,
                  var_of(lo, tile->registers));
    }
}

// ---- the loop

// The buffer that is held, if one is.
static void begin_release(Lowering *lo, Nest *released, const RingState *ring_state, Var *held, ScopeKind scope,
                          const TileOp *loop)
{
    lo->held_slot = held;
    begin_if(lo, released, i32_op(lo, X_GE, var_of(lo, held), 0));
    record_scope(lo, scope, loop);
    for (int i = 0; i < lo->rings.count; i++)
        if (lo->rings.items[i]->ring_state == ring_state) act_release(lo, lo->rings.items[i], SLOT_HELD);
    record_close(lo);
}

void emit_product_loop(Lowering *lo, TileOp *op, int n_products)
{
    TileOp *const body = op->pipeline.body;
    const RingState *const ring_state = ring_state_of_body(lo, body);
    wait_for_all(lo);
    Var *const held = emit_declare(lo, DTYPE_I32, "held", i32_const(lo, -1));
    note_first_step(lo, body, i32_op(lo, X_GE, var_of(lo, held), 0));
    Nest nests[LOOP_INDICES_MAX], released;
    begin_index_loops(lo, op->pipeline.indices, op->pipeline.n, nests);
    record_loop(lo, LOOP_ALL, op);
    emit_block(lo, body);
    const int n = lo->in_flight.count;
    const TileInfo **const accumulators = NEW_ARRAY(lo->arena, const TileInfo *, n + 1);
    for (int i = 0; i < n; i++) accumulators[i] = lo->in_flight.items[i].accumulator;
    lo->in_flight.count = 0; // in flight: waited for here and after the loop
    act_mma_wait(lo, n_products);
    begin_release(lo, &released, ring_state, held, SCOPE_BUT_FIRST, op);
    end_nest(lo, &released);
    emit_assign(lo, held, cast(lo, DTYPE_I32, var_of(lo, ring_state->slot)));
    advance_ring_states(lo, body, -1);
    record_close(lo);
    end_nests(lo, nests, op->pipeline.n);
    act_mma_wait(lo, 0);
    for (int i = 0; i < n; i++) act_register_fence(lo, accumulators[i]);
    begin_release(lo, &released, ring_state, held, SCOPE_ANY_STEP, op);
    clear_unstarted(lo, body, &released);
    end_nest(lo, &released);
}
