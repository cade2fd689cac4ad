// SPDX-License-Identifier: MIT
// rings.c - the mbarriers of the rings, as both roles see them.
//
// A buffer is full when all threads that fill it have arrived and all announced bytes are there; it is empty when one
// lane of each warp that uses it has arrived. The rings advance at the end of every pass through the block that
// declares their tiles, in the consumers' walk and in the producer's.
#include "lower/cuda/actions.h"

// ---- who uses a ring

typedef struct ReadScan {
    Lowering *lo;
    const Ring *ring;
    const TileOp *op;
    bool other;
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
    scan->other |= !is_held_product(scan->lo, scan->op, scan->ring) || use->buffer == scan->op->matmul.meta;
}

static bool scan_op(Lowering *lo, TileOp *op, void *context)
{
    ReadScan *const scan = context;
    scan->op = op;
    if (op->kind != T_TILE && !op_info(lo, op)->fetched) tile_uses(op, scan_read, scan);
    return false;
}

// after: is_product_only is right
void find_product_only(Lowering *lo)
{
    for (int i = 0; i < lo->rings.count; i++) {
        Ring *const ring = lo->rings.items[i];
        ReadScan scan = { .lo = lo, .ring = ring };
        each_op(lo, lo->kernel->body, scan_op, &scan);
        ring->is_product_only = !scan.other;
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

// Groups that release a ring's buffers.
static int user_groups(const Lowering *lo, const Ring *ring)
{
    int n = 0;
    for (int g = 0; g < lo->all.groups; g++) n += ring->first_of[g] != NULL;
    return lo->is_specialised ? n : lo->all.groups;
}

// ---- making the barriers

// Arrivals that fill a buffer: every lane of a warp, each of a producer group's warps, or the announcement of bytes
// alone.
int ring_full_count(const Ring *ring)
{
    if (ring->is_gathered) return WARPGROUP_THREADS;
    if (ring->is_filled || ring->is_consumer_ring)
        return WARPGROUP_THREADS / WARP_LANES + (ring->has_gathers ? WARPGROUP_THREADS : 0);
    return ring->by_lanes ? WARP_LANES : 1;
}

// Without boxes one thread speaks for all that copied by lanes.
static Expr *full_count(Lowering *lo, const Ring *ring)
{
    Expr *const count = i32_const(lo, ring_full_count(ring)), *const one = i32_const(lo, 1);
    const bool by_lanes = ring->by_lanes && !ring->is_gathered && !ring->is_filled && !ring->is_consumer_ring;
    return by_lanes && lo->fetch_aligned ? expr_select(lo->arena, lo->fetch_aligned, count, one) : count;
}

int ring_empty_count(const Lowering *lo, const Ring *ring)
{
    return user_groups(lo, ring) * lo->partition.warps * (ring->is_shared ? lo->cluster : 1);
}

void init_barriers(Lowering *lo)
{
    Nest nest;
    begin_if(lo, &nest, literal(lo, DTYPE_BOOL, "threadIdx.x == 0"));
    for (int i = 0; i < lo->rings.count; i++) {
        const Ring *const ring = lo->rings.items[i];
        const int users = ring_empty_count(lo, ring);
        for (int at = 0; at < ring->ring_state->buffers * MBARRIER_BYTES; at += MBARRIER_BYTES) {
            emit_call(lo, "mbar_init", 2, shared_address(lo, ring->full + at), full_count(lo, ring));
            emit_call(lo, "mbar_init", 2, shared_address(lo, ring->empty + at), i32_const(lo, users));
        }
    }
    emit_call(lo, "mbar_init_done", 0);
    end_nest(lo, &nest);
    emit_call(lo, lo->shares ? "cluster_sync" : "__syncthreads", 0);
}

// ---- clocks

// All buffers are empty at first: a producer that waits for one waits for the phase before.
void declare_ring_states(Lowering *lo)
{
    const int phase = lo->role == ROLE_PRODUCER;
    for (int i = 0; i < lo->ring_states.count; i++) {
        RingState *const ring_state = lo->ring_states.items[i];
        ring_state->slot = ring_state->buffers > 1 ? emit_declare(lo, DTYPE_U32, "slot", u32_const(lo, 0)) : NULL;
        ring_state->phase = emit_declare(lo, DTYPE_U32, "phase", u32_const(lo, phase));
    }
}

Expr *other_phase(Lowering *lo, const RingState *ring_state)
{
    return expr_binary(lo->arena, X_BITXOR, var_of(lo, ring_state->phase), u32_const(lo, 1));
}

static void advance(Lowering *lo, const RingState *ring_state)
{
    if (ring_state->buffers == 1) {
        emit_assign(lo, ring_state->phase, other_phase(lo, ring_state));
        return;
    }
    Expr *const slot = var_of(lo, ring_state->slot);
    emit_assign(lo, ring_state->slot, expr_binary(lo->arena, X_ADD, slot, u32_const(lo, 1)));
    Nest around;
    begin_if(lo, &around, expr_binary(lo->arena, X_EQ, slot, u32_const(lo, ring_state->buffers)));
    emit_assign(lo, ring_state->slot, u32_const(lo, 0));
    emit_assign(lo, ring_state->phase, other_phase(lo, ring_state));
    end_nest(lo, &around);
}

static void record_advance(Lowering *lo, const RingState *ring_state)
{
    for (int i = 0; i < lo->rings.count; i++)
        if (lo->rings.items[i]->ring_state == ring_state) record_ring(lo, ACTION_ADVANCE, lo->rings.items[i], 0);
}

void advance_ring_states(Lowering *lo, TileOp *block, int stage)
{
    for (int i = 0; i < lo->ring_states.count; i++) {
        const RingState *const ring_state = lo->ring_states.items[i];
        if (ring_state->block != block || (stage >= 0 && ring_state->stage != stage)) continue;
        record_advance(lo, ring_state);
        advance(lo, ring_state);
    }
}

// ---- waiting and releasing

static Expr *barrier_at(Lowering *lo, int offset, Expr *slot)
{
    Expr *const first = shared_address(lo, offset);
    if (!slot) return first;
    return expr_binary(lo->arena, X_ADD, first, expr_binary(lo->arena, X_MUL, slot, u32_const(lo, MBARRIER_BYTES)));
}

static Expr *slot_of(Lowering *lo, const RingState *ring_state)
{
    return ring_state->buffers > 1 ? var_of(lo, ring_state->slot) : NULL;
}

Expr *full_barrier(Lowering *lo, const Ring *ring) { return barrier_at(lo, ring->full, slot_of(lo, ring->ring_state)); }

Expr *empty_barrier(Lowering *lo, const Ring *ring)
{
    return barrier_at(lo, ring->empty, slot_of(lo, ring->ring_state));
}

void print_wait_full(Lowering *lo, const Ring *ring)
{
    emit_call(lo, "mbar_wait", 2, full_barrier(lo, ring), var_of(lo, ring->ring_state->phase));
}

// held: the slot that the step before used; NULL: the current one.
void print_release(Lowering *lo, const Ring *ring, Var *held)
{
    Expr *const slot = held ? cast(lo, DTYPE_U32, var_of(lo, held)) : slot_of(lo, ring->ring_state);
    Nest nest;
    if (ring->is_shared) { // every CTA of the cluster writes into all
        begin_if(lo, &nest, i32_op(lo, X_LT, var_of(lo, lo->lane), lo->cluster));
        emit_call(lo, "mbar_arrive_at", 2, barrier_at(lo, ring->empty, slot), var_of(lo, lo->lane));
    } else {
        begin_if(lo, &nest, is_zero(lo, lo->lane));
        emit_call(lo, "mbar_arrive", 1, barrier_at(lo, ring->empty, slot));
    }
    end_nest(lo, &nest);
}

// The other lanes of the warp must be done, too, if they read by ordinary loads; and have seen the buffer full, where
// the products that would hold them together stand in a loop or under a condition.
void emit_release(Lowering *lo, const Ring *ring)
{
    if (!ring->is_product_only || last_use(lo, ring)->kind != T_MATMUL) act_plain(lo, ACTION_WARP_SYNC);
    act_release(lo, ring, SLOT_CURRENT);
}

// Of a ring that is released within a pipeline: in its last step, or after it, if it had none.
void emit_last_release(Lowering *lo, const Ring *ring, bool within)
{
    const LoopIndex *const index = &last_use(lo, ring)->pipeline.indices[0];
    Expr *from, *to;
    Nest nest;
    index_bounds(lo, index, NULL, &from, &to);
    if (within)
        from = expr_binary(lo->arena, X_ADD, var_of(lo, loop_var(lo, index->var)), expr_int(lo->arena, from->type, 1));
    begin_if(lo, &nest, expr_binary(lo->arena, X_GE, from, to));
    record_scope(lo, within ? SCOPE_LAST_STEP : SCOPE_NO_STEP, last_use(lo, ring));
    emit_release(lo, ring);
    record_close(lo);
    end_nest(lo, &nest);
}
