// SPDX-License-Identifier: MIT
// early_issue.c - pipelines with stage labels whose step begins with products that the step before issues at its end.
//
//     stage 0 of the first step
//     for the steps: stage 1; in it, when its last product's result is stored and before that goes on to its tensor,
//                    stage 0 of the next step
//
// Stage 0 is nothing but products of tiles that are fetched, or stay the same, into fragments that stage 1 only reads.
// What is after the stores (a fence, a barrier, a reduction) takes its time under them, and the next step begins with
// their results. Before the stores they would be issued too early: `wgmma` that the tensor cores have no place for
// keeps the warp. ptxas serialises what is issued under a condition: so the last step issues them, too, of its own
// tiles.
#include "lower/cuda/actions.h"

static bool is_early_product(Lowering *lo, const TileOp *op) { return op->stage == 0 && is_wgmma(lo, op); }

// The store after a step's last product.
static TileOp *carrier_of(Lowering *lo, TileOp *body)
{
    TileOp *last = NULL;
    for (TileOp *op = body; op; op = op->next)
        if (op->stage > 0 && is_wgmma(lo, op)) last = op;
    return last && last->next && store_is_transposed(lo, last->next) ? last->next : NULL;
}

// Is an early product's result the step's own, and no longer read when it is made again?
static bool is_free_in_time(Lowering *lo, TileOp *body, const Buffer *result)
{
    if (op_info(lo, tile_info(lo, result)->declared)->block != body || has_jumps(lo, body)) return false;
    const int carrier = op_info(lo, carrier_of(lo, body))->order;
    for (TileOp *op = body; op; op = op->next) {
        const RootUses uses = root_uses(lo, op, result);
        if (op->kind != T_TILE &&
            ((!is_early_product(lo, op) && uses.writes) || (uses.reads && op_info(lo, op)->order >= carrier)))
            return false;
    }
    return true;
}

static bool bounds_are_apart(const TileOp *pipeline)
{
    const LoopIndex *const indices = pipeline->pipeline.indices;
    for (int i = 0; i < pipeline->pipeline.n; i++)
        for (int j = 0; j < i; j++)
            if (expr_uses(indices[i].lo, indices[j].var) || expr_uses(indices[i].hi, indices[j].var)) return false;
    return true;
}

static bool is_plain_early_product(Lowering *lo, TileOp *op, TileOp *body)
{
    const Product *const p = op_info(lo, op)->product;
    return is_early_product(lo, op) && !op->matmul.meta && !p->a_in_registers && !is_split_k(lo, op) &&
           product_is_fixed(p) && tile_info(lo, p->left.region.buffer)->ring &&
           tile_info(lo, p->right.region.buffer)->ring && is_free_in_time(lo, body, op->matmul.dst.buffer);
}

static bool is_early_ring(Lowering *lo, const Ring *ring, const TileOp *body)
{
    return ring->ring_state->block == body && is_early_product(lo, ring->first_use);
}

// It is released when the next step's early products are done: read by this step's stage 1, and not after its stores.
static bool is_held_ring(Lowering *lo, const Ring *ring, const TileOp *carrier)
{
    return ring->ring_state->buffers > 1 && ring->is_plain && !is_early_product(lo, ring->last_use) &&
           op_info(lo, ring->last_use)->order < op_info(lo, carrier)->order;
}

bool can_issue_early(Lowering *lo, TileOp *pipeline)
{
    TileOp *const body = pipeline->pipeline.body;
    int early_products = 0, held = 0;
    if (pipeline->pipeline.n_stage_labels != 2 || !gpu_has_mma_in_flight(lo->gpu) || lo->is_specialised ||
        lo->kernel->checked || !lo->has_producer || !bounds_are_apart(pipeline) || !carrier_of(lo, body))
        return false;
    for (TileOp *op = body; op; op = op->next) {
        if (op->stage > 0 || op->kind == T_TILE || op->kind == T_LET || op_info(lo, op)->fetched) continue;
        if (op->kind != T_MATMUL || !is_plain_early_product(lo, op, body)) return false;
        early_products++;
    }
    for (int i = 0; i < lo->rings.count; i++) {
        const Ring *const ring = lo->rings.items[i];
        if (!is_early_ring(lo, ring, body)) continue;
        if (!is_held_ring(lo, ring, carrier_of(lo, body))) return false;
        held++;
    }
    return early_products > 0 && held <= COUNT(((MmaInFlight *)NULL)->releases);
}

// ---- printing

static void emit_early_products(Lowering *lo, TileOp *body)
{
    for (TileOp *op = body; op; op = op->next)
        if (is_early_product(lo, op)) emit_consumer_op(lo, op, body);
}

// Is there a step; is there one after this?
static Expr *has_step(Lowering *lo, const TileOp *pipeline, bool after)
{
    Arena *const a = lo->arena;
    Expr *all = NULL;
    for (int i = 0; i < pipeline->pipeline.n; i++) {
        const LoopIndex *const index = &pipeline->pipeline.indices[i];
        Expr *from, *to;
        index_bounds(lo, index, NULL, &from, &to);
        if (after) from = expr_binary(a, X_ADD, var_of(lo, loop_var(lo, index->var)), expr_int(a, from->type, 1));
        Expr *const one = expr_binary(a, X_LT, from, to);
        all = all ? expr_binary(a, after ? X_OR : X_AND, all, one) : one;
    }
    return all;
}

// Early products may read what this step holds until they are done.
static void release_with_early_products(Lowering *lo, TileOp *body)
{
    MmaInFlight *const last = &lo->in_flight.items[lo->in_flight.count - 1];
    for (int i = 0; i < lo->rings.count; i++) {
        Ring *const ring = lo->rings.items[i];
        if (!is_early_ring(lo, ring, body)) continue;
        ring->is_released = false;
        last->releases[last->n_releases++] = ring;
    }
}

static void hold_rings(Lowering *lo, TileOp *body)
{
    for (int i = 0; i < lo->rings.count; i++)
        if (is_early_ring(lo, lo->rings.items[i], body)) lo->rings.items[i]->is_released = true;
}

// Where the next step's buffers are; after the last step, this one's.
static void step_ring_state(Lowering *lo, RingState *ring_state, Expr *more)
{
    Arena *const a = lo->arena;
    Expr *const slot = var_of(lo, ring_state->slot), *const phase = var_of(lo, ring_state->phase);
    Expr *const wraps = expr_binary(a, X_EQ, slot, u32_const(lo, ring_state->buffers - 1));
    Expr *const next = expr_select(a, wraps, u32_const(lo, 0), expr_binary(a, X_ADD, slot, u32_const(lo, 1)));
    Expr *const next_phase = expr_select(a, expr_binary(a, X_AND, more, wraps), other_phase(lo, ring_state), phase);
    ring_state->phase = emit_declare(lo, DTYPE_U32, "phase_next", next_phase);
    ring_state->slot = emit_declare(lo, DTYPE_U32, "slot_next", expr_select(a, more, next, slot));
}

void emit_early_issue(Lowering *lo)
{
    TileOp *const pipeline = lo->early_issue, *const body = pipeline ? pipeline->pipeline.body : NULL;
    Var **const pointers = NEW_ARRAY(lo->arena, Var *, lo->n_declared + 1);
    RingState *const ring_states = NEW_ARRAY(lo->arena, RingState, lo->ring_states.count + 1);
    if (!pipeline) return;
    lo->early_issue = NULL;
    Expr *const more = var_of(lo, emit_declare(lo, DTYPE_BOOL, "more", has_step(lo, pipeline, true)));
    for (int i = 0; i < lo->ring_states.count; i++) {
        ring_states[i] = *lo->ring_states.items[i];
        if (ring_states[i].block == body && ring_states[i].stage == 0)
            step_ring_state(lo, lo->ring_states.items[i], more);
    }
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        pointers[i] = tile->pointer;
        if (!tile->ring || !is_early_ring(lo, tile->ring, body)) continue;
        tile->pointer =
            loop_new_pointer(lo->unit, tile->pointer->type, arena_printf(lo->arena, "%s_next", tile->buffer->name));
        emit_definition(lo, tile->pointer, NULL);
    }
    record_scope(lo, SCOPE_NEXT_STEP, pipeline);
    emit_early_products(lo, body);
    record_close(lo);
    for (int i = 0; i < lo->ring_states.count; i++) *lo->ring_states.items[i] = ring_states[i];
    for (int i = 0; i < lo->n_declared; i++) lo->declared.items[i]->pointer = pointers[i];
    release_with_early_products(lo, body);
}

void emit_early_issue_loop(Lowering *lo, TileOp *pipeline)
{
    TileOp *const body = pipeline->pipeline.body, *const carrier = carrier_of(lo, body);
    Nest any, nests[LOOP_INDICES_MAX];
    wait_for_all(lo);
    begin_if(lo, &any, has_step(lo, pipeline, false));
    record_scope(lo, SCOPE_ANY_STEP, pipeline);
    emit_early_products(lo, body);
    wait_for_all(lo);
    record_close(lo);
    end_nest(lo, &any);

    begin_index_loops(lo, pipeline->pipeline.indices, pipeline->pipeline.n, nests);
    record_loop(lo, LOOP_ALL, pipeline);
    hold_rings(lo, body);
    for (TileOp *op = body; op; op = op->next) {
        if (op == carrier) lo->early_issue = pipeline;
        if (!is_early_product(lo, op)) emit_consumer_op(lo, op, body);
    }
    wait_for_all(lo);
    advance_ring_states(lo, body, -1);
    record_close(lo);
    for (int i = 0; i < lo->rings.count; i++)
        if (is_early_ring(lo, lo->rings.items[i], body)) point_tiles(lo, lo->rings.items[i]);
    end_nests(lo, nests, pipeline->pipeline.n);
}
