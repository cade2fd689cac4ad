// SPDX-License-Identifier: MIT
// verify_deadlock.c - nobody can go on: why.
//
// Who waits for something that nobody will do any more (all who could have passed it or ended) has found a fault of counts.
// Else each waits for one that waits itself: the circle is the fault.
#include "lower/gpu/schedule/verify_run.h"

static const char *ring_name(const Run *run, int ring) { return run->schedule->rings.items[ring]->name; }

static const char *wait_text(const Run *run, const Agent *agent)
{
    Arena *const arena = run->schedule->arena;
    if (agent->blocked == ON_FULL)
        return arena_printf(arena, "fill %d of ring '%s'", agent->fill, ring_name(run, agent->on));
    if (agent->blocked == ON_EMPTY) return arena_printf(arena, "an empty slot of ring '%s'", ring_name(run, agent->on));
    return arena_printf(arena, "barrier %d", agent->on);
}

static const Action *action_of(const Agent *agent) { return agent->program->steps.items[agent->pc].action; }

// Whether `other` may still do what the agent waits for.
static bool may_release(const Run *run, const Agent *agent, const Agent *other)
{
    const int wanted = agent->fill - run->schedule->rings.items[agent->on]->slots;
    const RingView *const view = &other->rings[agent->on];
    return view->releases && other->blocked != HAS_ENDED && !is_released(view, wanted) && view->fill <= wanted;
}

static bool may_fill(const Agent *agent, const Agent *other)
{
    const RingView *const view = &other->rings[agent->on];
    return view->fills && other->blocked != HAS_ENDED && view->fill <= agent->fill;
}

static bool may_come(const Run *run, const Agent *agent, const Agent *other)
{
    return other->blocked != HAS_ENDED && !run->barriers[agent->on].came[other->number] && other->comes[agent->on];
}

static const Agent *waits_for(const Run *run, const Agent *agent)
{
    for (int a = 0; a < run->n_agents; a++) {
        const Agent *const other = &run->agents[a];
        if (agent->blocked == ON_EMPTY  ? may_release(run, agent, other)
            : agent->blocked == ON_FULL ? may_fill(agent, other)
                                        : other != agent && may_come(run, agent, other))
            return other;
    }
    return NULL;
}

// Nobody will do what the agent waits for.
static void report_missing(Run *run, const Agent *agent)
{
    const Action *const action = action_of(agent);
    if (agent->blocked == ON_BARRIER) {
        const BarrierRun *const barrier = &run->barriers[agent->on];
        found(run, FAULT_BARRIER, action, "%s waits at barrier %d for %d threads, and only %d come", agent->name,
              agent->on, barrier->threads, barrier->arrived);
        return;
    }
    const ScheduleRing *const ring = run->schedule->rings.items[agent->on];
    const RingRun *const state = &run->rings[agent->on];
    const int slot = agent->fill % ring->slots;
    if (agent->blocked == ON_FULL) {
        found(run, FAULT_RING, action,
              "%s waits for fill %d of ring '%s', at which %d of %d arrivals come and %d bytes miss", agent->name,
              agent->fill, ring->name, state->full[slot].arrivals, full_count(run, agent->on), state->full[slot].bytes);
        return;
    }
    const int wanted = agent->fill - ring->slots;
    for (int a = 0; a < run->n_agents; a++) {
        const Agent *const other = &run->agents[a];
        const RingView *const view = &other->rings[agent->on];
        if (!view->uses || view->fills || is_released(view, wanted)) continue;
        found(run, FAULT_RING, action, "%s never releases fill %d of ring '%s', for which %s waits", other->name,
              wanted, ring->name, agent->name);
    }
    found(run, FAULT_RING, action, "%s waits for a slot of ring '%s', released with %d of %d arrivals", agent->name,
          ring->name, state->empty[slot].arrivals, ring->empty_count);
}

void explain_deadlock(Run *run)
{
    const Agent *first = NULL;
    for (int a = 0; a < run->n_agents; a++) {
        const Agent *const agent = &run->agents[a];
        if (agent->blocked == HAS_ENDED) continue;
        if (!first) first = agent;
        if (waits_for(run, agent)) continue;
        report_missing(run, agent);
        return;
    }
    const Agent *agent = first; // on the way to the circle, then around it
    for (int n = 0; n < run->n_agents; n++) agent = waits_for(run, agent);
    Text text = { .arena = run->schedule->arena };
    const Agent *at = agent;
    do {
        const Agent *const next = waits_for(run, at);
        text_print(&text, "%s%s waits for %s from %s", at == agent ? "" : ", ", at->name, wait_text(run, at),
                   next->name);
        at = next;
    } while (at != agent);
    found(run, FAULT_DEADLOCK, action_of(agent), "%s", text_cstr(&text));
}
