// SPDX-License-Identifier: MIT
// channels.c - the mbarriers of the rings, as both roles see them.
//
// A buffer is full when all threads that fill it have arrived and all announced bytes are there; it is empty when one lane
// of each warp that uses it has arrived. The rings advance at the end of every pass through the block that declares their
// tiles, in the consumers' walk and in the producer's.
#include "lower/cuda/cuda.h"

// ---- who uses a channel

typedef struct ReadScan {
    Lowering *lo;
    const Channel *channel;
    const TileOp *op;
    bool other;
} ReadScan;

// Within a loop, which may have no step, a product keeps no warp together; the places of a sparse operand lanes read.
static bool is_held_product(Lowering *lo, const TileOp *op, const Channel *channel)
{
    return is_wgmma(lo, op) && op_info(lo, op)->block == channel->clock->block;
}

static void scan_read(const TileUse *use, void *context)
{
    ReadScan *const scan = context;
    const TileInfo *const tile = tile_info(scan->lo, buffer_root(use->buffer));
    if (!tile || tile->channel != scan->channel) return;
    scan->other |= !is_held_product(scan->lo, scan->op, scan->channel) || use->buffer == scan->op->matmul.meta;
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
    for (int i = 0; i < lo->channels.count; i++) {
        Channel *const channel = lo->channels.items[i];
        ReadScan scan = { .lo = lo, .channel = channel };
        each_op(lo, lo->kernel->body, scan_op, &scan);
        channel->is_product_only = !scan.other;
    }
}

const TileOp *first_use(const Lowering *lo, const Channel *channel)
{
    return lo->has_teams ? channel->first_of[lo->walk] : channel->first_use;
}

const TileOp *last_use(const Lowering *lo, const Channel *channel)
{
    return lo->has_teams ? channel->last_of[lo->walk] : channel->last_use;
}

// What stays through a pipeline (the queries of attention) is given back by its last step, behind the product that reads
// it last: the next is fetched under the rest of that step. The product; NULL: given back behind its last use.
const TileOp *release_within(const Lowering *lo, const Channel *channel)
{
    const TileOp *const product = lo->has_teams && !channel->is_released ? channel->done_in[lo->walk] : NULL;
    return product && is_wgmma((Lowering *)lo, product) ? product : NULL;
}

// Groups that release a channel's buffers.
static int user_groups(const Lowering *lo, const Channel *channel)
{
    int n = 0;
    for (int g = 0; g < lo->all.groups; g++) n += channel->first_of[g] != NULL;
    return lo->has_teams ? n : lo->all.groups;
}

// ---- making the barriers

// Arrivals that fill a buffer: every lane of a warp, each of a filler's warps, or the announcement of bytes alone.
static Expr *count_fillers(Lowering *lo, const Channel *channel)
{
    Expr *const lanes = i32_const(lo, WARP_LANES), *const one = i32_const(lo, 1);
    if (channel->is_gathered) return i32_const(lo, WARPGROUP_THREADS);
    if (channel->is_filled || channel->is_handed)
        return i32_const(lo, WARPGROUP_THREADS / WARP_LANES + (channel->has_gathers ? WARPGROUP_THREADS : 0));
    if (!channel->by_lanes) return one;
    return lo->fetch_aligned ? expr_select(lo->arena, lo->fetch_aligned, lanes, one) : lanes;
}

void init_barriers(Lowering *lo)
{
    Nest nest;
    begin_if(lo, &nest, literal(lo, DTYPE_BOOL, "threadIdx.x == 0"));
    for (int i = 0; i < lo->channels.count; i++) {
        const Channel *const channel = lo->channels.items[i];
        const int users = user_groups(lo, channel) * lo->crew.warps * (channel->is_shared ? lo->cluster : 1);
        for (int at = 0; at < channel->clock->buffers * MBARRIER_BYTES; at += MBARRIER_BYTES) {
            emit_call(lo, "mbar_init", 2, shared_address(lo, channel->full + at), count_fillers(lo, channel));
            emit_call(lo, "mbar_init", 2, shared_address(lo, channel->empty + at), i32_const(lo, users));
        }
    }
    emit_call(lo, "mbar_init_done", 0);
    end_nest(lo, &nest);
    emit_call(lo, lo->shares ? "cluster_sync" : "__syncthreads", 0);
}

// ---- clocks

// All buffers are empty at first: a producer that waits for one waits for the phase before.
void declare_clocks(Lowering *lo)
{
    const int phase = lo->role == ROLE_PRODUCER;
    for (int i = 0; i < lo->clocks.count; i++) {
        Clock *const clock = lo->clocks.items[i];
        clock->slot = clock->buffers > 1 ? emit_declare(lo, DTYPE_U32, "slot", u32_const(lo, 0)) : NULL;
        clock->phase = emit_declare(lo, DTYPE_U32, "phase", u32_const(lo, phase));
    }
}

Expr *other_phase(Lowering *lo, const Clock *clock)
{
    return expr_binary(lo->arena, X_BITXOR, var_of(lo, clock->phase), u32_const(lo, 1));
}

static void advance(Lowering *lo, const Clock *clock)
{
    if (clock->buffers == 1) {
        emit_assign(lo, clock->phase, other_phase(lo, clock));
        return;
    }
    Expr *const slot = var_of(lo, clock->slot);
    emit_assign(lo, clock->slot, expr_binary(lo->arena, X_ADD, slot, u32_const(lo, 1)));
    Nest around;
    begin_if(lo, &around, expr_binary(lo->arena, X_EQ, slot, u32_const(lo, clock->buffers)));
    emit_assign(lo, clock->slot, u32_const(lo, 0));
    emit_assign(lo, clock->phase, other_phase(lo, clock));
    end_nest(lo, &around);
}

void advance_clocks(Lowering *lo, TileOp *block, int stage)
{
    for (int i = 0; i < lo->clocks.count; i++) {
        const Clock *const clock = lo->clocks.items[i];
        if (clock->block == block && (stage < 0 || clock->stage == stage)) advance(lo, clock);
    }
}

// ---- waiting and releasing

static Expr *barrier_at(Lowering *lo, int offset, Expr *slot)
{
    Expr *const first = shared_address(lo, offset);
    if (!slot) return first;
    return expr_binary(lo->arena, X_ADD, first, expr_binary(lo->arena, X_MUL, slot, u32_const(lo, MBARRIER_BYTES)));
}

static Expr *slot_of(Lowering *lo, const Clock *clock) { return clock->buffers > 1 ? var_of(lo, clock->slot) : NULL; }

Expr *full_barrier(Lowering *lo, const Channel *channel)
{
    return barrier_at(lo, channel->full, slot_of(lo, channel->clock));
}

Expr *empty_barrier(Lowering *lo, const Channel *channel)
{
    return barrier_at(lo, channel->empty, slot_of(lo, channel->clock));
}

void emit_wait_full(Lowering *lo, const Channel *channel)
{
    emit_call(lo, "mbar_wait", 2, full_barrier(lo, channel), var_of(lo, channel->clock->phase));
}

void emit_release_at(Lowering *lo, const Channel *channel, Expr *slot)
{
    Nest nest;
    if (channel->is_shared) { // every instance of the cluster writes into all
        begin_if(lo, &nest, i32_op(lo, X_LT, var_of(lo, lo->lane), lo->cluster));
        emit_call(lo, "mbar_arrive_at", 2, barrier_at(lo, channel->empty, slot), var_of(lo, lo->lane));
    } else {
        begin_if(lo, &nest, is_zero(lo, lo->lane));
        emit_call(lo, "mbar_arrive", 1, barrier_at(lo, channel->empty, slot));
    }
    end_nest(lo, &nest);
}

// The other lanes of the warp must be done, too, if they read by ordinary loads; and have seen the buffer full, where
// the products that would hold them together stand in a loop or under a condition.
void emit_release(Lowering *lo, const Channel *channel)
{
    if (!channel->is_product_only || last_use(lo, channel)->kind != T_MATMUL) emit_call(lo, "__syncwarp", 0);
    emit_release_at(lo, channel, slot_of(lo, channel->clock));
}

// Of a channel that is given back within a pipeline: in its last step, or behind it, if it had none.
void emit_last_release(Lowering *lo, const Channel *channel, bool within)
{
    const LoopIndex *const index = &last_use(lo, channel)->pipeline.indices[0];
    Expr *from, *to;
    Nest nest;
    index_bounds(lo, index, NULL, &from, &to);
    if (within)
        from = expr_binary(lo->arena, X_ADD, var_of(lo, loop_var(lo, index->var)), expr_int(lo->arena, from->type, 1));
    begin_if(lo, &nest, expr_binary(lo->arena, X_GE, from, to));
    emit_release(lo, channel);
    end_nest(lo, &nest);
}
