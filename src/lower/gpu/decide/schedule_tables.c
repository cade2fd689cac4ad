// SPDX-License-Identifier: MIT
// schedule_tables.c - the tables of a schedule: its tiles and rings, where they lie, and what the device has.
//
// before: everything is decided but the walks        after: lo->builder.schedule has its tables; tiles know their
//         numbers
#include "lower/gpu/decide/actions.h"
#include "lower/gpu/facts/registers.h"
#include "lower/gpu/facts/rings.h"
#include "lower/gpu/decide/memory.h"
#include "lower/gpu/facts/partition.h"
#include "lower/gpu/decide/multistage.h"

// ---- tiles

static const char *layout_name(Lowering *lo, const TileInfo *tile)
{
    if (tile->storage == TILE_IN_REGISTERS) return tile->is_accumulator ? "accumulator" : "";
    if (tile->shared.swizzle_bytes) return arena_printf(lo->arena, "swizzle %d", tile->shared.swizzle_bytes);
    return tile->shared.pitch_bytes > tile->shared.columns * tile->shared.element_bytes ? "padded rows" : "rows";
}

static int slots_of(const TileInfo *tile)
{
    return tile->multistage ? tile->multistage->buffers : tile->buffers > 1 ? tile->buffers : 1;
}

static ScheduleTile shared_tile(const TileInfo *tile)
{
    return (ScheduleTile){ .place = TILE_SHARED,
                           .offset = tile->offset,
                           .bytes = tile->shared.bytes,
                           .slots = slots_of(tile),
                           .owner = tile->is_private ? OWNER_GROUP : OWNER_CTA,
                           .loop = tile->multistage ? tile->multistage->pipeline : NULL };
}

static void add_tile(Lowering *lo, TileInfo *tile)
{
    const Buffer *const buffer = tile->buffer;
    ScheduleTile added = { .place = TILE_REGISTERS };
    if (tile->storage == TILE_IN_SHARED) added = shared_tile(tile);
    else added.registers = tile_words(tile);
    added.name = buffer->name;
    added.buffer = buffer;
    added.span = buffer->span;
    added.type = buffer->type;
    added.rank = buffer->rank;
    for (int d = 0; d < buffer->rank; d++) expr_as_int(buffer->shape[d], &added.shape[d]);
    added.layout = layout_name(lo, tile);
    added.ring = tile->ring ? tile->ring->index : NO_RING;
    added.groups = lo->is_specialised ? tile->groups : 0;
    tile->number = schedule_add_tile(lo->builder.schedule, added);
}

// ---- rings

static const char *ring_name(Lowering *lo, const Ring *ring)
{
    const char *name = ring->tiles[0]->buffer->name;
    for (int t = 1; t < ring->n_tiles; t++) name = arena_printf(lo->arena, "%s %s", name, ring->tiles[t]->buffer->name);
    return name;
}

static void add_ring(Lowering *lo, const Ring *ring)
{
    schedule_add_ring(lo->builder.schedule, (ScheduleRing){ .name = ring_name(lo, ring),
                                                            .slots = ring->ring_state->buffers,
                                                            .full_count = ring_full_count(ring),
                                                            .empty_count = ring_empty_count(lo, ring),
                                                            .full_offset = ring->full,
                                                            .empty_offset = ring->empty,
                                                            .bytes = ring->is_plain ? ring->bytes : 0,
                                                            .by_consumers = ring->is_consumer_ring,
                                                            .across_cluster = ring->is_shared });
}

void make_schedule_tables(Lowering *lo)
{
    Schedule *const schedule = schedule_new(lo->arena, lo->kernel->name, lo->target->gpu->name);
    lo->builder.schedule = schedule;
    for (int i = 0; i < lo->n_declared; i++) add_tile(lo, lo->declared.items[i]);
    for (int i = 0; i < lo->rings.count; i++) add_ring(lo, lo->rings.items[i]);
    schedule->threads = all_threads(lo) + producer_threads(lo);
    schedule->shared_bytes = lo->shared_bytes;
    schedule->shared_limit = shared_bytes_max(lo);
    schedule->cluster = lo->cluster;
    schedule->is_persistent = lo->is_persistent;
    schedule->has_async_proxy = lo->target->gpu->async_proxy;
}
