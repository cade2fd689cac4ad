// SPDX-License-Identifier: MIT
// ring_counts.c - how many arrive at a ring's barriers, and what the producer group fills rings with.
#include "lower/gpu/facts/ring_counts.h"

// Groups that release a ring's buffers.
static int user_groups(const Lowering *lo, const Ring *ring)
{
    int n = 0;
    for (int g = 0; g < lo->all.groups; g++) n += ring->first_of[g] != NULL;
    return lo->is_specialised ? n : lo->all.groups;
}

// Arrivals that fill a buffer: every lane of a warp, each of a producer group's warps, or the announcement of bytes
// alone.
int ring_full_count(const Ring *ring)
{
    if (ring->is_gathered) return WARPGROUP_THREADS;
    if (ring->is_filled || ring->is_consumer_ring)
        return WARPGROUP_THREADS / WARP_LANES + (ring->has_gathers ? WARPGROUP_THREADS : 0);
    return ring->by_lanes ? WARP_LANES : 1;
}

// Its threads have stored all that it says is there.
int shifting_warps(const Lowering *lo, const Ring *ring)
{
    const bool by_all = !ring->by_lanes && !ring->is_gathered && !ring->is_filled && !ring->is_consumer_ring;
    return lo->may_shift_rows && by_all ? WARPGROUP_THREADS / WARP_LANES : 0;
}

int ring_empty_count(const Lowering *lo, const Ring *ring)
{
    return user_groups(lo, ring) * lo->partition.warps * (ring->is_shared ? lo->cluster : 1);
}

// A writer's fence would wait for the loads of the next step's rows, which are in flight by then. What other CTAs send
// has had one before the sending.
bool readers_fence(const TileInfo *tile) { return tile->is_exchanged || tile->is_from_registers; }

bool only_gathers(const Lowering *lo)
{
    for (int i = 0; i < lo->rings.count; i++) {
        const Ring *const ring = lo->rings.items[i];
        if (ring->is_filled && !ring->is_gathered && ring->tiles[0]->wants_panels) return false;
    }
    return lo->has_producer_group;
}
