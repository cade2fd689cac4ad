// SPDX-License-Identifier: MIT
// consumer.c - what the consumers do: a walk over the tree, and what stands around each operation.
//
// They run every statement but the fetched copies. Before the first use of a ring's tiles they wait for its full
// barrier, after the last they release it; products in flight are waited for where their results are used; barriers
// stand where hazards.c wants them. Where statements are placed on groups (warp_roles.c), each group has a walk of its
// own, and one tells another what it has done by group barriers.
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/decide/pipeline/map.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/decide/pipeline/pipeline.h"
#include "lower/gpu/decide/pipeline/store.h"
#include "lower/gpu/facts/groups.h"
#include "lower/gpu/decide/pipeline/ring_uses.h"
#include "lower/gpu/facts/ring_counts.h"
#include "lower/gpu/decide/copy/rows.h"
#include "lower/gpu/decide/pipeline/walk.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/partition.h"
#include "lower/gpu/facts/registers.h"

// ---- barriers

// Whoever hears of this group's accesses relies on their being over: products may still read tiles that others fill.
static void end_shared_reads(Lowering *lo)
{
    for (int i = lo->in_flight.count - 1; i >= 0; i--)
        for (int r = 0; r < COUNT(lo->in_flight.items[i].reads); r++) {
            const TileInfo *const tile = lo->in_flight.items[i].reads[r];
            if (tile && !tile->ring) {
                wait_for_tile(lo, lo->in_flight.items[i].accumulator, false);
                return;
            }
        }
}

// Where all synchronise, a transposed store after it learns that its staging is free: one barrier of its group less.
static void free_staging(Lowering *lo, TileOp *op)
{
    for (TileOp *x = lo->n_transposed && !lo->is_specialised ? op : NULL; x; x = x->next) {
        if (store_is_transposed(lo, x)) {
            if (may_store_again(lo, x)) return; // more than that is waited for
            act_staging_done(lo);
            op_info(lo, x)->staging_is_free = true;
            return;
        }
        if (op_has(lo, x, store_is_staged)) return;
    }
}

static void decide_barrier_before(Lowering *lo, TileOp *op)
{
    const OpInfo *const info = op_info(lo, op);
    if (lo->is_specialised && info->barrier_group >= 0) {
        if (info->barrier_group == lo->walk) act_sync_group(lo);
        return;
    }
    if (lo->is_specialised) end_shared_reads(lo);
    free_staging(lo, op);
    if (op == lo->staged_over) act_staging_done(lo);
    if (info->orders_tensors) finish_staged_stores(lo);
    act_sync_all(lo);
}

// ---- named barriers between groups

static int threads_of_two(const Lowering *lo) { return 2 * partition_threads(lo->partition); }

static void sync_group_barriers(Lowering *lo, const TileOp *op)
{
    for (int i = 0; i < lo->group_barriers.count; i++) {
        const GroupBarrier *const group_barrier = lo->group_barriers.items[i];
        if (group_barrier->before == op && group_barrier->to == lo->walk)
            act_barrier(lo, ACTION_BARRIER_SYNC, group_barrier->barrier, threads_of_two(lo));
    }
}

// Of a ring whose tiles this group uses before and after the op.
static bool holds_across(Lowering *lo, const Ring *ring, const TileOp *op)
{
    const OpInfo *const info = op_info(lo, op);
    const TileOp *const first = first_use(lo, ring), *const last = last_use(lo, ring);
    return ring->ring_state->block == info->block && first && !ring->is_released &&
           op_info(lo, first)->order <= info->order && info->order < op_info(lo, last)->order;
}

// What follows an arrival must not be scheduled before it: the other group waits. Only the end of a basic block holds
// it, and a wait for a buffer that this group holds is one.
static void schedule_arrival(Lowering *lo, const TileOp *op)
{
    for (int i = 0; i < lo->rings.count; i++)
        if (holds_across(lo, lo->rings.items[i], op)) {
            act_wait(lo, lo->rings.items[i]);
            return;
        }
}

static void arrive_group_barriers(Lowering *lo, const TileOp *op)
{
    for (int i = 0; i < lo->group_barriers.count; i++) {
        const GroupBarrier *const group_barrier = lo->group_barriers.items[i];
        if (group_barrier->after != op || group_barrier->from != lo->walk) continue;
        end_shared_reads(lo);
        if (group_barrier->fences && lo->needs_fence) act_plain(lo, ACTION_FENCE_ASYNC);
        act_barrier(lo, ACTION_BARRIER_ARRIVE, group_barrier->barrier, threads_of_two(lo));
        schedule_arrival(lo, op);
    }
}

// ---- products in flight

// What an op accesses, with all that is inside it.
typedef struct UsedTile {
    TileInfo *tile;
    bool written;
} UsedTile;
typedef struct Uses {
    Lowering *lo;
    bool has_product, leaves;
    VEC(UsedTile) tiles;
} Uses;

static bool is_mine(Lowering *lo, TileOp *op) { return !lo->is_specialised || op_groups(lo, op) >> lo->walk & 1; }

static void access_use(const TileUse *use, void *context)
{
    Uses *const uses = context;
    TileInfo *const tile = tile_info(uses->lo, buffer_root(use->buffer));
    if (tile) VEC_PUSH(uses->lo->arena, &uses->tiles, (UsedTile){ tile, use->writes || use->atomic });
}

// What stands in a forall is run by whoever runs the forall.
static bool is_in_forall(Lowering *lo, const TileOp *op)
{
    for (const TileOp *up = op_info(lo, op)->parent; up; up = op_info(lo, up)->parent)
        if (up->kind == T_FORALL) return true;
    return false;
}

static bool access_op(Lowering *lo, TileOp *op, void *context)
{
    Uses *const uses = context;
    if (op_info(lo, op)->fetched || (!is_mine(lo, op) && !is_in_forall(lo, op))) return true;
    uses->leaves |= op->kind == T_BREAK || op->kind == T_RETURN;
    uses->has_product |= is_wgmma(lo, op);
    tile_uses(op, access_use, uses);
    return false;
}

// Every group takes the barriers of a block that it walks, whoever's the op is.
static bool has_shared_barrier(Lowering *lo, TileOp *op)
{
    return op_info(lo, op)->barrier_before && op_info(lo, op)->barrier_group < 0;
}

// Those that this op must not overtake.
static void wait_for_op(Lowering *lo, TileOp *op)
{
    if (!lo->in_flight.count) return;
    // What a barrier within waits for, an arm that is not taken or a loop without steps would not.
    if (is_flow(op) && lo->is_specialised && op_has(lo, op, has_shared_barrier)) end_shared_reads(lo);
    Uses uses = { .lo = lo };
    visit_op(lo, op, access_op, &uses);
    if (is_flow(op) && (uses.has_product || uses.leaves)) {
        wait_for_all(lo);
        return;
    }
    const TileInfo *const acc = is_wgmma(lo, op) ? tile_info(lo, op->matmul.dst.buffer) : NULL;
    for (int i = 0; i < uses.tiles.count; i++)
        if (uses.tiles.items[i].tile != acc) // products into one accumulator follow each other in order
            wait_for_tile(lo, uses.tiles.items[i].tile, uses.tiles.items[i].written);
}

// ---- operations

static bool comes_before(Lowering *lo, const TileOp *a, const TileOp *b)
{
    return op_info(lo, a)->order < op_info(lo, b)->order;
}

// The op before which a group waits for a ring: its first use. A wait and the fence after it take some 150 cycles
// even where the tile has long been full. So a tile that others have used is waited for earlier: with the first tile
// that is filled after it, or where the group waits for another that has used it.
static const TileOp *entry_of(Lowering *lo, const Ring *ring)
{
    const TileOp *const first = first_use(lo, ring), *entry = first;
    if (!first || !lo->is_specialised || !ring->is_gathered) return first;
    for (int i = 0; i < lo->rings.count; i++) {
        const Ring *const other = lo->rings.items[i];
        const TileOp *const use = first_use(lo, other);
        if (use && other->is_gathered && other->ring_state->block == ring->ring_state->block &&
            comes_before(lo, ring->first_fetch, other->first_fetch) && comes_before(lo, use, entry))
            entry = use;
    }
    for (int i = 0; i < lo->group_barriers.count; i++) {
        const GroupBarrier *const group_barrier = lo->group_barriers.items[i];
        const TileOp *const use = group_barrier->to == lo->walk ? ring->first_of[group_barrier->from] : NULL;
        if (use && op_info(lo, group_barrier->before)->block == ring->ring_state->block &&
            !comes_before(lo, group_barrier->after, use) && comes_before(lo, group_barrier->before, entry))
            entry = group_barrier->before;
    }
    return entry;
}

// What ordinary stores have filled products see after a fence, of which one does for all gathered tiles.
static void enter_rings(Lowering *lo, const TileOp *op, const TileOp *block)
{
    int gathered = 0;
    for (int i = 0; i < lo->rings.count; i++) {
        const Ring *const ring = lo->rings.items[i];
        if (ring->ring_state->block != block || entry_of(lo, ring) != op) continue;
        act_wait(lo, ring);
        gathered += ring->is_gathered;
        if (ring->is_gathered) continue;
        if (ring->has_gathers || readers_fence(ring->tiles[0])) act_plain(lo, ACTION_FENCE_ASYNC);
        act_slot_pointers(lo, ring);
    }
    if (gathered) act_plain(lo, ACTION_FENCE_ASYNC);
    for (int i = 0; i < lo->rings.count && gathered; i++) {
        const Ring *const ring = lo->rings.items[i];
        if (ring->is_gathered && ring->ring_state->block == block && entry_of(lo, ring) == op)
            act_slot_pointers(lo, ring);
    }
}

static void leave_rings(Lowering *lo, const TileOp *op, const TileOp *block)
{
    for (int i = 0; i < lo->rings.count; i++) {
        Ring *const ring = lo->rings.items[i];
        if (ring->ring_state->block != block || last_use(lo, ring) != op || ring->is_released) continue;
        if (release_within(lo, ring)) decide_last_release(lo, ring, false);
        else if (!release_with_in_flight(lo, ring)) decide_release(lo, ring);
    }
}

void decide_consumer_op(Lowering *lo, TileOp *op, TileOp *owner_block)
{
    if (op_info(lo, op)->fetched) return;
    const bool mine = is_mine(lo, op);
    enter_rings(lo, op, owner_block);
    if (mine) wait_for_op(lo, op);
    if (op_info(lo, op)->barrier_before) decide_barrier_before(lo, op);
    sync_group_barriers(lo, op);
    act_consumer_acquire(lo, op);
    if (mine) decide_op(lo, op);
    act_consumer_arrive(lo, op);
    arrive_group_barriers(lo, op);
    leave_rings(lo, op, owner_block);
}

void decide_block(Lowering *lo, TileOp *block)
{
    for (TileOp *op = block; op; op = op->next) {
        act_early_loads(lo, op);
        decide_consumer_op(lo, op, block);
    }
}

// ---- the role

static bool does_ping_pong(Lowering *lo, TileOp *op)
{
    return op->kind == T_PIPELINE && can_software_pipeline(lo, op) && groups_ping_pong(lo, op);
}

static void decide_consumer(Lowering *lo, ScheduleRole role)
{
    begin_role(lo, role);
    lo->in_flight.count = 0;
    lo->copies_in_flight = false;
    act_declare(lo, DECLARE_RING_STATES);
    act_declare(lo, DECLARE_TILES);
    act_declare(lo, DECLARE_SCRATCH);
    if (block_has(lo, lo->kernel->body, does_ping_pong)) act_first_ping_pong(lo);
    open_action(lo, (Action){ .kind = ACTION_GRID });
    decide_body(lo, lo->kernel->body);
    close_action(lo);
    end_stores(lo);
    end_role(lo);
}

static void give_registers(Lowering *lo, ScheduleRole *role)
{
    const int own = role->group >= 0 ? own_registers(lo, role->group) : 0;
    role->sets_own = own > 0;
    role->registers = own ? own : divide_registers(lo).consumer;
}

void decide_consumers(Lowering *lo)
{
    ScheduleRole role = { .kind = ROLE_OF_CONSUMERS,
                          .name = "consumers",
                          .first_thread = producer_threads(lo),
                          .threads = all_threads(lo),
                          .group = -1 };
    if (!lo->is_specialised) {
        give_registers(lo, &role);
        decide_consumer(lo, role);
        return;
    }
    role.threads = consumer_threads(lo);
    for (role.group = 0; role.group < lo->all.groups; role.group++) {
        role.name = arena_printf(lo->arena, "consumer %d", role.group);
        give_registers(lo, &role);
        decide_consumer(lo, role);
        role.first_thread += role.threads;
    }
}
