// SPDX-License-Identifier: MIT
// verify_tables.c - what a schedule's tables say without running it: shared memory, registers, accesses within bounds.
#include "lower/gpu/schedule/verify_run.h"

enum { MBARRIER_BYTES = 8, THREAD_REGISTERS_MAX = 255 };

// ---- shared memory

int tile_end(const ScheduleTile *tile)
{
    if (tile->parts) return tile->offset + tile->parts * tile->part_bytes;
    return tile->offset + tile->bytes * (tile->slots > 1 ? tile->slots : 1);
}

// What may lie over others is looked at while the roles run (verify_overlaps.c).
static bool overlap_in_time(const ScheduleTile *a, const ScheduleTile *b)
{
    return tiles_overlap(a, b) && !a->is_over && !b->is_over;
}

static bool tile_found(Run *run, const ScheduleTile *tile, const char *message)
{
    const Action at = { .span = tile->span };
    return found(run, FAULT_MEMORY, &at, "%s", message);
}

static bool check_tile(Run *run, int number)
{
    const Schedule *const schedule = run->schedule;
    const ScheduleTile *const tile = schedule->tiles.items[number];
    if (tile->place != TILE_SHARED) return true;
    if (tile->offset < 0 || tile_end(tile) > schedule->shared_bytes)
        return tile_found(run, tile,
                          arena_printf(schedule->arena, "'%s' ends at %d, and shared memory has %d bytes", tile->name,
                                       tile_end(tile), schedule->shared_bytes));
    for (int i = 0; i < number; i++) {
        const ScheduleTile *const other = schedule->tiles.items[i];
        if (other->place == TILE_SHARED && overlap_in_time(tile, other))
            return tile_found(run, tile,
                              arena_printf(schedule->arena, "'%s' at %d .. %d and '%s' at %d .. %d are alive at once",
                                           other->name, other->offset, tile_end(other), tile->name, tile->offset,
                                           tile_end(tile)));
    }
    return true;
}

static bool overlap(int a, int a_bytes, int b, int b_bytes) { return a < b + b_bytes && b < a + a_bytes; }

// The mbarriers of a ring lie apart from all tiles and from each other.
static bool check_ring(Run *run, const ScheduleRing *ring)
{
    const Schedule *const schedule = run->schedule;
    const int bytes = ring->slots * MBARRIER_BYTES, at[] = { ring->full_offset, ring->empty_offset };
    if (ring->full_offset == 0 && ring->empty_offset == 0) return true; // not placed
    bool clash = overlap(at[0], bytes, at[1], bytes);
    for (int k = 0; k < COUNT(at); k++) {
        clash |= at[k] < 0 || at[k] + bytes > schedule->shared_bytes;
        for (int i = 0; i < schedule->tiles.count; i++) {
            const ScheduleTile *const tile = schedule->tiles.items[i];
            clash |= tile->place == TILE_SHARED && overlap(at[k], bytes, tile->offset, tile_end(tile) - tile->offset);
        }
    }
    return !clash ||
           found(run, FAULT_MEMORY, NULL, "the mbarriers of ring '%s' at %d and %d are not apart from all else",
                 ring->name, at[0], at[1]);
}

// ---- registers

static bool check_registers(Run *run)
{
    const Schedule *const schedule = run->schedule;
    int sum = 0;
    bool any = false;
    for (int i = 0; i < schedule->roles.count; i++) {
        const ScheduleRole *const role = schedule->roles.items[i];
        if (role->registers > THREAD_REGISTERS_MAX || role->registers % 8)
            return found(run, FAULT_MEMORY, NULL, "%s asks for %d registers a thread", role->name, role->registers);
        any |= role->registers > 0;
        sum += (role->registers ? role->registers : schedule->launch_registers) * role->threads;
    }
    if (!any || !schedule->register_limit || sum <= schedule->register_limit) return true;
    return found(run, FAULT_MEMORY, NULL, "the roles ask for %d registers, and a multiprocessor has %d", sum,
                 schedule->register_limit);
}

// Of a thread: accumulators of products in flight are registers at one time, whatever the compiler does.
bool check_held_registers(Run *run, const Agent *agent, const Action *action)
{
    const Schedule *const schedule = run->schedule;
    const int has = agent->role->registers ? agent->role->registers : schedule->launch_registers;
    const int most = has && has < THREAD_REGISTERS_MAX ? has : THREAD_REGISTERS_MAX;
    int held = 0;
    for (int i = 0; i < agent->mmas.count; i++) {
        const int tile = agent->mmas.items[i].action->mma.accumulator;
        bool is_counted = tile < 0;
        for (int before = 0; before < i; before++)
            is_counted |= agent->mmas.items[before].action->mma.accumulator == tile;
        if (!is_counted) held += schedule->tiles.items[tile]->registers;
    }
    return held <= most || found(run, FAULT_MEMORY, action,
                                 "accumulators in flight take %d registers of each thread of %s, which has %d", held,
                                 agent->name, most);
}

bool check_tables(Run *run)
{
    const Schedule *const schedule = run->schedule;
    if (schedule->shared_limit && schedule->shared_bytes > schedule->shared_limit)
        return found(run, FAULT_MEMORY, NULL, "%d bytes of shared memory, and a CTA has %d", schedule->shared_bytes,
                     schedule->shared_limit);
    for (int i = 0; i < schedule->tiles.count; i++)
        if (!check_tile(run, i)) return false;
    for (int i = 0; i < schedule->rings.count; i++)
        if (!check_ring(run, schedule->rings.items[i])) return false;
    return check_registers(run);
}
