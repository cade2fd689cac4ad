// SPDX-License-Identifier: MIT
// hand.c - tiles of a pipeline's step that one placed group makes and others use: handed over in rings.
//
// Like a tile that the producer fetches, such a tile has a buffer for each stage, and for each buffer a full and an
// empty mbarrier. Who makes it waits only when it is a whole ring ahead, who uses it when there is none, and nobody meets.
//
// before: statements have their groups, the producer its channels       after: these tiles have channels, too
#include "lower/cuda/cuda.h"

static void note_giving(Channel *channel, TileOp *op, int group)
{
    channel->giver = group;
    channel->first_give = channel->first_give ? channel->first_give : op;
    channel->last_give = op;
}

static void note_taking(Channel *channel, TileOp *op, int group)
{
    channel->first_use = channel->first_use ? channel->first_use : op;
    channel->first_of[group] = channel->first_of[group] ? channel->first_of[group] : op;
    channel->last_use = channel->last_of[group] = op;
}

// Under a condition or in a loop a tile may be made less often than once.
static bool find_giver(Lowering *lo, const TileInfo *tile, Channel *channel)
{
    uint32_t givers = 0;
    for (TileOp *op = tile->declared->next; op; op = op->next) {
        const RootUses uses = root_uses(lo, op, tile->buffer);
        const uint32_t groups = op_groups(lo, op);
        if (op->kind == T_TILE || (!uses.reads && !uses.writes)) continue;
        if (is_flow(op) || uses.reads == uses.writes || !is_single(groups) || (uses.writes && channel->first_use) ||
            (uses.reads && groups == givers))
            return false;
        if (uses.writes) {
            givers |= groups;
            note_giving(channel, op, __builtin_ctz(groups));
        } else {
            note_taking(channel, op, __builtin_ctz(groups));
        }
    }
    return is_single(givers) && channel->first_use;
}

// The other groups are told behind a product that follows the stores and does without them: it need not wait for the
// fence.
static void tell_late(Lowering *lo, Channel *channel)
{
    TileOp *const next = channel->last_give->next;
    if (!next || !is_wgmma(lo, next) || op_groups(lo, next) != 1u << channel->giver) return;
    const RootUses uses = root_uses(lo, next, channel->tiles[0]->buffer);
    if (!uses.reads && !uses.writes) channel->last_give = next;
}

void find_handed(Lowering *lo)
{
    if (!lo->has_teams || !lo->has_producer || lo->all.groups < 3) // two answer each other by signals
        return;
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        const OpInfo *const info = op_info(lo, tile->declared);
        const TileOp *const pipeline = info->parent;
        if (tile->home != HOME_SHARED || tile->channel || tile->is_private || !pipeline ||
            pipeline->kind != T_PIPELINE || pipeline->pipeline.stages < 2 || pipeline->pipeline.n_stage_labels > 0)
            continue;
        Channel channel = { .n_tiles = 1, .tiles = { tile }, .is_handed = true, .index = lo->channels.count };
        if (has_jumps(lo, pipeline->pipeline.body) || !find_giver(lo, tile, &channel)) continue;
        tell_late(lo, &channel);
        channel.clock = clock_of(lo, info->block, 0, pipeline->pipeline.stages);
        tile->buffers = channel.clock->buffers;
        tile->channel = NEW(lo->arena, Channel);
        *tile->channel = channel;
        VEC_PUSH(lo->arena, &lo->channels, tile->channel);
    }
}

// In front of the giver's first store and behind its last.
void begin_giving(Lowering *lo, const TileOp *op)
{
    for (int i = 0; i < lo->channels.count; i++) {
        const Channel *const channel = lo->channels.items[i];
        if (!channel->is_handed || channel->giver != lo->walk || channel->first_give != op) continue;
        emit_call(lo, "mbar_wait", 2, empty_barrier(lo, channel), other_phase(lo, channel->clock));
        point_tiles(lo, channel);
    }
}

void end_giving(Lowering *lo, const TileOp *op)
{
    for (int i = 0; i < lo->channels.count; i++) {
        const Channel *const channel = lo->channels.items[i];
        if (!channel->is_handed || channel->giver != lo->walk || channel->last_give != op) continue;
        Nest nest;
        if (channel->tiles[0]->is_async) emit_call(lo, "fence_async", 0);
        emit_call(lo, "__syncwarp", 0);
        begin_if(lo, &nest, is_zero(lo, lo->lane));
        emit_call(lo, "mbar_arrive", 1, full_barrier(lo, channel));
        end_nest(lo, &nest);
    }
}
