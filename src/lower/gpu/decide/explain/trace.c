// SPDX-License-Identifier: MIT
// trace.c - which actions of a schedule a traced build records: waits, and the steps of the loops around them.
//
// before: the roles are complete        after: Action.trace of these, and Schedule.trace; nothing else has changed
#include "lower/gpu/decide/explain/trace.h"
#include "plan/trace.h"

typedef struct Walk {
    Lowering *lo;
    Schedule *schedule;
    const ScheduleRole *role;
    Span last; // of the action with a place in the source that came last
} Walk;

// ---- what an action waits for

static const char *ring_text(const Walk *walk, const char *how, const Action *action)
{
    return arena_printf(walk->lo->arena, "%s slot of %s", how, walk->schedule->rings.items[action->ring.ring]->name);
}

static const char *pending_text(const Walk *walk, const char *what, const Action *action)
{
    const int pending = action->wait.pending;
    return pending ? arena_printf(walk->lo->arena, "%s, but for the last %d", what, pending) : what;
}

static const char *barrier_text(const Walk *walk, const Action *action)
{
    if (action->barrier.barrier == 0) return "__syncthreads";
    const char *const of = action->barrier.of == BARRIER_ONE ? "" : " + group";
    return arena_printf(walk->lo->arena, "barrier %d%s, %d threads", action->barrier.barrier, of,
                        action->barrier.threads);
}

static bool is_event(TraceEvent *event, const char *kind, const char *what)
{
    *event = (TraceEvent){ .kind = kind, .what = what };
    return true;
}

// False: it does not wait. What a warp does within itself is not recorded: it takes less than the record.
static bool is_wait(const Walk *walk, const Action *action, TraceEvent *event)
{
    switch ((int)action->kind) {
    case ACTION_ACQUIRE: return is_event(event, "empty", ring_text(walk, "empty", action));
    case ACTION_WAIT: return is_event(event, "full", ring_text(walk, "full", action));
    case ACTION_COPY_WAIT: return is_event(event, "copies", pending_text(walk, "copies", action));
    case ACTION_STORE_WAIT: return is_event(event, "stores", pending_text(walk, "stores", action));
    case ACTION_MMA_WAIT: return is_event(event, "products", pending_text(walk, "products", action));
    case ACTION_BARRIER_SYNC: return is_event(event, "barrier", barrier_text(walk, action));
    case ACTION_CLUSTER_SYNC: return is_event(event, "cluster", "all of the cluster");
    default: return false;
    }
}

static bool is_loop(const Walk *walk, const Action *action, TraceEvent *event)
{
    const TileOp *const source = action->loop.source;
    if (action->kind == ACTION_GRID) return is_event(event, "tile", "tile of the grid");
    if (action->kind != ACTION_LOOP) return false;
    if (!source || source->kind != T_PIPELINE) return is_event(event, "step", "step of a loop");
    const char *const index = source->pipeline.indices[0].var->name;
    return is_event(event, "step", arena_printf(walk->lo->arena, "step of %s", index));
}

// ---- where that is in the source

static Span ring_span(const Walk *walk, int ring)
{
    for (int i = 0; i < walk->schedule->tiles.count; i++)
        if (walk->schedule->tiles.items[i]->ring == ring) return walk->schedule->tiles.items[i]->span;
    return walk->last;
}

// A wait for a ring is one for its tiles; others are for what came before.
static Span span_of(const Walk *walk, const Action *action)
{
    if (action->kind == ACTION_ACQUIRE || action->kind == ACTION_WAIT) return ring_span(walk, action->ring.ring);
    return action->span.source ? action->span : walk->last;
}

// ---- the walk

static int record(Walk *walk, TraceEvent event, Span span)
{
    if (walk->schedule->trace.count >= TRACE_EVENTS_MAX) return 0;
    event.role = walk->role->name;
    event.span = span;
    VEC_PUSH(walk->lo->arena, &walk->schedule->trace, event);
    return walk->schedule->trace.count;
}

// Whether anything in it was recorded.
static bool walk_block(Walk *walk, Action *action)
{
    bool any = false;
    for (; action; action = action->next) {
        TraceEvent event;
        if (action->span.source) walk->last = action->span;
        const bool waits = is_wait(walk, action, &event);
        if (waits) action->trace = record(walk, event, span_of(walk, action));
        const Span span = span_of(walk, action);
        const bool within = walk_block(walk, action->body) | walk_block(walk, action->otherwise);
        if (within && is_loop(walk, action, &event)) action->trace = record(walk, event, span);
        any |= waits || within;
    }
    return any;
}

void decide_trace(Lowering *lo)
{
    Schedule *const schedule = lo->builder.schedule;
    if (!lo->target->trace) return;
    for (int i = 0; i < schedule->roles.count; i++) {
        ScheduleRole *const role = schedule->roles.items[i];
        Walk walk = { .lo = lo, .schedule = schedule, .role = role };
        role->trace = record(&walk, (TraceEvent){ .kind = "role", .what = role->name }, (Span){ 0 });
        walk_block(&walk, role->body);
    }
}
