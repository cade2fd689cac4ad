// SPDX-License-Identifier: MIT
// cost.c - the walk over a schedule's roles: a clock for each, and what each line uses.
#include "lower/gpu/cost/cost.h"

#include <math.h>
#include <stdlib.h>

enum {
    RINGS_MAX = 64,
    IN_FLIGHT_MAX = 16,
    SAMPLES = 8,
    VISITS_MAX = 50000,
    WALKED_DEPTH = 2, // of loops around each other: within, a step is walked once
    TRAFFIC_ALL = 64,
};

const char *const bound_names[BOUND_COUNT] = {
    [UNIT_TENSOR] = "tensor cores", [UNIT_SPECIAL] = "special functions",
    [UNIT_ISSUE] = "issue slots",   [UNIT_SHARED] = "shared memory",
    [UNIT_MEMORY] = "L2",           [BOUND_WAITS] = "waits",
    [BOUND_MEMORY] = "memory",      [BOUND_CHAIN] = "one group's chain",
};

// Of one warp group.
typedef struct Clock {
    double now, tensor_free;         // tensor cores are busy with its products until then
    double in_flight[IN_FLIGHT_MAX]; // when each ends, oldest first
    int n_in_flight;
    double copied; // its copies by cp.async are there
} Clock;

typedef struct Walk {
    const CostQuestion *question;
    Arena *arena;
    Cost *cost;
    const ScheduleRole *role;
    double groups, warps; // of the role; of one group
    CostValues values;
    Clock clock;
    int depth, visits;     // of loops; of actions
    double scale;          // how often this happens, of an instance
    const Action *product; // the product that the walk is inside of
    const TileOp *around;  // the operation of the innermost action around that has one
    uint64_t waited;       // rings that the loop's body waits for
    const double *ring_bytes;
    double since[RINGS_MAX], held[RINGS_MAX]; // of a slot: when it was found full, for how long it was last held
    Traffic traffic[TRAFFIC_ALL];
    int n_traffic;
    double floor[UNITS];
} Walk;

// ---- lines

static CostLine *line_of_action(Walk *w, const Action *action)
{
    const TileOp *const op = w->product ? w->product->op : action->op ? action->op : w->around;
    const Span span = op ? op->span : action->span;
    const int line = span.source ? source_position(span.source, span.begin).line : 0;
    for (int i = 0; i < w->cost->lines.count; i++)
        if (w->cost->lines.items[i].line == line && w->cost->lines.items[i].source == span.source)
            return &w->cost->lines.items[i];
    VEC_PUSH(
        w->arena, &w->cost->lines,
        ((CostLine){
            .source = span.source, .line = line, .op = op, .conflicts = 1, .sectors = 1, .repeats = 1, .idle = 1 }));
    return &w->cost->lines.items[w->cost->lines.count - 1];
}

static void add_traffic_of(Walk *w, const ActionWork *work)
{
    for (int i = 0; i < work->n_traffic; i++) {
        const Traffic *const t = &work->traffic[i];
        int at = 0;
        while (at < w->n_traffic && (w->traffic[at].tensor != t->tensor || w->traffic[at].writes != t->writes)) at++;
        if (at == TRAFFIC_ALL) continue;
        if (at == w->n_traffic) w->traffic[w->n_traffic++] = (Traffic){ t->tensor, 0, t->writes };
        w->traffic[at].bytes += w->scale * t->bytes;
    }
}

static CostThreads threads_of(const Walk *w) { return (CostThreads){ w->question->machine, w->groups, w->warps }; }

static double waits_of(const Walk *w, const ActionWork *work)
{
    const CostThreads threads = threads_of(w);
    return cost_waits(&threads, work);
}

static void add_to_line(Walk *w, const Action *action)
{
    const ActionWork *const work = action->work;
    CostLine *const line = line_of_action(w, action);
    for (int u = 0; u < UNITS; u++) {
        line->used[u] += w->scale * work->used[u];
        if (w->product && w->product != action) continue; // the product has said what is needed
        line->needed[u] += w->scale * work->needed[u];
        w->floor[u] += w->scale * work->needed[u];
    }
    line->waits += w->scale * waits_of(w, work);
    if (work->conflicts > line->conflicts) line->conflicts = work->conflicts, line->conflicting = work->conflicting;
    line->sectors = fmax(line->sectors, work->sectors);
    line->repeats = fmax(line->repeats, work->repeats);
    line->branches += w->scale * work->branches;
    line->idle = fmax(line->idle, work->idle);
    line->alone = fmax(line->alone, work->alone);
    add_traffic_of(w, work);
}

// ---- the clock

static double group_time(const Walk *w, const ActionWork *work)
{
    const CostThreads threads = threads_of(w);
    return cost_group_time(&threads, work);
}

static double product_time(const Walk *w, const ActionWork *work)
{
    const CostThreads threads = threads_of(w);
    return cost_product_time(&threads, work);
}

static void run_product(Walk *w, const Action *action)
{
    Clock *const c = &w->clock;
    c->tensor_free = fmax(c->now, c->tensor_free) + product_time(w, action->work);
    if (!action->mma.is_async) {
        const double dependent = w->question->machine->instruction / w->question->machine->independent;
        c->now = fmax(c->tensor_free, c->now + group_time(w, action->work) / dependent);
    } else if (c->n_in_flight < IN_FLIGHT_MAX) {
        c->in_flight[c->n_in_flight++] = c->tensor_free;
        c->now += ISSUE_CYCLES;
    }
}

static void wait_for_products(Walk *w, int pending)
{
    Clock *const c = &w->clock;
    while (c->n_in_flight > pending) {
        c->now = fmax(c->now, c->in_flight[0] + RESULT_CYCLES);
        for (int i = 1; i < c->n_in_flight; i++) c->in_flight[i - 1] = c->in_flight[i];
        c->n_in_flight--;
    }
}

static void run_copy(Walk *w, const Action *action)
{
    const GpuMachine *const m = w->question->machine;
    const double time = group_time(w, action->work);
    if (action->copy.how == COPY_TMA) return; // its ring waits
    if (action->copy.how == COPY_CP_ASYNC || action->copy.ring != NO_RING) {
        w->clock.now += action->work->used[UNIT_ISSUE] / w->groups * m->instruction / fmin(4, w->warps);
        w->clock.copied = w->clock.now + m->load + time;
        return;
    }
    w->clock.now += time + waits_of(w, action->work);
}

static void run_action(Walk *w, const Action *action)
{
    if (action->work) add_to_line(w, action);
    switch ((int)action->kind) {
    case ACTION_MMA:
        if (action->work && !action->body) run_product(w, action);
        else if (action->work && action->work->used[UNIT_TENSOR] > 0) run_product(w, action);
        return;
    case ACTION_MMA_WAIT: wait_for_products(w, action->wait.pending); return;
    case ACTION_COPY:
        if (action->work) run_copy(w, action);
        return;
    case ACTION_FENCE_ASYNC: w->clock.now += FENCE_CYCLES; return;
    case ACTION_COPY_WAIT:
        if (action->wait.pending == 0) w->clock.now = fmax(w->clock.now, w->clock.copied);
        return;
    case ACTION_WAIT:
        w->clock.now += WAIT_CYCLES;
        if (action->ring.ring < 0 || action->ring.ring >= RINGS_MAX) return;
        w->waited |= UINT64_C(1) << action->ring.ring;
        w->since[action->ring.ring] = w->clock.now;
        return;
    case ACTION_RELEASE:
        if (action->ring.ring >= 0 && action->ring.ring < RINGS_MAX && action->ring.slot == SLOT_CURRENT)
            w->held[action->ring.ring] = w->clock.now - w->since[action->ring.ring];
        return;
    case ACTION_STORE: w->clock.now += action->work ? group_time(w, action->work) : 0; return;
    default: break;
    }
    if (action->work) w->clock.now += group_time(w, action->work) + waits_of(w, action->work);
}

// ---- loops

static void walk_block(Walk *w, const Action *action);

// The steps of a source loop; false: not known.
static bool trips_of(const Walk *w, const TileOp *op, double *trips)
{
    int64_t lo, hi, step = 1;
    *trips = 1;
    if (op->kind == T_FOR) {
        expr_as_int(op->for_.step, &step);
        if (!cost_value(&w->values, op->for_.lo, &lo) || !cost_value(&w->values, op->for_.hi, &hi)) return false;
        *trips = fmax(0, ceil((double)(hi - lo) / (double)step));
        return true;
    }
    if (op->kind == T_WHILE) return cost_count_while(w->arena, &w->values, op, trips);
    if (op->kind != T_PIPELINE) return false;
    for (int i = 0; i < op->pipeline.n; i++) {
        if (!cost_value(&w->values, op->pipeline.indices[i].lo, &lo) ||
            !cost_value(&w->values, op->pipeline.indices[i].hi, &hi))
            return false;
        *trips *= fmax(0, (double)(hi - lo));
    }
    return true;
}

// Its indices at a step: `part` of the way from the first to the last; unknown: none of them is known.
static void set_step(Walk *w, const TileOp *op, double part, bool known)
{
    int64_t lo, hi, step = 1;
    if (op->kind == T_FOR) {
        expr_as_int(op->for_.step, &step);
        known = known && cost_value(&w->values, op->for_.lo, &lo) && cost_value(&w->values, op->for_.hi, &hi);
        const int64_t n = known ? (int64_t)ceil((double)(hi - lo) / (double)step) : 1;
        cost_value_set(&w->values, op->for_.var, known, known ? lo + step * (int64_t)(part * (double)(n - 1)) : 0);
    } else if (op->kind == T_PIPELINE) {
        for (int i = 0; i < op->pipeline.n; i++) {
            const LoopIndex *const index = &op->pipeline.indices[i];
            known = known && cost_value(&w->values, index->lo, &lo) && cost_value(&w->values, index->hi, &hi);
            cost_value_set(&w->values, index->var, known, known ? lo + (int64_t)(part * (double)(hi - lo - 1)) : 0);
        }
    }
}

static void note_open_loop(Walk *w, const TileOp *op)
{
    const int line = op->span.source ? source_position(op->span.source, op->span.begin).line : 0;
    for (int i = 0; i < w->cost->open_loops.count; i++)
        if (w->cost->open_loops.items[i] == line) return;
    VEC_PUSH(w->arena, &w->cost->open_loops, line);
}

// One round of a loop's body; returns how long it takes.
static double walk_step(Walk *w, const Action *loop, double part, bool known, double scale)
{
    const double outside = w->scale, began = w->clock.now;
    set_step(w, loop->loop.source, part, known);
    w->scale *= scale;
    walk_block(w, loop->body);
    w->scale = outside;
    return w->clock.now - began;
}

// From the request for a slot's contents to its release by all groups. step: of the loop around.
static double turn_of_ring(const Walk *w, int ring, double step)
{
    const GpuMachine *const m = w->question->machine;
    const double held = w->held[ring] > 0 ? fmin(step, w->held[ring] * w->groups) : step;
    return m->load + w->ring_bytes[ring] / m->memory + held;
}

// A step is no shorter than a ring's turn, spread over its slots. times: steps.
static double limit_by_rings(const Walk *w, double step, double times)
{
    double limited = step;
    int slowest = NO_RING;
    for (int i = 0; i < w->question->schedule->rings.count && i < RINGS_MAX; i++) {
        const ScheduleRing *const ring = w->question->schedule->rings.items[i];
        if (!(w->waited >> i & 1) || ring->by_consumers) continue;
        const double turn = turn_of_ring(w, i, step) / ring->slots;
        if (turn <= limited) continue;
        limited = turn;
        slowest = i;
    }
    if (slowest != NO_RING) w->cost->late[slowest] += w->scale * times * (limited - step);
    return limited;
}

static void shift_clock(Clock *c, double by)
{
    c->now += by;
    c->tensor_free += by;
    for (int i = 0; i < c->n_in_flight; i++) c->in_flight[i] += by;
}

static void walk_steps(Walk *w, const Action *loop, double trips, bool known)
{
    const uint64_t outside = w->waited;
    const TileOp *const around = w->around;
    TileOp **body;
    w->waited = 0;
    w->around = loop->loop.source;
    for (int i = 0; (body = tile_bodies((TileOp *)loop->loop.source, i)) != NULL; i++) cost_forget(&w->values, *body);
    const bool in_parts = known && w->depth < WALKED_DEPTH && w->visits < VISITS_MAX;
    w->depth++;
    if (in_parts) walk_step(w, loop, 0, true, 1);
    const double between = in_parts ? trips - 2 : trips;
    if (between > 0 && !in_parts) {
        const double began = w->clock.now, step = walk_step(w, loop, 0.5, known, between);
        shift_clock(&w->clock, began + limit_by_rings(w, step, between) * between - w->clock.now);
    } else if (between > 0) {
        walk_step(w, loop, 0.5, known, 0); // what the step before has left in flight is there
        const double began = w->clock.now, took = walk_step(w, loop, 0.5, known, between);
        const double step = limit_by_rings(w, took, between);
        shift_clock(&w->clock, began + step * (between - 1) - w->clock.now); // the round that warms up was one of them
    }
    if (in_parts && trips > 1) walk_step(w, loop, 1, true, 1);
    w->depth--;
    w->waited = outside;
    w->around = around;
}

static void walk_loop(Walk *w, const Action *loop)
{
    const TileOp *const source = loop->loop.source;
    double trips;
    if (!source) {
        walk_block(w, loop->body);
        return;
    }
    const bool known = trips_of(w, source, &trips);
    if (!known) {
        trips = w->question->unknown_trips;
        note_open_loop(w, source);
    }
    if (loop->loop.part == LOOP_REST && trips > 1) trips -= 1;
    else if (loop->loop.part == LOOP_REST && known) trips = 0;
    if (trips > 0) walk_steps(w, loop, trips, known);
}

// ---- branches and scopes

// As often as `part` of what is around it; the clock goes on by as much.
static void walk_part(Walk *w, const Action *body, double part)
{
    const double outside = w->scale, began = w->clock.now;
    if (!body || part <= 0) return;
    w->scale *= part;
    walk_block(w, body);
    w->scale = outside;
    if (part < 1) shift_clock(&w->clock, (part - 1) * (w->clock.now - began));
}

static void walk_if(Walk *w, const Action *action)
{
    int64_t cond;
    const TileOp *const source = action->branch.source;
    if (source && cost_value(&w->values, source->branch.cond, &cond)) {
        walk_block(w, cond ? action->body : action->otherwise);
        return;
    }
    walk_part(w, action->body, 0.5);
    walk_part(w, action->otherwise, 0.5);
}

static void walk_scope(Walk *w, const Action *action)
{
    const TileOp *const loop = action->scope.source;
    double trips = 1;
    const bool known = loop && trips_of(w, loop, &trips);
    switch (action->scope.kind) {
    case SCOPE_NO_STEP:
        if (known && trips == 0) walk_block(w, action->body);
        return;
    case SCOPE_ANY_STEP:
    case SCOPE_FIRST_STEP:
    case SCOPE_LAST_STEP:
        if (known && trips == 0) return;
        if (loop) set_step(w, loop, action->scope.kind == SCOPE_LAST_STEP, known);
        break;
    case SCOPE_ISSUE:
    case SCOPE_PREVIOUS_STEP:
    case SCOPE_NEXT_STEP:
    case SCOPE_FURTHER_STEP:
    case SCOPE_BUT_LAST:
    case SCOPE_BUT_FIRST:
    case SCOPE_HAS_STEP:
    case SCOPE_STEP_AHEAD:
    case SCOPE_ONE_GROUP:
    case SCOPE_ONE_THREAD:
    case SCOPE_ONE_WARP:
    case SCOPE_EACH_WARP:
    case SCOPE_ALIGNED:
    case SCOPE_ROW_PART: break;
    }
    walk_block(w, action->body); // aligned strides: elements are the exception
}

static void walk_action(Walk *w, const Action *action)
{
    w->visits++;
    switch ((int)action->kind) {
    case ACTION_GRID: walk_block(w, action->body); return;
    case ACTION_LOOP: walk_loop(w, action); return;
    case ACTION_IF: walk_if(w, action); return;
    case ACTION_SCOPE: walk_scope(w, action); return;
    case ACTION_SCALAR:
    case ACTION_MAP:
    case ACTION_DECLARE:
        if (action->op) cost_run_scalar(&w->values, action->op);
        break;
    default: break;
    }
    run_action(w, action);
    const Action *const product = w->product;
    const TileOp *const around = w->around;
    if (action->kind == ACTION_MMA) w->product = action;
    if (action->op) w->around = action->op;
    walk_block(w, action->body);
    w->product = product;
    w->around = around;
}

static void walk_block(Walk *w, const Action *action)
{
    for (; action; action = action->next) walk_action(w, action);
}

// ---- roles and instances

static void sum_ring_bytes(const Action *action, double *bytes)
{
    for (; action; action = action->next) {
        if (action->kind == ACTION_COPY && action->copy.ring != NO_RING && action->work)
            bytes[action->copy.ring] += action->work->used[UNIT_MEMORY];
        sum_ring_bytes(action->body, bytes);
        if (action->kind != ACTION_SCOPE) sum_ring_bytes(action->otherwise, bytes);
    }
}

// How long the role takes for an instance.
static double walk_role(Walk *w, const ScheduleRole *role)
{
    w->role = role;
    w->groups = role->threads > 128 ? role->threads / 128.0 : 1;
    w->warps = role->threads / 32.0 / w->groups;
    w->clock = (Clock){ .now = 0 };
    walk_block(w, role->body);
    return w->clock.now;
}

static double instances_of(const Walk *w)
{
    const TileKernel *const kernel = w->question->kernel;
    double n = 1;
    for (int i = 0; i < kernel->n_grid; i++) {
        int64_t extent;
        if (!cost_value(&w->values, kernel->grid[i].extent, &extent)) return 0;
        n *= (double)extent;
    }
    return n;
}

static void set_coordinates(Walk *w, double number)
{
    const TileKernel *const kernel = w->question->kernel;
    for (int i = 0; i < kernel->n_grid; i++) {
        int64_t extent = 1;
        cost_value(&w->values, kernel->grid[i].extent, &extent);
        const double at = extent > 0 ? fmod(number, (double)extent) : 0;
        cost_value_set(&w->values, kernel->grid[i].var, true, (int64_t)at);
        number = floor(number / (double)(extent > 0 ? extent : 1));
    }
}

static double slowest_role(Walk *w)
{
    double slowest = 0;
    for (int i = 0; i < w->question->schedule->roles.count; i++)
        slowest = fmax(slowest, walk_role(w, w->question->schedule->roles.items[i]));
    return slowest;
}

// Instances spread over the grid, by steps that have no common period with its extents. Returns the longest chain.
static double walk_instances(Walk *w)
{
    const double n = w->cost->instances, samples = n > SAMPLES ? SAMPLES : n;
    double longest = 0;
    if (n <= 0) {
        w->scale = 1;
        return w->cost->chain = slowest_role(w);
    }
    w->scale = 1 / samples;
    for (int i = 0; i < samples; i++) {
        set_coordinates(w, n > SAMPLES ? floor(fmod((i + 0.5) * 0.6180339887, 1) * n) : i);
        const double chain = slowest_role(w);
        w->cost->chain += chain / samples;
        longest = fmax(longest, chain);
    }
    return longest;
}

static int compare_lines(const void *a, const void *b)
{
    const CostLine *const x = a, *const y = b;
    if (x->source != y->source) return x->source < y->source ? -1 : 1;
    return x->line - y->line;
}

// The longest of the units' times, and which.
static double longest_unit(const GpuMachine *m, const double *amounts, int *unit)
{
    const double rates[UNITS] = { m->tensor, m->special, m->issue, m->shared, m->memory };
    double longest = 0;
    for (int u = 0; u < UNITS; u++) {
        if (amounts[u] / rates[u] <= longest) continue;
        longest = amounts[u] / rates[u];
        *unit = u;
    }
    return longest;
}

static void finish_lines(Walk *w)
{
    const GpuMachine *const m = w->question->machine;
    Cost *const cost = w->cost;
    double amounts[UNITS] = { 0 };
    int unit;
    for (int i = 0; i < cost->lines.count; i++) {
        CostLine *const line = &cost->lines.items[i];
        line->cycles = longest_unit(m, line->used, &line->bound);
        line->floor = longest_unit(m, line->needed, &unit);
        if (line->waits > line->cycles) line->cycles = line->waits, line->bound = BOUND_WAITS;
        for (int u = 0; u < UNITS; u++) amounts[u] += line->used[u];
    }
    if (cost->lines.count > 1)
        qsort(cost->lines.items, (size_t)cost->lines.count, sizeof *cost->lines.items, compare_lines);
    const double rates[UNITS] = { m->tensor, m->special, m->issue, m->shared, m->memory };
    for (int u = 0; u < UNITS; u++) cost->units[u] = amounts[u] / rates[u];
    cost->cycles = longest_unit(m, amounts, &cost->bound);
    cost->floor = longest_unit(m, w->floor, &unit);
}

const Cost *cost_of(Arena *arena, const CostQuestion *question)
{
    Cost *const cost = NEW(arena, Cost, .machine = question->machine);
    Walk *const w = NEW(arena, Walk, .question = question, .arena = arena, .cost = cost);
    w->values = cost_values_new(arena, question);
    double *const ring_bytes = NEW_ARRAY(arena, double, question->schedule->rings.count + 1);
    for (int i = 0; i < question->schedule->roles.count; i++)
        sum_ring_bytes(question->schedule->roles.items[i]->body, ring_bytes);
    w->ring_bytes = ring_bytes;
    cost->late = NEW_ARRAY(arena, double, question->schedule->rings.count + 1);
    cost->instances = instances_of(w);
    const double longest = walk_instances(w);
    finish_lines(w);
    cost_launch(cost, question, &w->values, w->traffic, w->n_traffic, longest);
    return cost;
}

double busiest_unit(const Cost *cost)
{
    double cycles = 0;
    for (int u = 0; u < UNITS; u++) cycles = fmax(cycles, cost->units[u]);
    return cycles;
}

const CostLine *cost_line(const Cost *cost, const TileOp *op)
{
    const int line = op->span.source ? source_position(op->span.source, op->span.begin).line : 0;
    for (int i = 0; i < cost->lines.count; i++)
        if (cost->lines.items[i].source == op->span.source && cost->lines.items[i].line == line)
            return &cost->lines.items[i];
    return NULL;
}
