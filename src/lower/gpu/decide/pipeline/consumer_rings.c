// SPDX-License-Identifier: MIT
// consumer_rings.c - tiles of a pipeline's step that one placed group makes and others use, in rings.
//
// Like a tile that the producer fetches, such a tile has a buffer for each stage, and for each buffer a full and an
// empty mbarrier. Who makes it waits only when it is a whole ring ahead, who uses it when there is none, and nobody
// synchronises.
//
// before: statements have their groups, the producer its rings       after: these tiles have rings, too
#include "lower/gpu/decide/copy/fetch.h"
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/facts/groups.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/decide/pipeline/ring_uses.h"
#include "lower/gpu/decide/pipeline/walk.h"
#include "lower/gpu/facts/info.h"

static void note_consumer_fill(Ring *ring, TileOp *op, int group)
{
    ring->source_group = group;
    ring->first_fill = ring->first_fill ? ring->first_fill : op;
    ring->last_fill = op;
}

static void note_consumer_use(Ring *ring, TileOp *op, int group)
{
    ring->first_use = ring->first_use ? ring->first_use : op;
    ring->first_of[group] = ring->first_of[group] ? ring->first_of[group] : op;
    ring->last_use = ring->last_of[group] = op;
}

// Under a condition or in a loop a tile may be made less often than once.
static bool find_source_group(Lowering *lo, const TileInfo *tile, Ring *ring)
{
    uint32_t source_groups = 0;
    for (TileOp *op = tile->declared->next; op; op = op->next) {
        const RootUses uses = root_uses(lo, op, tile->buffer);
        const uint32_t groups = op_groups(lo, op);
        if (op->kind == T_TILE || (!uses.reads && !uses.writes)) continue;
        if (is_flow(op) || uses.reads == uses.writes || !is_single(groups) || (uses.writes && ring->first_use) ||
            (uses.reads && groups == source_groups))
            return false;
        if (uses.writes) {
            source_groups |= groups;
            note_consumer_fill(ring, op, __builtin_ctz(groups));
        } else {
            note_consumer_use(ring, op, __builtin_ctz(groups));
        }
    }
    return is_single(source_groups) && ring->first_use;
}

// The other groups are told after a product that follows the stores and does without them: it need not wait for the
// fence.
static void tell_late(Lowering *lo, Ring *ring)
{
    TileOp *const next = ring->last_fill->next;
    if (!next || !is_wgmma(lo, next) || op_groups(lo, next) != 1u << ring->source_group) return;
    const RootUses uses = root_uses(lo, next, ring->tiles[0]->buffer);
    if (!uses.reads && !uses.writes) ring->last_fill = next;
}

void find_consumer_rings(Lowering *lo)
{
    if (!lo->is_specialised || !lo->has_producer || lo->all.groups < 3) // two answer each other by group barriers
        return;
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        const OpInfo *const info = op_info(lo, tile->declared);
        const TileOp *const pipeline = info->parent;
        if (tile->storage != TILE_IN_SHARED || tile->ring || tile->is_private || !pipeline ||
            pipeline->kind != T_PIPELINE || pipeline->pipeline.stages < 2 || pipeline->pipeline.n_stage_labels > 0)
            continue;
        Ring ring = { .n_tiles = 1, .tiles = { tile }, .is_consumer_ring = true, .index = lo->rings.count };
        if (has_jumps(lo, pipeline->pipeline.body) || !find_source_group(lo, tile, &ring)) continue;
        tell_late(lo, &ring);
        ring.ring_state = ring_state_of(lo, info->block, 0, pipeline->pipeline.stages);
        tile->buffers = ring.ring_state->buffers;
        tile->ring = NEW(lo->arena, Ring);
        *tile->ring = ring;
        VEC_PUSH(lo->arena, &lo->rings, tile->ring);
    }
}

// Before the source group's first store and after its last.
void act_consumer_acquire(Lowering *lo, const TileOp *op)
{
    for (int i = 0; i < lo->rings.count; i++) {
        const Ring *const ring = lo->rings.items[i];
        if (!ring->is_consumer_ring || ring->source_group != lo->walk || ring->first_fill != op) continue;
        act_on_ring(lo, ACTION_ACQUIRE, ring, 0);
        act_slot_pointers(lo, ring);
    }
}

void act_consumer_arrive(Lowering *lo, const TileOp *op)
{
    for (int i = 0; i < lo->rings.count; i++) {
        const Ring *const ring = lo->rings.items[i];
        if (!ring->is_consumer_ring || ring->source_group != lo->walk || ring->last_fill != op) continue;
        if (ring->tiles[0]->is_async) act_plain(lo, ACTION_FENCE_ASYNC);
        act_plain(lo, ACTION_WARP_SYNC);
        act_on_ring(lo, ACTION_ARRIVE, ring, lo->partition.warps);
    }
}
