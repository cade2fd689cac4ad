// SPDX-License-Identifier: MIT
// timeline_steps.c - a role's tree of actions as the list of what one of its warp groups does in the first steps.
#include "lower/gpu/cost/timeline.h"

enum { INNER_STEPS = 6, OUTER_STEPS = 2, STEPS_MAX = 4000 };

// A source loop that is being unrolled.
typedef struct OpenLoop {
    const struct OpenLoop *outer;
    const TileOp *source;
    int at, n, ahead; // the step; how many; of LOOP_AHEAD
} OpenLoop;

typedef struct Unroll {
    Arena *arena;
    const ScheduleRole *role;
    TimelineSteps *steps;
    int group, threads;
    bool is_next;
} Unroll;

// ---- how many steps

static bool has_loops(const TileOp *op)
{
    for (; op; op = op->next) {
        TileOp **body;
        if (op->kind == T_FOR || op->kind == T_WHILE || op->kind == T_PIPELINE) return true;
        for (int i = 0; op->kind != T_FORALL && (body = tile_bodies((TileOp *)op, i)) != NULL; i++)
            if (has_loops(*body)) return true;
    }
    return false;
}

// By steps of so many; as many as are shown, if it is not known.
static int64_t extent_of(const Expr *from, const Expr *to, int64_t by)
{
    int64_t lo, hi;
    return !expr_as_int(from, &lo) || !expr_as_int(to, &hi) ? INNER_STEPS : hi > lo ? (hi - lo + by - 1) / by : 0;
}

// The same for all roles.
static int steps_of(const TileOp *source)
{
    TileOp **body;
    int most = INNER_STEPS;
    if (!source) return 1;
    for (int i = 0; (body = tile_bodies((TileOp *)source, i)) != NULL; i++)
        if (has_loops(*body)) most = OUTER_STEPS;
    int64_t n = 1, step = 1;
    if (source->kind == T_PIPELINE) {
        for (int i = 0; i < source->pipeline.n && n < STEPS_MAX; i++)
            n *= extent_of(source->pipeline.indices[i].lo, source->pipeline.indices[i].hi, 1);
    } else if (source->kind == T_FOR) {
        if (source->for_.step) expr_as_int(source->for_.step, &step);
        n = extent_of(source->for_.lo, source->for_.hi, step > 0 ? step : 1);
    } else {
        n = most;
    }
    return n < most ? (int)n : most;
}

// ---- conditions

// How much of what follows matters to others, or takes the units that a timeline shows.
static int events_of(const Action *action)
{
    int n = 0;
    for (; action; action = action->next) {
        switch ((int)action->kind) {
        case ACTION_ACQUIRE:
        case ACTION_EXPECT:
        case ACTION_ARRIVE:
        case ACTION_WAIT:
        case ACTION_RELEASE:
        case ACTION_ADVANCE:
        case ACTION_COPY:
        case ACTION_STORE:
        case ACTION_MMA:
        case ACTION_BARRIER_SYNC:
        case ACTION_BARRIER_ARRIVE: n++; break;
        default: break;
        }
        n += events_of(action->body) + events_of(action->otherwise);
    }
    return n;
}

static bool leaves(const Action *action)
{
    for (; action; action = action->next)
        if (action->kind == ACTION_JUMP || leaves(action->body)) return true;
    return false;
}

static const Action *arm_of(const Action *action)
{
    int64_t cond;
    const TileOp *const source = action->branch.source;
    if (source && expr_as_int(source->branch.cond, &cond)) return cond ? action->body : action->otherwise;
    const int events = leaves(action->body) ? 0 : events_of(action->body);
    return !source || (events > 0 && events >= events_of(action->otherwise)) ? action->body : action->otherwise;
}

// ---- unrolling

static void unroll_block(Unroll *u, const Action *action, OpenLoop *loop);

static void unroll_loop(Unroll *u, const Action *action, OpenLoop *outer)
{
    const LoopPart part = action->loop.part;
    OpenLoop loop = { outer, action->loop.source, 0, steps_of(action->loop.source), 0 };
    loop.ahead = part == LOOP_AHEAD ? action->loop.ahead : 0;
    const int end = loop.n + (part == LOOP_ONE_MORE);
    for (loop.at = part == LOOP_REST ? 1 : -loop.ahead; loop.at < end; loop.at++) unroll_block(u, action->body, &loop);
}

static OpenLoop *find_loop(OpenLoop *loop, const TileOp *source)
{
    while (loop && loop->source != source) loop = (OpenLoop *)loop->outer;
    return loop;
}

static LoopPlace place_in(const OpenLoop *inside, int n)
{
    return inside ? (LoopPlace){ .n = n, .at = inside->at, .is_inside = true, .ahead = inside->ahead }
                  : (LoopPlace){ .n = n };
}

static void unroll_scope(Unroll *u, const Action *action, OpenLoop *loop)
{
    const Unroll outside = *u;
    const ScopeKind kind = action->scope.kind;
    if (kind == SCOPE_ONE_GROUP && action->scope.threads != u->group) return;
    if (kind == SCOPE_ONE_WARP) u->threads = 32;
    if (!action->scope.source) {
        unroll_block(u, action->body, loop);
    } else {
        OpenLoop *const inside = find_loop(loop, action->scope.source);
        const int n = steps_of(action->scope.source), to = scope_step(kind, place_in(inside, n));
        OpenLoop other = { loop, action->scope.source, to, n, 0 };
        if (is_of_next_step(kind)) u->is_next = inside && inside->at + 1 < n;
        if (to >= 0 && inside) {
            const int at = inside->at;
            inside->at = to;
            unroll_block(u, action->body, loop);
            inside->at = at;
        } else if (to >= 0) {
            unroll_block(u, action->body, &other);
        }
    }
    u->threads = outside.threads;
    u->is_next = outside.is_next;
}

static void add_step(Unroll *u, const Action *action, const OpenLoop *loop)
{
    const TimelineStep step = { action, loop ? loop->at : -1, u->is_next, u->threads };
    VEC_PUSH(u->arena, u->steps, step);
}

static void unroll_block(Unroll *u, const Action *action, OpenLoop *loop)
{
    for (; action && u->steps->count < STEPS_MAX; action = action->next) {
        switch ((int)action->kind) {
        case ACTION_GRID: unroll_block(u, action->body, loop); break;
        case ACTION_LOOP: unroll_loop(u, action, loop); break;
        case ACTION_IF: unroll_block(u, arm_of(action), loop); break;
        case ACTION_SCOPE: unroll_scope(u, action, loop); break;
        case ACTION_JUMP: break;
        case ACTION_COPY: // what is inside it acquires its slot
            unroll_block(u, action->body, loop);
            add_step(u, action, loop);
            break;
        default: add_step(u, action, loop); unroll_block(u, action->body, loop);
        }
    }
}

void timeline_steps(Arena *arena, const ScheduleRole *role, int group, TimelineSteps *steps)
{
    const int groups = role->threads > 128 ? role->threads / 128 : 1;
    Unroll u = { arena, role, steps, group, role->threads / groups, false };
    unroll_block(&u, role->body, NULL);
}
