// SPDX-License-Identifier: MIT
// product_loop.c - deciding: a loop of nothing but accumulating products: they stay in flight over the back edge.
//
// What one step read is released when the next step's products have been issued. A tile that is zeros before the loop
// is overwritten by the first step instead of being filled: filling takes time in which no product is under way.
#include "lower/gpu/decide/pipeline/pipeline.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/decide/pipeline/ring_uses.h"
#include "lower/gpu/decide/pipeline/walk.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/values.h"

// Of all its rings; NULL: there are none, or stages that advance apart.
static const RingState *ring_state_of_body(const Lowering *lo, const TileOp *body)
{
    const RingState *ring_state = NULL;
    for (int i = 0; i < lo->ring_states.count; i++) {
        if (lo->ring_states.items[i]->block != body) continue;
        if (ring_state) return NULL;
        ring_state = lo->ring_states.items[i];
    }
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
    while (loop &&
           (loop->kind == T_TILE || loop->kind == T_LET || (loop->kind == T_FILL && loop->fill.dst.buffer != tile)))
        loop = loop->next;
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

// ---- the loop

static const ProductLoop *new_plan(Lowering *lo, const TileOp *op)
{
    TileOp *const body = op->pipeline.body;
    ProductLoop *const plan =
        NEW(lo->arena, ProductLoop, .form = STEPS_PRODUCT_LOOP, .op = op, .ring_state = ring_state_of_body(lo, body));
    for (TileOp *x = body; x; x = x->next)
        if (starts_tile(lo, x)) VEC_PUSH(lo->arena, &plan->starting, op_info(lo, x)->product);
    return plan;
}

// The slot that the step before used, if there was one.
static void act_held_release(Lowering *lo, const ProductLoop *plan, ScopeKind kind)
{
    open_action(lo, (Action){ .kind = ACTION_SCOPE, .scope = { .kind = kind, .source = plan->op }, .print = plan });
    for (int i = 0; i < lo->rings.count; i++)
        if (lo->rings.items[i]->ring_state == plan->ring_state) act_release(lo, lo->rings.items[i], SLOT_HELD);
    close_action(lo);
}

void decide_product_loop(Lowering *lo, TileOp *op, int n_products)
{
    const ProductLoop *const plan = new_plan(lo, op);
    wait_for_all(lo);
    open_action(lo,
                (Action){ .kind = ACTION_LOOP, .op = op, .loop = { .part = LOOP_ALL, .source = op }, .print = plan });
    decide_block(lo, op->pipeline.body);
    const int n = lo->in_flight.count;
    const TileInfo **const accumulators = NEW_ARRAY(lo->arena, const TileInfo *, n + 1);
    for (int i = 0; i < n; i++) accumulators[i] = lo->in_flight.items[i].accumulator;
    lo->in_flight.count = 0; // in flight: waited for here and after the loop
    act_mma_wait(lo, n_products);
    act_held_release(lo, plan, SCOPE_BUT_FIRST);
    advance_ring_states(lo, op->pipeline.body, -1);
    close_action(lo);
    act_mma_wait(lo, 0);
    for (int i = 0; i < n; i++) act_register_fence(lo, accumulators[i]);
    act_held_release(lo, plan, SCOPE_ANY_STEP);
}
