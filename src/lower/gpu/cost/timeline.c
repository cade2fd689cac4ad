// SPDX-License-Identifier: MIT
// timeline.c - warp groups run their lists of steps; whoever is earliest goes next.
//
// Rings and named barriers work as in the verifier (schedule/verify_rings.c): a phase is over when the arrivals that it
// counts and the bytes that were announced have come, here at the time of the last of them.
#include "lower/gpu/cost/timeline.h"
#include "lower/gpu/schedule/dump.h"

#include <math.h>

enum { PLAYERS_MAX = 12, BARRIERS = 17, CLUSTER_AT = 16, FLIGHTS_MAX = 16, SPANS_MAX = 900 };

typedef struct Player {
    const ScheduleRole *role;
    const char *lane;
    int group, groups, threads, pc;
    TimelineSteps steps;
    CostThreads cost;
    double now;
    double flights[FLIGHTS_MAX]; // ends of its products, the oldest first
    int n_flights;
    double copied; // its cp.async copies are there
    int *fills;    // of each ring: how often it has advanced
    bool at_barrier;
} Player;

typedef struct Phase {
    int done, arrivals, bytes;
    double time, done_at; // the latest arrival; of the latest phase that is over
} Phase;

typedef struct RingState {
    Phase *full, *empty; // by slot
    double *begun;       // by slot: when the first copy into it was issued; below 0: none was
    int *steps;          // by slot: of the loop, in which that was
    const char **lanes;  // by slot
} RingState;

typedef struct BarrierPhase {
    int arrived;
    double time;
    bool waits[PLAYERS_MAX];
} BarrierPhase;

typedef struct Play {
    Arena *arena;
    const Schedule *schedule;
    const GpuMachine *machine;
    Timeline *timeline;
    Player players[PLAYERS_MAX];
    int n_players;
    RingState *rings;
    BarrierPhase phases[BARRIERS];
    double tensor_free, memory_free;
} Play;

// ---- spans

static void add_span(Play *p, TimelineSpan span)
{
    if (span.end <= span.begin || p->timeline->spans.count >= SPANS_MAX) return;
    VEC_PUSH(p->arena, &p->timeline->spans, span);
    p->timeline->end = fmax(p->timeline->end, span.end);
}

static const char *words_of(Play *p, const Action *action)
{
    Text text = { .arena = p->arena };
    schedule_dump_action(p->schedule, action, &text);
    return text_cstr(&text);
}

static Span span_of(const Action *action) { return action->op ? action->op->span : action->span; }

static void add_own(Play *p, const Player *who, const TimelineStep *step, TimelineKind kind, double begin)
{
    add_span(p, (TimelineSpan){ who->lane, words_of(p, step->action), kind, step->step, span_of(step->action), begin,
                                who->now });
}

// ---- rings

static int slots_of(const Play *p, int ring) { return p->schedule->rings.items[ring]->slots; }

static int fill_of(const Player *who, const TimelineStep *step)
{
    const RingSlot slot = step->action->ring.slot;
    const int ahead = slot == SLOT_NEXT ? 1 : slot == SLOT_HELD ? -1 : 0;
    const int fill = who->fills[step->action->ring.ring] + step->is_next + ahead;
    return fill > 0 ? fill : 0;
}

static void end_phase(Play *p, int ring, int slot, bool full)
{
    const ScheduleRing *const r = p->schedule->rings.items[ring];
    RingState *const state = &p->rings[ring];
    Phase *const phase = full ? &state->full[slot] : &state->empty[slot];
    if (phase->arrivals < (full ? r->full_count : r->empty_count) || phase->bytes > 0) return;
    phase->done++;
    phase->done_at = phase->time;
    phase->arrivals = 0;
    phase->time = 0;
    add_span(p, (TimelineSpan){ .lane = state->lanes[slot],
                                .what = full ? "being filled" : "full, until its release",
                                .kind = full ? TIMELINE_COPY : TIMELINE_HELD,
                                .step = state->steps[slot],
                                .begin = full ? state->begun[slot] : state->full[slot].done_at,
                                .end = phase->done_at });
    if (full) state->begun[slot] = -1;
}

// What comes now belongs to a fill that begins here, if none has begun.
static void begin_fill(RingState *state, int slot, const Player *who, const TimelineStep *step)
{
    if (state->begun[slot] >= 0) return;
    state->begun[slot] = who->now;
    state->steps[slot] = step->step;
}

static void arrive(Play *p, const Player *who, const TimelineStep *step, bool full)
{
    const Action *const action = step->action;
    const int ring = action->ring.ring, slot = fill_of(who, step) % slots_of(p, ring);
    RingState *const state = &p->rings[ring];
    Phase *const phase = full ? &state->full[slot] : &state->empty[slot];
    const int arrivals = action->ring.arrivals / who->groups + (who->group < action->ring.arrivals % who->groups);
    if (arrivals == 0 && action->ring.bytes == 0) return;
    phase->arrivals += arrivals;
    phase->bytes += full ? action->ring.bytes : 0;
    phase->time = fmax(phase->time, action->kind == ACTION_ARRIVE ? fmax(who->now, who->copied) : who->now);
    if (full) begin_fill(state, slot, who, step);
    end_phase(p, ring, slot, full);
}

// False: the phase is not over yet.
static bool wait_for(Play *p, Player *who, const TimelineStep *step, bool full)
{
    const int ring = step->action->ring.ring, fill = fill_of(who, step), slots = slots_of(p, ring);
    const Phase *const phase = full ? &p->rings[ring].full[fill % slots] : &p->rings[ring].empty[fill % slots];
    const double began = who->now;
    if (phase->done < fill / slots + full) return false;
    if (fill / slots + full > 0) who->now = fmax(who->now, phase->done_at);
    who->now += full ? WAIT_CYCLES : 1;
    if (who->now > began + 1) add_own(p, who, step, TIMELINE_WAIT, began);
    return true;
}

// ---- barriers

static int barrier_of(const Player *who, const Action *action)
{
    if (action->kind == ACTION_CLUSTER_SYNC) return CLUSTER_AT;
    if (action->barrier.of == BARRIER_OF_GROUP) return (action->barrier.barrier + who->group) % CLUSTER_AT;
    if (action->barrier.of == BARRIER_OF_NEXT_GROUP)
        return (action->barrier.barrier + (who->group + 1) % who->groups) % CLUSTER_AT;
    return action->barrier.barrier % CLUSTER_AT;
}

static void end_barrier_phase(Play *p, BarrierPhase *phase)
{
    for (int i = 0; i < p->n_players; i++) {
        Player *const who = &p->players[i];
        if (!phase->waits[i]) continue;
        const double began = who->now;
        who->now = fmax(who->now, phase->time) + p->machine->barrier;
        add_own(p, who, &who->steps.items[who->pc], TIMELINE_WAIT, began);
        who->at_barrier = false;
        who->pc++;
    }
    *phase = (BarrierPhase){ 0 };
}

// False: it waits there; the end of the phase takes it on.
static bool arrive_at_barrier(Play *p, Player *who, const TimelineStep *step)
{
    const Action *const action = step->action;
    BarrierPhase *const phase = &p->phases[barrier_of(who, action)];
    const bool is_all = action->kind == ACTION_CLUSTER_SYNC || action->barrier.threads == 0;
    const bool waits = action->kind != ACTION_BARRIER_ARRIVE;
    int all = 0;
    for (int i = 0; i < p->n_players; i++) all += p->players[i].threads;
    phase->arrived += step->threads;
    phase->time = fmax(phase->time, who->now);
    phase->waits[who - p->players] = who->at_barrier = waits;
    if (phase->arrived >= (is_all ? all : action->barrier.threads)) end_barrier_phase(p, phase);
    return !waits;
}

// ---- products and copies

static const char *product_words(Play *p, const Action *action, const Player *who)
{
    static const char issue[] = "mma.issue ";
    const char *const words = words_of(p, action);
    const size_t skipped = strncmp(words, issue, strlen(issue)) == 0 ? strlen(issue) : 0;
    return arena_printf(p->arena, "%s (%s)", words + skipped, who->lane);
}

static void run_product(Play *p, Player *who, const TimelineStep *step)
{
    const ActionWork *const work = step->action->work;
    const double began = who->now, start = fmax(who->now, p->tensor_free);
    const double end = start + cost_product_time(&who->cost, work);
    p->tensor_free = end;
    if (work->used[UNIT_TENSOR] > 0)
        add_span(p, (TimelineSpan){ "tensor cores", product_words(p, step->action, who), TIMELINE_PRODUCT, step->step,
                                    span_of(step->action), start, end });
    if (!step->action->mma.is_async) {
        const double dependent = p->machine->instruction / p->machine->independent;
        who->now = fmax(end, who->now + cost_group_time(&who->cost, work) / dependent);
    } else {
        who->now += ISSUE_CYCLES;
        if (who->n_flights < FLIGHTS_MAX) who->flights[who->n_flights++] = end;
    }
    add_own(p, who, step, TIMELINE_PRODUCT, began);
}

static void wait_for_products(Play *p, Player *who, const TimelineStep *step)
{
    const double began = who->now;
    const int done = who->n_flights - step->action->wait.pending;
    if (done <= 0) return;
    who->now = fmax(who->now, who->flights[done - 1] + RESULT_CYCLES);
    who->n_flights -= done;
    for (int i = 0; i < who->n_flights; i++) who->flights[i] = who->flights[i + done];
    add_own(p, who, step, TIMELINE_WAIT, began);
}

static void complete_bytes(Play *p, const Player *who, const TimelineStep *step, double at)
{
    const int ring = step->action->copy.ring, slot = (who->fills[ring] + step->is_next) % slots_of(p, ring);
    Phase *const phase = &p->rings[ring].full[slot];
    begin_fill(&p->rings[ring], slot, who, step);
    phase->bytes -= step->action->copy.bytes;
    phase->time = fmax(phase->time, at);
    if (phase->arrivals > 0) end_phase(p, ring, slot, true);
}

static void run_copy(Play *p, Player *who, const TimelineStep *step)
{
    const Action *const action = step->action;
    const ActionWork *const work = action->work;
    const double began = who->now, moving = work ? work->used[UNIT_MEMORY] / p->machine->memory : 0;
    const bool is_ahead =
        action->copy.how == COPY_TMA || action->copy.how == COPY_CP_ASYNC || action->copy.ring != NO_RING;
    const double start = fmax(began, p->memory_free), there = start + moving + p->machine->load;
    p->memory_free = start + moving;
    who->now += ISSUE_CYCLES;
    if (!is_ahead && work) who->now = began + cost_group_time(&who->cost, work) + cost_waits(&who->cost, work);
    if (is_ahead && action->copy.how != COPY_TMA) {
        who->now += work ? cost_group_time(&who->cost, work) : 0;
        who->copied = fmax(who->copied, there);
    }
    if (action->copy.ring != NO_RING && action->copy.bytes > 0) complete_bytes(p, who, step, there);
    add_own(p, who, step, TIMELINE_COPY, began);
}

// ---- one step

static void run_work(Play *p, Player *who, const TimelineStep *step)
{
    const double began = who->now;
    const ActionWork *const work = step->action->work;
    if (step->action->kind == ACTION_FENCE_ASYNC) who->now += FENCE_CYCLES;
    if (work) who->now += cost_group_time(&who->cost, work);
    if (work && step->action->kind != ACTION_STORE) who->now += cost_waits(&who->cost, work);
    add_own(p, who, step, TIMELINE_COMPUTE, began);
}

// False: it has to wait, and comes here again.
static bool run_step(Play *p, Player *who)
{
    const TimelineStep *const step = &who->steps.items[who->pc];
    const Action *const action = step->action;
    const double began = who->now;
    switch ((int)action->kind) {
    case ACTION_ACQUIRE: return wait_for(p, who, step, false);
    case ACTION_WAIT: return wait_for(p, who, step, true);
    case ACTION_EXPECT:
    case ACTION_ARRIVE: arrive(p, who, step, true); return true;
    case ACTION_RELEASE: arrive(p, who, step, false); return true;
    case ACTION_ADVANCE:
        if (action->ring.ring != NO_RING) who->fills[action->ring.ring]++;
        return true;
    case ACTION_BARRIER_SYNC:
    case ACTION_BARRIER_ARRIVE:
    case ACTION_CLUSTER_SYNC: return arrive_at_barrier(p, who, step);
    case ACTION_COPY: run_copy(p, who, step); return true;
    case ACTION_COPY_WAIT:
        if (action->wait.pending == 0) who->now = fmax(who->now, who->copied);
        add_own(p, who, step, TIMELINE_WAIT, began);
        return true;
    case ACTION_MMA:
        if (action->work && (!action->body || action->work->used[UNIT_TENSOR] > 0)) run_product(p, who, step);
        return true;
    case ACTION_MMA_WAIT: wait_for_products(p, who, step); return true;
    default: run_work(p, who, step); return true;
    }
}

// ---- the whole

static void add_players(Play *p)
{
    for (int i = 0; i < p->schedule->roles.count; i++) {
        const ScheduleRole *const role = p->schedule->roles.items[i];
        const int groups = role->threads > 128 ? role->threads / 128 : 1;
        for (int g = 0; g < groups && p->n_players < PLAYERS_MAX; g++) {
            Player *const who = &p->players[p->n_players++];
            *who = (Player){ .role = role, .group = g, .groups = groups, .threads = role->threads / groups };
            who->lane = groups > 1 ? arena_printf(p->arena, "%s, group %d", role->name, g) : role->name;
            who->cost = cost_threads(p->machine, role);
            who->fills = NEW_ARRAY(p->arena, int, p->schedule->rings.count + 1);
            timeline_steps(p->arena, role, g, &who->steps);
        }
    }
}

static void add_rings(Play *p)
{
    p->rings = NEW_ARRAY(p->arena, RingState, p->schedule->rings.count + 1);
    for (int i = 0; i < p->schedule->rings.count; i++) {
        const ScheduleRing *const ring = p->schedule->rings.items[i];
        const char *const name = schedule_ring_name(p->arena, p->schedule, i);
        p->rings[i].full = NEW_ARRAY(p->arena, Phase, ring->slots);
        p->rings[i].empty = NEW_ARRAY(p->arena, Phase, ring->slots);
        p->rings[i].begun = NEW_ARRAY(p->arena, double, ring->slots);
        p->rings[i].steps = NEW_ARRAY(p->arena, int, ring->slots);
        p->rings[i].lanes = NEW_ARRAY(p->arena, const char *, ring->slots);
        for (int s = 0; s < ring->slots; s++) {
            p->rings[i].begun[s] = -1;
            p->rings[i].lanes[s] = arena_printf(p->arena, "ring %s, slot %d", name, s);
        }
    }
}

// The earliest that can go on takes a step. False: nobody can.
static bool run_earliest(Play *p)
{
    bool tried[PLAYERS_MAX] = { false };
    for (int n = 0; n < p->n_players; n++) {
        Player *first = NULL;
        for (int i = 0; i < p->n_players; i++) {
            Player *const who = &p->players[i];
            if (tried[i] || who->at_barrier || who->pc >= who->steps.count) continue;
            if (!first || who->now < first->now) first = who;
        }
        if (!first) return false;
        const int pc = first->pc;
        const bool goes_on = run_step(p, first);
        first->pc += goes_on;
        if (first->pc != pc) return true; // of a barrier that it was the last to reach, too
        tried[first - p->players] = true;
    }
    return false;
}

const Timeline *timeline_of(Arena *arena, const Schedule *schedule, const GpuMachine *machine)
{
    Timeline *const timeline = NEW(arena, Timeline, .end = 0);
    Play *const p = NEW(arena, Play, .arena = arena, .schedule = schedule, .machine = machine, .timeline = timeline);
    add_players(p);
    add_rings(p);
    while (run_earliest(p)) continue;
    for (int i = 0; i < p->n_players; i++) {
        const Player *const who = &p->players[i];
        if (who->pc < who->steps.count && !timeline->stopped)
            timeline->stopped =
                arena_printf(arena, "%s waits at '%s' for what depends on a condition that is not simulated", who->lane,
                             words_of(p, who->steps.items[who->pc].action));
    }
    if (timeline->spans.count >= SPANS_MAX) timeline->stopped = "its first actions alone are shown";
    return timeline;
}
