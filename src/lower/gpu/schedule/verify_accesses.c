// SPDX-License-Identifier: MIT
// verify_accesses.c - tiles while the roles run: what is visible to whom, fences, operations in flight.
//
// before an action: what it reads is visible to the agent and, where TMA or wgmma read it, fenced; what it writes nobody may
//                   still read; nothing in flight is accessed
// after:            its accesses are noted, or are in flight until a wait
#include "lower/gpu/schedule/verify_run.h"

static const ScheduleTile *tile_at(const Run *run, int tile) { return run->schedule->tiles.items[tile]; }

// ---- which slot

static int source_step(const Run *run, const Agent *agent, const TileOp *source)
{
    for (int i = 0; i < run->programs.loops.count; i++)
        if (run->programs.loops.items[i].source == source) return agent->step[i];
    return 0;
}

// The fill that an access of a ring's tile means; of others the number of advances before it.
static int fill_meant(const Run *run, const Agent *agent, const TileAccess *access)
{
    const ScheduleTile *const tile = tile_at(run, access->tile);
    if (tile->ring != NO_RING) return fill_of(run, agent, tile->ring, access->ahead);
    const int step = tile->loop ? source_step(run, agent, tile->loop) : 0;
    return agent->advances[access->tile] + step + access->ahead;
}

int cell_of(const Run *run, int tile, int fill)
{
    const int slots = tile_at(run, tile)->slots > 1 ? tile_at(run, tile)->slots : 1;
    return run->first_cell[tile] + (fill % slots + slots) % slots;
}

static int slots_of(const TileAccess *access) { return access->slots > 1 ? access->slots : 1; }

static bool is_shared(const Run *run, const TileAccess *access)
{
    return tile_at(run, access->tile)->place == TILE_SHARED;
}

// ---- what the agent knows

// Own actions: those that all threads which may access the same part have seen.
static bool knows(const Agent *agent, const ScheduleTile *tile, int other, int when)
{
    if (other != agent->number) return tile->owner != OWNER_CTA || when <= agent->seen.at[other];
    if (tile->owner == OWNER_WARP && when <= agent->warp_seen) return true;
    return (agent->warps <= 1 && tile->owner != OWNER_WARP) || when <= agent->seen.at[other];
}

static void note(CellAccess *access, const Action *action, int now)
{
    *access = (CellAccess){ now, access->last, action };
}

static bool knows_access(const Agent *agent, const ScheduleTile *tile, int other, const CellAccess *access,
                         const Action *action)
{
    if (access->last == 0) return true; // there was none
    const Action *const by = access->action;
    const bool is_same = by == action || (by && by->op && by->op == action->op);
    const bool is_shared_work = other != agent->number && is_same && action->kind != ACTION_COPY;
    return knows(agent, tile, other, is_shared_work ? access->before : access->last);
}

void fence_async(Agent *agent)
{
    clock_join(&agent->fenced, &agent->seen);
    agent->fenced.at[agent->number] = agent->now;
}

// ---- in flight

// Products into one accumulator follow each other in order.
static bool follows(const InFlight *flight, const InFlightAccess *held, const Action *action)
{
    return action->kind == ACTION_MMA && action->mma.is_async && held->writes && flight->action->kind == ACTION_MMA &&
           action->mma.accumulator == held->tile;
}

static const InFlight *find_in_flight(const InFlightList *flights, const Action *action, const TileAccess *access,
                                      int cell)
{
    for (int i = 0; i < flights->count; i++) {
        const InFlight *const flight = &flights->items[i];
        for (int f = 0; f < flight->n; f++) {
            const InFlightAccess *const held = &flight->accesses[f];
            const bool is_there = cell == held->cell || (cell > held->cell && cell < held->cell + held->n_cells);
            if (held->tile != access->tile || !is_there || follows(flight, held, action)) continue;
            if (held->writes || access->writes) return flight;
        }
    }
    return NULL;
}

static bool check_in_flight(Run *run, const Agent *agent, const Action *action, const TileAccess *access, int cell)
{
    const char *const name = tile_at(run, access->tile)->name;
    for (int a = 0; a < run->n_agents; a++) {
        const Agent *const other = &run->agents[a];
        if (other->mmas.count == 0 && other->stores.count == 0) continue;
        const bool is_own = cell < 0 || tile_at(run, access->tile)->owner != OWNER_CTA;
        if (other != agent && is_own) continue;
        if (find_in_flight(&other->mmas, action, access, cell))
            return found(run, FAULT_IN_FLIGHT, action, "%s %s '%s' while an MMA of %s that %s it is in flight",
                         agent->name, access->writes ? "writes" : "reads", name, other->name,
                         cell < 0 && !access->writes ? "writes" : "uses");
        if (find_in_flight(&other->stores, action, access, cell))
            return found(run, FAULT_PROXY, action, "%s writes '%s' while a bulk store of %s reads it", agent->name,
                         name, other->name);
    }
    return true;
}

bool check_release(Run *run, const Agent *agent, const Action *action, int ring, int fill)
{
    const InFlightList *const all[] = { &agent->mmas, &agent->stores };
    for (int k = 0; k < COUNT(all); k++)
        for (int i = 0; i < all[k]->count; i++)
            for (int f = 0; f < all[k]->items[i].n; f++) {
                const InFlightAccess *const held = &all[k]->items[i].accesses[f];
                const ScheduleTile *const tile = tile_at(run, held->tile);
                if (tile->place != TILE_SHARED || tile->ring != ring || held->fill != fill) continue;
                return found(run, k ? FAULT_PROXY : FAULT_IN_FLIGHT, action,
                             "%s releases ring '%s' while %s in flight reads '%s'", agent->name,
                             run->schedule->rings.items[ring]->name, k ? "a bulk store" : "an MMA", tile->name);
            }
    return true;
}

// One lane arrives for its warp: the others have seen each other's accesses to the ring's tiles.
bool check_lanes(Run *run, const Agent *agent, const Action *action, int ring, int fill)
{
    const int seen =
        agent->seen.at[agent->number] > agent->warp_seen ? agent->seen.at[agent->number] : agent->warp_seen;
    const bool releases = action->kind == ACTION_RELEASE;
    for (int t = 0; t < run->schedule->tiles.count; t++) {
        const ScheduleTile *const tile = tile_at(run, t);
        if (tile->place != TILE_SHARED || tile->ring != ring) continue;
        const Cell *const cell = &run->cells[cell_of(run, t, fill)];
        if ((releases ? cell->loaded : cell->stored)[agent->number] > seen)
            return found(run, FAULT_RING, action,
                         "a lane of %s %s ring '%s' while others of its warp may still %s '%s'", agent->name,
                         releases ? "releases" : "fills", run->schedule->rings.items[ring]->name,
                         releases ? "read" : "write", tile->name);
    }
    return true;
}

static void add_in_flight(const Run *run, const Agent *agent, InFlightList *flights, const Action *action)
{
    InFlight flight = { .action = action, .group = agent->commits };
    for (int i = 0; i < action->n_accesses && flight.n < COUNT(flight.accesses); i++) {
        const TileAccess *const access = &action->accesses[i];
        const bool is_accumulator = action->kind == ACTION_MMA && access->tile == action->mma.accumulator;
        if (action->kind != ACTION_COPY && !access->is_async && !is_accumulator) continue;
        const int fill = fill_meant(run, agent, access);
        const int cell = is_shared(run, access) ? cell_of(run, access->tile, fill) : -1;
        flight.accesses[flight.n++] =
            (InFlightAccess){ access->tile, cell, slots_of(access), fill, access->reads, access->writes };
    }
    VEC_PUSH(run->schedule->arena, flights, flight);
}

static void drop_in_flight(InFlightList *flights, int n)
{
    if (n == 0) return;
    flights->count -= n;
    memmove(flights->items, flights->items + n, sizeof *flights->items * (size_t)flights->count);
}

// All but the last so many are over: what they read has been read now.
void retire(Run *run, Agent *agent, InFlightList *flights, int pending)
{
    const int n = flights->count > pending ? flights->count - pending : 0;
    for (int i = 0; i < n; i++)
        for (int f = 0; f < flights->items[i].n; f++)
            for (int c = 0; c < flights->items[i].accesses[f].n_cells && flights->items[i].accesses[f].cell >= 0; c++)
                note(&run->cells[flights->items[i].accesses[f].cell + c].read[agent->number], NULL, agent->now);
    drop_in_flight(flights, n);
}

// Groups of cp.async copies but the last so many: what they wrote is there now, as if this thread had stored it.
void retire_copies(Run *run, Agent *agent, int pending)
{
    int n = 0;
    while (n < agent->copies.count && (pending == 0 || agent->copies.items[n].group < agent->commits - pending)) {
        const InFlight *const flight = &agent->copies.items[n++];
        for (int f = 0; f < flight->n; f++) {
            if (flight->accesses[f].cell < 0 || !flight->accesses[f].writes) continue;
            Cell *const cell = &run->cells[flight->accesses[f].cell];
            cell->copying--;
            note(&cell->written[agent->number], NULL, agent->now);
            cell->stored[agent->number] = agent->now;
        }
    }
    drop_in_flight(&agent->copies, n);
}

// ---- reading

static bool check_fill(Run *run, const Agent *agent, const Action *action, const TileAccess *access, const Cell *cell)
{
    const ScheduleTile *const tile = tile_at(run, access->tile);
    const int fill = fill_meant(run, agent, access);
    const RingView *const view = &agent->rings[tile->ring];
    if (is_released(view, fill))
        return found(run, FAULT_RING, action, "%s uses '%s' after it has released ring '%s'", agent->name, tile->name,
                     run->schedule->rings.items[tile->ring]->name);
    const bool is_filler = view->fills && view->acquired > fill;
    // Where a condition kept the fill's copy back the tile is undefined, which is the kernel's business. Filled after this it
    // would be a fault of whoever fills it: it is being read. With all conditions true there is a fill.
    const bool is_left_out = run->pattern != 0 && view->waited > fill && cell->fill <= fill;
    if (is_filler || is_left_out || (cell->fill == fill + 1 && view->waited > fill)) return true;
    return found(run, FAULT_NOT_VISIBLE, action, "%s reads '%s' before it has waited for ring '%s'", agent->name,
                 tile->name, run->schedule->rings.items[tile->ring]->name);
}

static bool check_read(Run *run, const Agent *agent, const Action *action, const TileAccess *access, const Cell *cell)
{
    const ScheduleTile *const tile = tile_at(run, access->tile);
    if (cell->copying)
        return found(run, FAULT_NOT_VISIBLE, action, "%s reads '%s' while cp.async copies into it are not waited for",
                     agent->name, tile->name);
    if (tile->ring != NO_RING && !check_fill(run, agent, action, access, cell)) return false;
    for (int a = 0; a < run->n_agents; a++)
        if (!knows_access(agent, tile, a, &cell->written[a], action) ||
            (!access->is_addition && !knows_access(agent, tile, a, &cell->added[a], action)))
            return found(run, FAULT_NOT_VISIBLE, action,
                         "%s reads '%s': no wait or barrier makes what %s wrote visible", agent->name, tile->name,
                         a == agent->number ? "its other threads" : run->agents[a].name);
    return true;
}

// What threads have stored the async proxy sees after a fence between the two.
static bool check_fence(Run *run, const Agent *agent, const Action *action, const TileAccess *access, const Cell *cell)
{
    if (!run->schedule->has_async_proxy || !access->is_async || !access->reads) return true;
    const bool is_own = tile_at(run, access->tile)->owner != OWNER_CTA;
    for (int a = 0; a < run->n_agents; a++)
        if (cell->stored[a] > agent->fenced.at[a] && (a == agent->number || !is_own))
            return found(run, FAULT_PROXY, action,
                         "%s: '%s' is stored by threads of %s and read by the async proxy without a fence between",
                         agent->name, tile_at(run, access->tile)->name, run->agents[a].name);
    return true;
}

// ---- writing

// An arrival may overtake loads, which the async proxy does not wait for either: a fence stands between them and the copy.
static bool check_fetched(Run *run, const Agent *agent, const Action *action, const TileAccess *access,
                          const Cell *cell)
{
    if (!run->schedule->has_async_proxy || !access->is_async) return true;
    for (int a = 0; a < run->n_agents; a++)
        if (cell->fetched[a] > agent->fenced.at[a])
            return found(run, FAULT_PROXY, action,
                         "%s: '%s' is loaded by threads of %s and written by the async proxy without a fence between",
                         agent->name, tile_at(run, access->tile)->name, run->agents[a].name);
    return true;
}

static bool check_write(Run *run, const Agent *agent, const Action *action, const TileAccess *access, const Cell *cell)
{
    const ScheduleTile *const tile = tile_at(run, access->tile);
    const bool in_ring = tile->ring != NO_RING;
    if (in_ring) {
        const int fill = fill_meant(run, agent, access);
        const RingView *const view = &agent->rings[tile->ring];
        const char *const ring = run->schedule->rings.items[tile->ring]->name;
        const bool has_it = view->acquired > fill || (view->waited > fill && !is_released(view, fill));
        if (!has_it)
            return found(run, FAULT_RING, action, "%s fills '%s' before it has acquired a slot of ring '%s'",
                         agent->name, tile->name, ring);
    }
    for (int a = 0; a < run->n_agents; a++)
        if (!knows_access(agent, tile, a, &cell->read[a], action) ||
            (!access->is_addition && !knows_access(agent, tile, a, &cell->added[a], action)))
            return found(run, in_ring ? FAULT_RING : FAULT_NOT_VISIBLE, action,
                         "%s writes '%s' while %s may still read it", agent->name, tile->name,
                         a == agent->number ? "its other threads" : run->agents[a].name);
    return check_fetched(run, agent, action, access, cell);
}

static void note_write(const Agent *agent, const Action *action, const TileAccess *access, Cell *cell, int fill)
{
    const bool is_copying =
        action->kind == ACTION_COPY && action->copy.how == COPY_CP_ASYNC && action->copy.ring == NO_RING;
    cell->fill = fill + 1;
    cell->copying += is_copying;
    if (is_copying) return;
    note(access->is_addition ? &cell->added[agent->number] : &cell->written[agent->number], action, agent->now);
    if (access->is_async) memset(cell->stored, 0, sizeof cell->stored);
    else cell->stored[agent->number] = agent->now;
}

// ---- an action

static bool check_slot(Run *run, const Agent *agent, const Action *action, const TileAccess *access, int fill)
{
    const int at = cell_of(run, access->tile, fill);
    const Cell *const cell = &run->cells[at];
    if (!check_in_flight(run, agent, action, access, at)) return false;
    if (access->reads && !check_read(run, agent, action, access, cell)) return false;
    if (!check_fence(run, agent, action, access, cell)) return false;
    return !access->writes || check_write(run, agent, action, access, cell);
}

static bool check_access(Run *run, const Agent *agent, const Action *action, const TileAccess *access)
{
    if (!is_shared(run, access)) return check_in_flight(run, agent, action, access, -1);
    const int fill = fill_meant(run, agent, access);
    for (int i = 0; i < slots_of(access); i++)
        if (!check_slot(run, agent, action, access, fill + i)) return false;
    return run->overlaps[access->tile].count == 0 || check_overlaps(run, agent, action, access);
}

// wgmma, mma.sync and ldmatrix: no lane has what it reads before the others have.
static bool is_by_warps(const Action *action)
{
    return action->kind == ACTION_MMA || action->kind == ACTION_LDMATRIX || action->kind == ACTION_STORE;
}

static void note_access(Run *run, const Agent *agent, const Action *action, const TileAccess *access)
{
    if (!is_shared(run, access)) return;
    const int fill = fill_meant(run, agent, access);
    for (int i = 0; i < slots_of(access); i++) {
        Cell *const cell = &run->cells[cell_of(run, access->tile, fill + i)];
        if (access->reads && !access->is_addition) note(&cell->read[agent->number], action, agent->now);
        if (access->reads && !access->is_async) cell->fetched[agent->number] = agent->now;
        if (access->reads && !is_by_warps(action)) cell->loaded[agent->number] = agent->now;
        if (access->writes) note_write(agent, action, access, cell, fill + i);
    }
    if (run->overlaps[access->tile].count > 0 && access->writes) note_overlaps(run, agent, access);
}

// Rows are shifted where cp.async has put them, each by the warp that has waited for its own copies.
static bool check_shifted(Run *run, const Agent *agent, const Action *action)
{
    for (int i = 0; i < action->n_accesses && action->kind == ACTION_COPY && action->copy.shifts; i++) {
        const int tile = action->accesses[i].tile, fill = fill_meant(run, agent, &action->accesses[i]);
        const Cell *const cell = &run->cells[cell_of(run, tile, fill)];
        const char *const why = cell->fill != fill + 1 ? "into which nothing of this step has been copied"
                                : cell->copying        ? "while cp.async copies into it are not waited for"
                                                       : NULL;
        if (why)
            return found(run, FAULT_NOT_VISIBLE, action, "%s shifts rows of '%s', %s", agent->name,
                         tile_at(run, tile)->name, why);
    }
    return true;
}

static bool check_acquired(Run *run, const Agent *agent, const Action *action)
{
    if (action->kind != ACTION_COPY || action->copy.ring == NO_RING) return true;
    const RingView *const view = &agent->rings[action->copy.ring];
    if (view->acquired > view->fill) return true;
    return found(run, FAULT_RING, action, "%s copies into ring '%s' before it has acquired a slot", agent->name,
                 run->schedule->rings.items[action->copy.ring]->name);
}

bool run_accesses(Run *run, Agent *agent, const Action *action)
{
    bool is_async = false;
    if (!check_acquired(run, agent, action) || !check_shifted(run, agent, action)) return false;
    for (int i = 0; i < action->n_accesses; i++) {
        if (!check_access(run, agent, action, &action->accesses[i])) return false;
        is_async |= action->accesses[i].is_async;
    }
    for (int i = 0; i < action->n_accesses; i++) note_access(run, agent, action, &action->accesses[i]);
    if (action->kind == ACTION_MMA && action->mma.is_async) {
        add_in_flight(run, agent, &agent->mmas, action);
        if (!check_held_registers(run, agent, action)) return false;
    }
    if (action->kind == ACTION_STORE && is_async) add_in_flight(run, agent, &agent->stores, action);
    if (action->kind != ACTION_COPY) return true;
    if (action->copy.ring != NO_RING) return action->copy.bytes == 0 || complete_bytes(run, agent, action);
    if (action->copy.how == COPY_CP_ASYNC) add_in_flight(run, agent, &agent->copies, action);
    return true;
}
