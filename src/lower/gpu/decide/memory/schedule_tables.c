// SPDX-License-Identifier: MIT
// schedule_tables.c - the tables of a schedule: its tiles and rings, where they lie, and what the device has.
//
// before: everything is decided but the walks        after: lo->builder.schedule has its tables; tiles know their
//         numbers
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/facts/registers.h"
#include "lower/gpu/facts/ring_counts.h"
#include "lower/gpu/decide/memory/memory.h"
#include "lower/gpu/facts/partition.h"
#include "lower/gpu/decide/pipeline/multistage.h"
#include "lower/gpu/decide/copy/rows.h"
#include "lower/gpu/facts/info.h"

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

// The loop whose steps take the buffers of row indices in turn (row_indices.c).
static const TileOp *row_index_loop(Lowering *lo, const TileInfo *tile)
{
    const TileOp *loop = tile->is_double_buffered ? tile->declared : NULL;
    while (loop && !op_info(lo, loop)->has_row_indices) loop = op_info(lo, loop)->parent;
    return loop;
}

static ScheduleTile shared_tile(Lowering *lo, const TileInfo *tile)
{
    const TileOp *const loop = tile->multistage ? tile->multistage->pipeline : row_index_loop(lo, tile);
    const bool is_of_warp = tile->is_double_buffered && loop && prefetched_rows_of(lo, (TileOp *)loop);
    return (ScheduleTile){ .place = TILE_SHARED,
                           .offset = tile->offset,
                           .bytes = tile->shared.bytes,
                           .shared = &tile->shared,
                           .slots = slots_of(tile),
                           .owner = is_of_warp         ? OWNER_WARP
                                    : tile->is_private ? OWNER_GROUP
                                                       : OWNER_CTA,
                           .loop = loop };
}

static void add_tile(Lowering *lo, TileInfo *tile)
{
    const Buffer *const buffer = tile->buffer;
    ScheduleTile added = { .place = TILE_REGISTERS };
    if (tile->storage == TILE_IN_SHARED) added = shared_tile(lo, tile);
    else added.registers = tile_words(tile), added.fragment = &tile->layout;
    added.why = tile->why;
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

// Where stores put their boxes: a part of every group, of which each warp has a fourth, or one thread sends all.
static int add_staging(Lowering *lo, const char *whose, TileOwner owner, int slots, bool is_over)
{
    const int part = lo->staging_bytes / lo->all.groups;
    const ScheduleTile staging = { .name = "staging",
                                   .place = TILE_SHARED,
                                   .layout = whose,
                                   .offset = lo->staging_offset,
                                   .bytes = lo->staging_bytes / slots,
                                   .slots = slots,
                                   .ring = NO_RING,
                                   .owner = owner,
                                   .parts = lo->all.groups,
                                   .part_bytes = part,
                                   .is_over = is_over };
    return schedule_add_tile(lo->builder.schedule, staging);
}

static void add_stagings(Lowering *lo)
{
    const bool is_over = lo->staged_over != NULL;
    const int of_warp = lo->staging_bytes / lo->all.groups / 4 / SHARED_ALIGN;
    if (lo->n_staged > lo->n_transposed)
        lo->warp_staging = add_staging(lo, "boxes of warps", OWNER_WARP, of_warp, is_over);
    if (lo->n_transposed)
        lo->group_staging =
            add_staging(lo, "boxes of groups", OWNER_GROUP, 1, is_over || lo->n_staged > lo->n_transposed);
}

// What passes between warps: reductions, whose barriers are their own, and conversions.
static void add_scratch(Lowering *lo)
{
    const int parts = lo->is_specialised ? lo->all.groups : 0;
    const ScheduleTile scratch = { .name = "scratch",
                                   .place = TILE_SHARED,
                                   .layout = "between warps",
                                   .offset = lo->scratch_offset,
                                   .bytes = lo->scratch_bytes,
                                   .slots = parts ? 1 : lo->scratch_buffers,
                                   .ring = NO_RING,
                                   .owner = parts ? OWNER_GROUP : OWNER_CTA,
                                   .parts = parts,
                                   .part_bytes = lo->scratch_bytes };
    lo->scratch = schedule_add_tile(lo->builder.schedule, scratch);
}

// ---- rings

static const char *ring_name(Lowering *lo, const Ring *ring)
{
    const char *name = ring->tiles[0]->buffer->name;
    for (int t = 1; t < ring->n_tiles; t++) name = arena_printf(lo->arena, "%s %s", name, ring->tiles[t]->buffer->name);
    return name;
}

// Without boxes each warp speaks for what it has shifted, or one thread for all that copied by lanes.
static int elements_count(const Lowering *lo, const Ring *ring)
{
    const int warps = shifting_warps(lo, ring);
    if (warps) return warps;
    const bool by_lanes = ring->by_lanes && !ring->is_gathered && !ring->is_filled && !ring->is_consumer_ring;
    return by_lanes && lo->may_need_elements;
}

static void add_ring(Lowering *lo, const Ring *ring)
{
    schedule_add_ring(lo->builder.schedule, (ScheduleRing){ .name = ring_name(lo, ring),
                                                            .slots = ring->ring_state->buffers,
                                                            .full_count = ring_full_count(ring),
                                                            .elements_count = elements_count(lo, ring),
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
    add_stagings(lo);
    add_scratch(lo);
    for (int i = 0; i < lo->rings.count; i++) add_ring(lo, lo->rings.items[i]);
    schedule->threads = all_threads(lo) + producer_threads(lo);
    schedule->shared_bytes = lo->shared_bytes;
    schedule->shared_limit = shared_bytes_max(lo);
    schedule->register_limit = lo->gpu->registers / occupancy(lo);
    schedule->launch_registers = registers_each(lo, schedule->threads * occupancy(lo));
    schedule->cluster = lo->cluster;
    schedule->is_persistent = lo->is_persistent;
    schedule->has_async_proxy = lo->target->gpu->async_proxy;
}
