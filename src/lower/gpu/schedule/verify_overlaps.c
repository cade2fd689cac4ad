// SPDX-License-Identifier: MIT
// verify_overlaps.c - tiles that lie where others do, while the roles run.
//
// Tiles of which one is_over may overlap: each is written while the contents of the other are not needed.
//
// before a write: accesses to what lies there are over, and the agent knows it
// before a read:  nothing has been written there since the tile was
#include "lower/gpu/schedule/verify_run.h"

bool tiles_overlap(const ScheduleTile *tile, const ScheduleTile *other)
{
    return tile->offset < tile_end(other) && other->offset < tile_end(tile);
}

static bool may_overlap(const ScheduleTile *tile, const ScheduleTile *other)
{
    return other != tile && tile->place == TILE_SHARED && other->place == TILE_SHARED &&
           (tile->is_over || other->is_over) && tiles_overlap(tile, other);
}

// Every access asks which they are, so they are found once.
void find_overlaps(Run *run)
{
    const Schedule *const schedule = run->schedule;
    run->overlaps = NEW_ARRAY(schedule->arena, TileNumbers, schedule->tiles.count + 1);
    for (int t = 0; t < schedule->tiles.count; t++)
        for (int other = 0; other < schedule->tiles.count; other++)
            if (may_overlap(schedule->tiles.items[t], schedule->tiles.items[other]))
                VEC_PUSH(schedule->arena, &run->overlaps[t], other);
}

// The bytes that an agent uses of a tile: all, or its part.
typedef struct Place {
    int begin, end;
} Place;

static Place place_of(const ScheduleTile *tile, const Agent *agent)
{
    if (!tile->parts) return (Place){ tile->offset, tile_end(tile) };
    const int begin = tile->offset + agent->group * tile->part_bytes;
    return (Place){ begin, begin + tile->part_bytes };
}

static bool parts_overlap(const ScheduleTile *tile, const Agent *agent, const ScheduleTile *other, const Agent *by)
{
    const Place a = place_of(tile, agent), b = place_of(other, by);
    return a.begin < b.end && b.begin < a.end;
}

static int cells_of(const ScheduleTile *tile) { return tile->slots > 1 ? tile->slots : 1; }

static bool is_in_flight(const InFlightList *flights, int tile)
{
    for (int i = 0; i < flights->count; i++)
        for (int f = 0; f < flights->items[i].n; f++)
            if (flights->items[i].accesses[f].tile == tile) return true;
    return false;
}

// Whether all that `by` has done to the tile is over, and the agent knows it.
static bool is_over(const Run *run, const Agent *agent, int tile, const Agent *by)
{
    if (is_in_flight(&by->mmas, tile) || is_in_flight(&by->stores, tile) || is_in_flight(&by->copies, tile))
        return false;
    const int seen = by == agent && agent->warps <= 1 ? agent->now : agent->seen.at[by->number];
    for (int c = 0; c < cells_of(run->schedule->tiles.items[tile]); c++) {
        const Cell *const cell = &run->cells[run->first_cell[tile] + c];
        if (cell->read[by->number].last > seen || cell->written[by->number].last > seen ||
            cell->added[by->number].last > seen)
            return false;
    }
    return true;
}

static bool check_write(Run *run, const Agent *agent, const Action *action, int tile, int other)
{
    const ScheduleTile *const written = run->schedule->tiles.items[tile], *const lies =
                                                                              run->schedule->tiles.items[other];
    for (int a = 0; a < run->n_agents; a++)
        if (parts_overlap(written, agent, lies, &run->agents[a]) && !is_over(run, agent, other, &run->agents[a]))
            return found(run, FAULT_MEMORY, action, "%s writes '%s' where '%s' lies, which %s may still use",
                         agent->name, written->name, lies->name,
                         a == agent->number ? "its other threads" : run->agents[a].name);
    return true;
}

bool check_overlaps(Run *run, const Agent *agent, const Action *action, const TileAccess *access)
{
    const ScheduleTile *const tile = run->schedule->tiles.items[access->tile];
    for (int c = 0; c < cells_of(tile) && access->reads; c++) {
        const ScheduleTile *const by = run->cells[run->first_cell[access->tile] + c].lost[agent->number];
        if (by)
            return found(run, FAULT_MEMORY, action, "%s reads '%s' after '%s' was written in its place", agent->name,
                         tile->name, by->name);
    }
    const TileNumbers *const others = &run->overlaps[access->tile];
    for (int i = 0; i < others->count && access->writes; i++)
        if (!check_write(run, agent, action, access->tile, others->items[i])) return false;
    return true;
}

static void set_lost(Run *run, int tile, int agent, const ScheduleTile *to)
{
    for (int c = 0; c < cells_of(run->schedule->tiles.items[tile]); c++)
        run->cells[run->first_cell[tile] + c].lost[agent] = to;
}

// Of what is written, others have lost their contents.
void note_overlaps(Run *run, const Agent *agent, const TileAccess *access)
{
    const ScheduleTile *const tile = run->schedule->tiles.items[access->tile];
    const TileNumbers *const others = &run->overlaps[access->tile];
    for (int a = 0; a < run->n_agents; a++)
        if (!tile->parts || a == agent->number) set_lost(run, access->tile, a, NULL);
    for (int i = 0; i < others->count; i++) {
        const int other = others->items[i];
        for (int a = 0; a < run->n_agents; a++)
            if (parts_overlap(tile, agent, run->schedule->tiles.items[other], &run->agents[a]))
                set_lost(run, other, a, tile);
    }
}
