// SPDX-License-Identifier: MIT
// early_issue.c - deciding: pipelines with stage labels whose step begins with products that the step before issues at its end.
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
#include "lower/gpu/decide/pipeline/pipeline.h"
#include "lower/gpu/facts/box.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/decide/pipeline/store.h"
#include "lower/gpu/decide/mma/products.h"
#include "lower/gpu/decide/pipeline/ring_uses.h"
#include "lower/gpu/decide/pipeline/walk.h"
#include "lower/gpu/facts/info.h"

static bool is_early_product(Lowering *lo, const TileOp *op) { return op->stage == 0 && is_wgmma(lo, op); }

// The store is not in a branch for places that are aligned: products would be missing in the other.
static bool can_carry(Lowering *lo, TileOp *op)
{
    const bool is_staged = store_is_transposed(lo, op) || (op->kind == T_ATOMIC_TILE && store_is_staged(lo, op));
    return is_staged && !slice_is_aligned(lo, &op->copy.dst) && !op_info(lo, op)->window;
}

// The store after a step's last product: a group's whole tile, or boxes of warps, the last of which are staged by then.
static TileOp *carrier_of(Lowering *lo, TileOp *body)
{
    TileOp *last = NULL;
    for (TileOp *op = body; op; op = op->next)
        if (op->stage > 0 && is_wgmma(lo, op)) last = op;
    return last && last->next && can_carry(lo, last->next) ? last->next : NULL;
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

// ---- the loop

static void decide_early_products(Lowering *lo, TileOp *body)
{
    for (TileOp *op = body; op; op = op->next)
        if (is_early_product(lo, op)) decide_consumer_op(lo, op, body);
}

static const EarlyIssue *new_plan(Lowering *lo, const TileOp *pipeline)
{
    EarlyIssue *const plan = NEW(lo->arena, EarlyIssue, .form = STEPS_EARLY_ISSUE, .op = pipeline);
    for (int i = 0; i < lo->rings.count; i++)
        if (is_early_ring(lo, lo->rings.items[i], pipeline->pipeline.body))
            VEC_PUSH(lo->arena, &plan->rings, lo->rings.items[i]);
    return plan;
}

static void open_scope(Lowering *lo, const TileOp *pipeline, ScopeKind kind)
{
    open_action(lo, (Action){ .kind = ACTION_SCOPE,
                              .scope = { .kind = kind, .source = pipeline },
                              .print = new_plan(lo, pipeline) });
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

void decide_early_issue(Lowering *lo)
{
    TileOp *const pipeline = lo->early_issue;
    if (!pipeline) return;
    lo->early_issue = NULL;
    open_scope(lo, pipeline, SCOPE_NEXT_STEP);
    decide_early_products(lo, pipeline->pipeline.body);
    close_action(lo);
    release_with_early_products(lo, pipeline->pipeline.body);
}

void decide_early_issue_loop(Lowering *lo, TileOp *pipeline)
{
    TileOp *const body = pipeline->pipeline.body, *const carrier = carrier_of(lo, body);
    wait_for_all(lo);
    open_scope(lo, pipeline, SCOPE_ANY_STEP);
    decide_early_products(lo, body);
    wait_for_all(lo);
    close_action(lo);

    open_action(lo, (Action){ .kind = ACTION_LOOP,
                              .op = pipeline,
                              .loop = { .part = LOOP_ALL, .source = pipeline },
                              .print = new_plan(lo, pipeline) });
    hold_rings(lo, body);
    for (TileOp *op = body; op; op = op->next) {
        if (op == carrier) lo->early_issue = pipeline;
        if (!is_early_product(lo, op)) decide_consumer_op(lo, op, body);
    }
    wait_for_all(lo);
    advance_ring_states(lo, body, -1);
    close_action(lo);
}
