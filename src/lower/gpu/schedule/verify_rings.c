// SPDX-License-Identifier: MIT
// verify_rings.c - rings while the roles run: arrivals, phases, and who has which fill.
//
// A phase of a slot's mbarrier is over when the arrivals that it counts have come and as many bytes as were announced. It
// carries what those who arrived knew. mbarriers tell phases apart by parity alone, so that a wait for a phase that is
// more than one in the past never ends: who may wait so late is a fault, too.
#include "lower/gpu/schedule/verify_run.h"

static const ScheduleRing *ring_at(const Run *run, int ring) { return run->schedule->rings.items[ring]; }

int full_count(const Run *run, int ring)
{
    const int elements = ring_at(run, ring)->elements_count;
    return elements && is_unaligned(run) ? elements : ring_at(run, ring)->full_count;
}

static inline Phase *phase_of(const Run *run, int ring, int fill, bool full)
{
    const int slot = fill % ring_at(run, ring)->slots;
    return full ? &run->rings[ring].full[slot] : &run->rings[ring].empty[slot];
}

static inline int fill_at(const Run *run, const Agent *agent, const Action *action)
{
    const RingSlot slot = action->ring.slot;
    return fill_of(run, agent, action->ring.ring, slot == SLOT_NEXT ? 1 : slot == SLOT_HELD ? -1 : 0);
}

bool is_full(const Run *run, int ring, int fill)
{
    return phase_of(run, ring, fill, true)->done > fill / ring_at(run, ring)->slots;
}

bool is_empty(const Run *run, int ring, int fill)
{
    return phase_of(run, ring, fill, false)->done >= fill / ring_at(run, ring)->slots;
}

// ---- arriving

static inline bool end_phase(Run *run, const Agent *agent, const Action *action, int ring, Phase *phase, bool full)
{
    const int count = full ? full_count(run, ring) : ring_at(run, ring)->empty_count;
    if (phase->arrivals < count) return true;
    if (phase->arrivals > count)
        return found(run, FAULT_RING, action, "%s: ring '%s' counts %d arrivals at %s, and %d come", agent->name,
                     ring_at(run, ring)->name, count, full ? "full" : "empty", phase->arrivals);
    if (phase->bytes < 0)
        return found(run, FAULT_RING, action, "%s: copies bring ring '%s' %d bytes more than were announced",
                     agent->name, ring_at(run, ring)->name, -phase->bytes);
    if (phase->bytes > 0) return true;
    phase->done++;
    phase->arrivals = 0;
    phase->all_seen = phase->seen;
    phase->all_fenced = phase->fenced;
    phase->seen = phase->fenced = (VectorClock){ 0 };
    return true;
}

// Of those that the action makes in all: each warp group its part.
static int own_arrivals(const Agent *agent, int arrivals)
{
    return arrivals / agent->groups + (agent->group < arrivals % agent->groups);
}

// A warp releases a ring across the cluster in each of its CTAs.
static int cluster_of(const Run *run, int ring, bool full)
{
    return ring_at(run, ring)->across_cluster && !full ? run->schedule->cluster : 1;
}

static inline bool arrive(Run *run, Agent *agent, const Action *action, int fill, bool full)
{
    const int ring = action->ring.ring, number = fill / ring_at(run, ring)->slots;
    Phase *const phase = phase_of(run, ring, fill, full);
    const int arrivals = own_arrivals(agent, action->ring.arrivals);
    if (arrivals == 0 && action->ring.bytes == 0) return true;
    const bool is_by_lanes = action->kind != ACTION_EXPECT && arrivals <= agent->warps * cluster_of(run, ring, full);
    if (is_by_lanes && !check_lanes(run, agent, action, ring, fill)) return false;
    if (fill < 0 || phase->done != number)
        return found(run, FAULT_RING, action,
                     "%s arrives at %s of ring '%s' for fill %d, and the barrier is at fill %d", agent->name,
                     full ? "full" : "empty", ring_at(run, ring)->name, fill,
                     phase->done * ring_at(run, ring)->slots + (fill < 0 ? 0 : fill % ring_at(run, ring)->slots));
    phase->arrivals += arrivals;
    phase->bytes += full ? action->ring.bytes : 0;
    clock_publish(agent, arrivals >= agent->warps, &phase->seen, &phase->fenced);
    return end_phase(run, agent, action, ring, phase, full);
}

bool complete_bytes(Run *run, Agent *agent, const Action *copy)
{
    const int ring = copy->copy.ring;
    Phase *const phase = phase_of(run, ring, agent->rings[ring].fill, true);
    phase->bytes -= copy->copy.bytes;
    clock_publish(agent, true, &phase->seen, &phase->fenced);
    return phase->arrivals == 0 || end_phase(run, agent, copy, ring, phase, true);
}

// Of a ring whose copies stand in loops or under conditions any number may have come, also none: who reads the tile then
// reads what the source has not written. The arrival hands the slot over in any case.
static inline void hand_over(Run *run, const Action *action, int fill)
{
    const int ring = action->ring.ring;
    if (action->kind != ACTION_ARRIVE || action->ring.arrivals != 1 || ring_at(run, ring)->bytes > 0) return;
    for (int i = 0; i < run->rings[ring].tiles.count; i++) {
        Cell *const cell = &run->cells[cell_of(run, run->rings[ring].tiles.items[i], fill)];
        if (cell->fill < fill + 1) cell->fill = fill + 1;
    }
}

// ---- waiting

static bool block(Agent *agent, Blocked how, int ring, int fill)
{
    agent->blocked = how;
    agent->on = ring;
    agent->fill = fill;
    return true;
}

// Phases that must be over: full: the fill's own; empty: that of the slot's fill before.
static inline bool wait_for(Run *run, Agent *agent, const Action *action, int fill, bool full)
{
    const int ring = action->ring.ring;
    if (fill < 0)
        return found(run, FAULT_RING, action, "%s waits for a slot of ring '%s' before its first fill", agent->name,
                     ring_at(run, ring)->name);
    const int phases = fill / ring_at(run, ring)->slots + full;
    Phase *const phase = phase_of(run, ring, fill, full);
    if (phase->done < phases) return block(agent, full ? ON_FULL : ON_EMPTY, ring, fill);
    if (phase->done > phases)
        return found(run, FAULT_RING, action, "%s waits for fill %d of ring '%s', which can be past already",
                     agent->name, fill, ring_at(run, ring)->name);
    if (phases > 0) clock_learn(agent, &phase->all_seen, &phase->all_fenced);
    RingView *const view = &agent->rings[ring];
    int *const next = full ? &view->waited : &view->acquired;
    if (*next <= fill) {
        *next = fill + 1;
        if (full) view->released &= ~(UINT64_C(1) << (fill & 63));
    }
    return true;
}

static inline bool release(Run *run, Agent *agent, const Action *action, int fill)
{
    const int ring = action->ring.ring;
    RingView *const view = &agent->rings[ring];
    const char *const name = ring_at(run, ring)->name;
    if (own_arrivals(agent, action->ring.arrivals) == 0) return true;
    if (is_released(view, fill))
        return found(run, FAULT_RING, action, "%s releases fill %d of ring '%s' twice", agent->name, fill, name);
    if (view->waited <= fill)
        return found(run, FAULT_RING, action, "%s releases fill %d of ring '%s', for which it has not waited",
                     agent->name, fill, name);
    view->released |= UINT64_C(1) << (fill & 63);
    return check_release(run, agent, action, ring, fill) && arrive(run, agent, action, fill, false);
}

static bool advance(Run *run, Agent *agent, const Action *action)
{
    if (action->ring.ring != NO_RING) agent->rings[action->ring.ring].fill++;
    else if (action->ring.tile >= 0 && action->ring.tile < run->schedule->tiles.count)
        agent->advances[action->ring.tile]++;
    return true;
}

bool run_ring_action(Run *run, Agent *agent, const Action *action)
{
    if (action->kind == ACTION_ADVANCE) return advance(run, agent, action);
    const int fill = fill_at(run, agent, action);
    if (action->kind == ACTION_ACQUIRE) return wait_for(run, agent, action, fill, false);
    if (action->kind == ACTION_WAIT) return wait_for(run, agent, action, fill, true);
    if (action->kind == ACTION_RELEASE) return release(run, agent, action, fill);
    hand_over(run, action, fill);
    return arrive(run, agent, action, fill, true);
}

// ---- when all have ended

static bool check_views(Run *run, int ring)
{
    const Agent *first = NULL;
    for (int a = 0; a < run->n_agents; a++) {
        const Agent *const agent = &run->agents[a];
        if (!agent->rings[ring].uses) continue;
        if (!first) first = agent;
        if (agent->rings[ring].fill != first->rings[ring].fill)
            return found(run, FAULT_RING, NULL, "ring '%s': %s passes %d fills, %s %d", ring_at(run, ring)->name,
                         first->name, first->rings[ring].fill, agent->name, agent->rings[ring].fill);
    }
    return true;
}

bool check_rings_at_end(Run *run)
{
    for (int ring = 0; ring < run->schedule->rings.count; ring++) {
        if (!check_views(run, ring)) return false;
        for (int slot = 0; slot < ring_at(run, ring)->slots; slot++) {
            const Phase *const full = &run->rings[ring].full[slot], *const empty = &run->rings[ring].empty[slot];
            if (full->arrivals || full->bytes)
                return found(run, FAULT_RING, NULL, "ring '%s': a fill ends with %d of %d arrivals, %d bytes missing",
                             ring_at(run, ring)->name, full->arrivals, full_count(run, ring), full->bytes);
            if (empty->arrivals || empty->done != full->done)
                return found(run, FAULT_RING, NULL,
                             "ring '%s': of %d fills of slot %d only %d are released, by %d of %d arrivals",
                             ring_at(run, ring)->name, full->done, slot, empty->done, empty->arrivals,
                             ring_at(run, ring)->empty_count);
        }
    }
    return true;
}
