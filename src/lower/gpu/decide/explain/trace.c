// SPDX-License-Identifier: MIT
// trace.c - which actions of a schedule a traced build records: waits, and the steps of the loops around them.
//
// before: the roles are complete        after: Action.trace of these, and Schedule.trace; nothing else has changed
//
// And for Target.places: where in the source each action comes from, also those that had no place.
#include "lower/gpu/decide/explain/trace.h"
#include "lower/gpu/plans/rows.h"
#include "plan/trace.h"

typedef struct Walk {
    Lowering *lo;
    Schedule *schedule;
    const ScheduleRole *role;
    Span last;          // of the action with a place in the source that came last
    VEC(Span) products; // issued so far
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

static const char *step_text(const Walk *walk, const char *which, const TileOp *source)
{
    const bool has_name = source && source->kind == T_PIPELINE;
    return arena_printf(walk->lo->arena, "%s of %s", which,
                        has_name ? source->pipeline.indices[0].var->name : "a loop");
}

static bool has_steps(const Walk *walk, const Action *action, TraceEvent *event)
{
    const ScopeKind scope = action->kind == ACTION_SCOPE ? action->scope.kind : SCOPE_ISSUE;
    if (action->kind == ACTION_GRID) return is_event(event, "tile", "tile of the grid");
    if (action->kind == ACTION_LOOP) return is_event(event, "step", step_text(walk, "step", action->loop.source));
    if (scope == SCOPE_FIRST_STEP) return is_event(event, "step", step_text(walk, "first step", action->scope.source));
    if (scope == SCOPE_LAST_STEP) return is_event(event, "step", step_text(walk, "last step", action->scope.source));
    return false;
}

// ---- where that is in the source

static Span ring_span(const Walk *walk, int ring)
{
    for (int i = 0; i < walk->schedule->tiles.count; i++)
        if (walk->schedule->tiles.items[i]->ring == ring) return walk->schedule->tiles.items[i]->span;
    return walk->last;
}

// A wait for a ring is one for its tiles; one for products is for the last that is not to stay in flight; others are for what
// came before.
static Span span_of(const Walk *walk, const Action *action)
{
    if (action->kind == ACTION_ACQUIRE || action->kind == ACTION_WAIT) return ring_span(walk, action->ring.ring);
    const int product = walk->products.count - 1 - action->wait.pending;
    if (action->kind == ACTION_MMA_WAIT && product >= 0) return walk->products.items[product];
    return action->span.source ? action->span : walk->last;
}

// Every action gets one: a comment of the text says it (print_action.c).
static void place_block(Walk *walk, Action *action)
{
    for (; action; action = action->next) {
        if (action->span.source) walk->last = action->span;
        else action->span = span_of(walk, action);
        if (action->kind == ACTION_MMA) VEC_PUSH(walk->lo->arena, &walk->products, action->span);
        place_block(walk, action->body);
        place_block(walk, action->otherwise);
    }
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
        if (action->kind == ACTION_MMA) VEC_PUSH(walk->lo->arena, &walk->products, action->span);
        const bool waits = is_wait(walk, action, &event);
        if (waits) action->trace = record(walk, event, span_of(walk, action));
        const Span span = span_of(walk, action);
        const bool is_whole = is_printed_with_loop(action) || (action->kind == ACTION_COPY && action->copy.shifts);
        const bool body = !is_whole && walk_block(walk, action->body);
        const bool otherwise = !is_whole && walk_block(walk, action->otherwise);
        const bool within = body || otherwise;
        if (within && has_steps(walk, action, &event)) action->trace = record(walk, event, span);
        any |= waits || within;
    }
    return any;
}

void decide_trace(Lowering *lo)
{
    Schedule *const schedule = lo->builder.schedule;
    for (int i = 0; lo->target->places && i < schedule->roles.count; i++) {
        Walk walk = { .lo = lo, .schedule = schedule, .role = schedule->roles.items[i] };
        place_block(&walk, schedule->roles.items[i]->body);
    }
    for (int i = 0; lo->target->trace && i < schedule->roles.count; i++) {
        ScheduleRole *const role = schedule->roles.items[i];
        Walk walk = { .lo = lo, .schedule = schedule, .role = role };
        role->trace = record(&walk, (TraceEvent){ .kind = "role", .what = role->name }, (Span){ 0 });
        walk_block(&walk, role->body);
    }
}
