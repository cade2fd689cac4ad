// SPDX-License-Identifier: MIT
// verify_accesses.c - tiles while the roles run: what is visible to whom, fences, operations in flight.
//
// before an action: what it reads is visible to the agent and, where TMA or wgmma read it, fenced; what it writes nobody may
//                   still read; nothing in flight is accessed
// after:            its accesses are noted, or are in flight until a wait
#include "lower/gpu/schedule/verify_run.h"

static const ScheduleTile *tile_at(const Run *run, int tile) { return run->tiles[tile]; }

// ---- which slot

static inline int source_step(const Run *run, const Agent *agent, const TileOp *source)
{
    for (int i = 0; i < run->programs.loops.count; i++)
        if (run->programs.loops.items[i].source == source) return agent->step[i];
    return 0;
}

// The fill that an access of a ring's tile means; of others the number of advances before it.
static inline int fill_meant(const Run *run, const Agent *agent, const TileAccess *access)
{
    const ScheduleTile *const tile = tile_at(run, access->tile);
    if (tile->ring != NO_RING) return fill_of(run, agent, tile->ring, access->ahead);
    const int step = tile->loop ? source_step(run, agent, tile->loop) : 0;
    return agent->advances[access->tile] + step + access->ahead;
}

static int slots_of(const TileAccess *access) { return access->slots > 1 ? access->slots : 1; }

static AccessPlace place_of(const Run *run, const Agent *agent, const TileAccess *access)
{
    const ScheduleTile *const tile = tile_at(run, access->tile);
    if (tile->place != TILE_SHARED) return (AccessPlace){ tile, 0, -1 };
    const int fill = fill_meant(run, agent, access);
    return (AccessPlace){ tile, fill, cell_of(run, access->tile, fill) };
}

// Of a shared tile: the cell of the access's slot i.
static Cell *cell_at(const Run *run, const TileAccess *access, const AccessPlace *place, int i)
{
    return &run->cells[i == 0 ? place->cell : cell_of(run, access->tile, place->fill + i)];
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

static inline bool knows_access(const Agent *agent, const ScheduleTile *tile, int other, const CellAccess *access,
                                const Action *action)
{
    const Action *const by = access->action;
    const bool is_same = by == action || (by && by->op && by->op == action->op);
    const bool is_shared_work = other != agent->number && is_same && action->kind != ACTION_COPY;
    return knows(agent, tile, other, is_shared_work ? access->before : access->last);
}

// The first whose access the agent does not know of; -1: none.
static inline int find_unknown(const Agent *agent, const ScheduleTile *tile, const CellAccess *accesses,
                               const Action *action)
{
    const int own = agent->number;
    if (tile->owner != OWNER_CTA) return knows_access(agent, tile, own, &accesses[own], action) ? -1 : own;
    for (int a = 0; a < agent->agents; a++)
        if (accesses[a].last > agent->seen.at[a] && !knows_access(agent, tile, a, &accesses[a], action)) return a;
    return -1;
}

void fence_async(Agent *agent)
{
    clock_join(&agent->fenced, &agent->seen, agent->agents);
    agent->fenced.at[agent->number] = agent->now;
}

// ---- in flight

// Products into one accumulator follow each other in order.
static bool follows(const InFlight *flight, const InFlightAccess *held, const Action *action)
{
    return action->kind == ACTION_MMA && action->mma.is_async && held->writes && flight->action->kind == ACTION_MMA &&
           action->mma.accumulator == held->tile;
}

static inline const InFlight *find_in_flight(const InFlightList *flights, const Action *action,
                                             const TileAccess *access, int cell)
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

static inline bool check_flights(Run *run, const Agent *agent, const Agent *other, const Action *action,
                                 const TileAccess *access, int cell)
{
    const char *const name = tile_at(run, access->tile)->name;
    if (other->mmas.count && find_in_flight(&other->mmas, action, access, cell))
        return found(run, FAULT_IN_FLIGHT, action, "%s %s '%s' while an MMA of %s that %s it is in flight", agent->name,
                     access->writes ? "writes" : "reads", name, other->name,
                     cell < 0 && !access->writes ? "writes" : "uses");
    if (other->stores.count && find_in_flight(&other->stores, action, access, cell))
        return found(run, FAULT_PROXY, action, "%s writes '%s' while a bulk store of %s reads it", agent->name, name,
                     other->name);
    return true;
}

static bool is_in_flight(const Run *run, const TileAccess *access)
{
    return run->in_flight_writes[access->tile] > 0 || (access->writes && run->in_flight_reads[access->tile] > 0);
}

static inline bool check_in_flight(Run *run, const Agent *agent, const Action *action, const TileAccess *access,
                                   int cell)
{
    if (cell < 0 || tile_at(run, access->tile)->owner != OWNER_CTA)
        return check_flights(run, agent, agent, action, access, cell);
    for (int a = 0; a < run->n_agents; a++) {
        const Agent *const other = &run->agents[a];
        if ((other->mmas.count || other->stores.count) && !check_flights(run, agent, other, action, access, cell))
            return false;
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
    for (int i = 0; i < run->rings[ring].tiles.count; i++) {
        const int number = run->rings[ring].tiles.items[i];
        const ScheduleTile *const tile = tile_at(run, number);
        const Cell *const cell = &run->cells[cell_of(run, number, fill)];
        if ((releases ? cell->loaded : cell->stored)[agent->number] > seen)
            return found(run, FAULT_RING, action,
                         "a lane of %s %s ring '%s' while others of its warp may still %s '%s'", agent->name,
                         releases ? "releases" : "fills", run->schedule->rings.items[ring]->name,
                         releases ? "read" : "write", tile->name);
    }
    return true;
}

static void count_flight(Run *run, int tile, bool writes, int more)
{
    (writes ? run->in_flight_writes : run->in_flight_reads)[tile] += more;
}

static inline void add_in_flight(Run *run, const Agent *agent, InFlightList *flights, const Action *action)
{
    if (flights->count == flights->capacity) {
        VEC_PUSH(run->schedule->arena, flights, (InFlight){ .action = action });
        flights->count--;
    }
    InFlight *const flight = &flights->items[flights->count++];
    flight->action = action;
    flight->group = agent->commits;
    flight->n = 0;
    for (int i = 0; i < action->n_accesses && flight->n < COUNT(flight->accesses); i++) {
        const TileAccess *const access = &action->accesses[i];
        const bool is_accumulator = action->kind == ACTION_MMA && access->tile == action->mma.accumulator;
        if (action->kind != ACTION_COPY && !access->is_async && !is_accumulator) continue;
        const AccessPlace *const place = &run->places[i];
        flight->accesses[flight->n++] =
            (InFlightAccess){ access->tile, place->cell, slots_of(access), place->fill, access->reads, access->writes };
        count_flight(run, access->tile, access->writes, 1);
    }
}

static inline void drop_in_flight(Run *run, InFlightList *flights, int n)
{
    if (n == 0) return;
    for (int i = 0; i < n; i++)
        for (int f = 0; f < flights->items[i].n; f++)
            count_flight(run, flights->items[i].accesses[f].tile, flights->items[i].accesses[f].writes, -1);
    flights->count -= n;
    memmove(flights->items, flights->items + n, sizeof *flights->items * (size_t)flights->count);
}

// All but the last so many are over: what they read has been read now.
void retire(Run *run, Agent *agent, InFlightList *flights, int pending)
{
    const int n = flights->count > pending ? flights->count - pending : 0;
    for (int i = 0; i < n; i++)
        for (int f = 0; f < flights->items[i].n; f++) {
            const InFlightAccess *const held = &flights->items[i].accesses[f];
            for (int c = 0; c < held->n_cells && held->cell >= 0; c++)
                note(&run->cells[held->cell + c].read[agent->number], NULL, agent->now);
        }
    drop_in_flight(run, flights, n);
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
    drop_in_flight(run, &agent->copies, n);
}

// ---- reading

// An access to a slot, while it is checked. fill: of the access's first slot.
typedef struct SlotAccess {
    const TileAccess *access;
    const ScheduleTile *tile;
    const Cell *cell;
    int fill;
} SlotAccess;

static bool check_fill(Run *run, const Agent *agent, const Action *action, const SlotAccess *at)
{
    const ScheduleTile *const tile = at->tile;
    const Cell *const cell = at->cell;
    const int fill = at->fill;
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

static bool check_read(Run *run, const Agent *agent, const Action *action, const SlotAccess *at)
{
    const ScheduleTile *const tile = at->tile;
    const Cell *const cell = at->cell;
    if (cell->copying)
        return found(run, FAULT_NOT_VISIBLE, action, "%s reads '%s' while cp.async copies into it are not waited for",
                     agent->name, tile->name);
    if (tile->ring != NO_RING && !check_fill(run, agent, action, at)) return false;
    int by = find_unknown(agent, tile, cell->written, action);
    if (by < 0 && cell->is_added && !at->access->is_addition) by = find_unknown(agent, tile, cell->added, action);
    return by < 0 ||
           found(run, FAULT_NOT_VISIBLE, action, "%s reads '%s': no wait or barrier makes what %s wrote visible",
                 agent->name, tile->name, by == agent->number ? "its other threads" : run->agents[by].name);
}

// What threads have stored the async proxy sees after a fence between the two.
static bool check_fence(Run *run, const Agent *agent, const Action *action, const SlotAccess *at)
{
    if (!run->schedule->has_async_proxy || !at->access->is_async || !at->access->reads) return true;
    const bool is_own = at->tile->owner != OWNER_CTA;
    for (int a = is_own ? agent->number : 0, end = is_own ? a + 1 : run->n_agents; a < end; a++)
        if (at->cell->stored[a] > agent->fenced.at[a])
            return found(run, FAULT_PROXY, action,
                         "%s: '%s' is stored by threads of %s and read by the async proxy without a fence between",
                         agent->name, at->tile->name, run->agents[a].name);
    return true;
}

// ---- writing

// An arrival may overtake loads, which the async proxy does not wait for either: a fence stands between them and the copy.
static bool check_fetched(Run *run, const Agent *agent, const Action *action, const SlotAccess *at)
{
    if (!run->schedule->has_async_proxy || !at->access->is_async) return true;
    for (int a = 0; a < run->n_agents; a++)
        if (at->cell->fetched[a] > agent->fenced.at[a])
            return found(run, FAULT_PROXY, action,
                         "%s: '%s' is loaded by threads of %s and written by the async proxy without a fence between",
                         agent->name, at->tile->name, run->agents[a].name);
    return true;
}

static bool check_write(Run *run, const Agent *agent, const Action *action, const SlotAccess *at)
{
    const ScheduleTile *const tile = at->tile;
    const Cell *const cell = at->cell;
    const bool in_ring = tile->ring != NO_RING;
    if (in_ring) {
        const int fill = at->fill;
        const RingView *const view = &agent->rings[tile->ring];
        const char *const ring = run->schedule->rings.items[tile->ring]->name;
        const bool has_it = view->acquired > fill || (view->waited > fill && !is_released(view, fill));
        if (!has_it)
            return found(run, FAULT_RING, action, "%s fills '%s' before it has acquired a slot of ring '%s'",
                         agent->name, tile->name, ring);
    }
    int by = find_unknown(agent, tile, cell->read, action);
    if (by < 0 && cell->is_added && !at->access->is_addition) by = find_unknown(agent, tile, cell->added, action);
    if (by >= 0)
        return found(run, in_ring ? FAULT_RING : FAULT_NOT_VISIBLE, action, "%s writes '%s' while %s may still read it",
                     agent->name, tile->name, by == agent->number ? "its other threads" : run->agents[by].name);
    return check_fetched(run, agent, action, at);
}

static void note_write(const Agent *agent, const Action *action, const TileAccess *access, Cell *cell, int fill)
{
    const bool is_copying =
        action->kind == ACTION_COPY && action->copy.how == COPY_CP_ASYNC && action->copy.ring == NO_RING;
    cell->fill = fill + 1;
    cell->copying += is_copying;
    if (is_copying) return;
    cell->is_added |= access->is_addition;
    note(access->is_addition ? &cell->added[agent->number] : &cell->written[agent->number], action, agent->now);
    for (int a = 0; a < agent->agents && access->is_async; a++) cell->stored[a] = 0;
    if (!access->is_async) cell->stored[agent->number] = agent->now;
}

// ---- an action

static bool check_slot(Run *run, const Agent *agent, const Action *action, const SlotAccess *at)
{
    const TileAccess *const access = at->access;
    if (is_in_flight(run, access) && !check_in_flight(run, agent, action, access, (int)(at->cell - run->cells)))
        return false;
    if (access->reads && !check_read(run, agent, action, at)) return false;
    if (!check_fence(run, agent, action, at)) return false;
    return !access->writes || check_write(run, agent, action, at);
}

static bool check_access(Run *run, const Agent *agent, const Action *action, const TileAccess *access,
                         const AccessPlace *place)
{
    SlotAccess at = { .access = access, .tile = place->tile, .fill = place->fill };
    if (place->cell < 0) return !is_in_flight(run, access) || check_in_flight(run, agent, action, access, -1);
    for (int i = 0, slots = slots_of(access); i < slots; i++) {
        at.cell = cell_at(run, access, place, i);
        if (!check_slot(run, agent, action, &at)) return false;
    }
    return run->overlaps[access->tile].count == 0 || check_overlaps(run, agent, action, access);
}

// wgmma, mma.sync and ldmatrix: no lane has what it reads before the others have.
static bool is_by_warps(const Action *action)
{
    return action->kind == ACTION_MMA || action->kind == ACTION_LDMATRIX || action->kind == ACTION_STORE;
}

static void note_access(Run *run, const Agent *agent, const Action *action, const TileAccess *access,
                        const AccessPlace *place)
{
    if (place->cell < 0) return;
    for (int i = 0, slots = slots_of(access); i < slots; i++) {
        Cell *const cell = cell_at(run, access, place, i);
        if (access->reads && !access->is_addition) note(&cell->read[agent->number], action, agent->now);
        if (access->reads && !access->is_async) cell->fetched[agent->number] = agent->now;
        if (access->reads && !is_by_warps(action)) cell->loaded[agent->number] = agent->now;
        if (access->writes) note_write(agent, action, access, cell, place->fill + i);
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
        run->places[i] = place_of(run, agent, &action->accesses[i]);
        if (!check_access(run, agent, action, &action->accesses[i], &run->places[i])) return false;
        is_async |= action->accesses[i].is_async;
    }
    for (int i = 0; i < action->n_accesses; i++) note_access(run, agent, action, &action->accesses[i], &run->places[i]);
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
