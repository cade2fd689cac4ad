// SPDX-License-Identifier: MIT
// ring_uses.c - when the roles advance and release rings; print_rings.c has the mbarriers.
//
// A buffer is full when all threads that fill it have arrived and all announced bytes are there; it is empty when one
// lane of each warp that uses it has arrived. The rings advance at the end of every pass through the block that
// declares their tiles, in the consumers' walk and in the producer's.
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/decide/pipeline/ring_uses.h"
#include "lower/gpu/facts/info.h"

// ---- who uses a ring

typedef struct ReadScan {
    Lowering *lo;
    const Ring *ring;
    const TileOp *op;
    bool other, loads;
} ReadScan;

// Within a loop, which may have no step, a product keeps no warp together; the metadata of a sparse operand lanes read.
static bool is_held_product(Lowering *lo, const TileOp *op, const Ring *ring)
{
    return is_wgmma(lo, op) && op_info(lo, op)->block == ring->ring_state->block;
}

static void scan_read(const TileUse *use, void *context)
{
    ReadScan *const scan = context;
    const TileInfo *const tile = tile_info(scan->lo, buffer_root(use->buffer));
    if (!tile || tile->ring != scan->ring) return;
    const bool is_meta = scan->op->kind == T_MATMUL && use->buffer == scan->op->matmul.meta;
    scan->other |= !is_held_product(scan->lo, scan->op, scan->ring) || is_meta;
    scan->loads |= use->reads && (!is_wgmma(scan->lo, scan->op) || is_meta);
}

static bool scan_op(Lowering *lo, TileOp *op, void *context)
{
    ReadScan *const scan = context;
    scan->op = op;
    if (op->kind != T_TILE && !op_info(lo, op)->fetched) tile_uses(op, scan_read, scan);
    return false;
}

// after: is_product_only and is_loaded are right
void find_product_only(Lowering *lo)
{
    for (int i = 0; i < lo->rings.count; i++) {
        Ring *const ring = lo->rings.items[i];
        ReadScan scan = { .lo = lo, .ring = ring };
        each_op(lo, lo->kernel->body, scan_op, &scan);
        ring->is_product_only = !scan.other;
        ring->is_loaded = scan.loads;
    }
}

const TileOp *first_use(const Lowering *lo, const Ring *ring)
{
    return lo->is_specialised ? ring->first_of[lo->walk] : ring->first_use;
}

const TileOp *last_use(const Lowering *lo, const Ring *ring)
{
    return lo->is_specialised ? ring->last_of[lo->walk] : ring->last_use;
}

// What stays through a pipeline (the queries of attention) is released by its last step, after the product that
// reads it last: the next is fetched under the rest of that step. The product; NULL: released after its last use.
const TileOp *release_within(const Lowering *lo, const Ring *ring)
{
    const TileOp *const product = lo->is_specialised && !ring->is_released ? ring->done_in[lo->walk] : NULL;
    return product && is_wgmma((Lowering *)lo, product) ? product : NULL;
}

// ---- advancing, releasing

static void advance(Lowering *lo, const RingState *ring_state)
{
    for (int i = 0; i < lo->rings.count; i++)
        if (lo->rings.items[i]->ring_state == ring_state) act_on_ring(lo, ACTION_ADVANCE, lo->rings.items[i], 0);
}

void advance_ring_states(Lowering *lo, TileOp *block, int stage)
{
    for (int i = 0; i < lo->ring_states.count; i++) {
        const RingState *const ring_state = lo->ring_states.items[i];
        if (ring_state->block != block || (stage >= 0 && ring_state->stage != stage)) continue;
        advance(lo, ring_state);
    }
}

// The other lanes of the warp must be done, too, if they read by ordinary loads; and have seen the buffer full, where
// the products that would hold them together stand in a loop or under a condition. ptxas lets the arrival overtake loads,
// and a box of zeros lands within their latency: a fence stands between. What threads fill again comes after their loads,
// but not what another CTA's copies do.
void decide_release(Lowering *lo, const Ring *ring)
{
    const bool by_threads = ring->by_lanes || (ring->is_filled && !ring->is_shared) || ring->is_consumer_ring;
    if (ring->is_loaded && !by_threads) act_plain(lo, ACTION_FENCE_ASYNC);
    if (!ring->is_product_only || last_use(lo, ring)->kind != T_MATMUL) act_plain(lo, ACTION_WARP_SYNC);
    act_release(lo, ring, SLOT_CURRENT);
}

// Of a ring that is released within a pipeline: in its last step, or after it, if it had none.
void decide_last_release(Lowering *lo, const Ring *ring, bool within)
{
    open_action(
        lo, (Action){ .kind = ACTION_SCOPE,
                      .scope = { .kind = within ? SCOPE_LAST_STEP : SCOPE_NO_STEP, .source = last_use(lo, ring) } });
    decide_release(lo, ring);
    close_action(lo);
}
