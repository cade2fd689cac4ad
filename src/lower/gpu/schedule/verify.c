// SPDX-License-Identifier: MIT
// verify.c - schedule_verify(): the tables, then a few runs of the roles against each other.
//
// Each run fixes how many iterations every loop of the source has and how conditions come out. Few steps are enough: a ring is
// full after as many as it has slots, and what a step leaves for the next shows in the second.
//
// before: any schedule       after: the same; its first fault, or none in what was run
#include "lower/gpu/schedule/verify_run.h"

enum { ACTIONS_MAX = 30000 }; // in all runs of a schedule

typedef enum Trips { TRIPS_0, TRIPS_1, TRIPS_2, TRIPS_SLOTS, TRIPS_MIXED } Trips;
typedef struct Assignment {
    Trips inner, outer; // of loops without others within, and of those around them
    int pattern;
    bool is_reversed;
} Assignment;

static const Assignment assignments[] = {
    { TRIPS_2, TRIPS_2, 0, false }, { TRIPS_1, TRIPS_1, 0, true },      { TRIPS_SLOTS, TRIPS_2, 0, true },
    { TRIPS_0, TRIPS_1, 0, false }, { TRIPS_MIXED, TRIPS_2, 1, false }, { TRIPS_SLOTS, TRIPS_1, 2, false },
    { TRIPS_2, TRIPS_2, 3, true },  { TRIPS_0, TRIPS_2, 1, true },
};

// ---- agents

static bool uses_ring(const Action *action, int ring)
{
    if (action->kind == ACTION_COPY) return action->copy.ring == ring;
    return action->kind >= ACTION_ACQUIRE && action->kind <= ACTION_ADVANCE && action->ring.ring == ring;
}

// What the role's actions do with each ring and barrier.
static void find_uses(const Run *run, Agent *agent)
{
    for (int i = 0; i < agent->program->steps.count; i++) {
        const Action *const action = agent->program->steps.items[i].action;
        if (!does_something(&agent->program->steps.items[i])) continue;
        for (int r = 0; r < run->schedule->rings.count; r++) {
            if (!uses_ring(action, r)) continue;
            RingView *const view = &agent->rings[r];
            view->uses = true;
            view->fills |=
                action->kind == ACTION_COPY || action->kind == ACTION_EXPECT || action->kind == ACTION_ARRIVE;
            view->releases |= action->kind == ACTION_RELEASE;
        }
        if (action->kind != ACTION_BARRIER_SYNC && action->kind != ACTION_BARRIER_ARRIVE &&
            action->kind != ACTION_CLUSTER_SYNC)
            continue;
        const int id = barrier_of(agent, action);
        if (id >= 0 && id <= CLUSTER_BARRIER) agent->comes[id] = true;
    }
}

static Agent make_agent(Run *run, int role, int group, int groups, int agents)
{
    Arena *const arena = run->schedule->arena;
    const ScheduleRole *const of = run->schedule->roles.items[role];
    const int loops = run->programs.loops.count + 1, threads = of->threads / groups;
    Agent agent = {
        .role = of,
        .program = run->programs.roles.items[role],
        .name = groups > 1 ? arena_printf(arena, "%s (group %d)", of->name, group) : of->name,
        .number = run->n_agents,
        .agents = agents,
        .group = groups == 1 && of->group > 0 ? of->group : group,
        .groups = groups,
        .threads = threads,
        .warps = threads / 32 > 1 ? threads / 32 : 1,
        .step = NEW_ARRAY(arena, int, loops),
        .iteration = NEW_ARRAY(arena, int, loops),
        .saved = NEW_ARRAY(arena, int, run->programs.roles.items[role]->steps.count + 1),
        .is_inside = NEW_ARRAY(arena, bool, loops),
        .rings = NEW_ARRAY(arena, RingView, run->schedule->rings.count + 1),
        .advances = NEW_ARRAY(arena, int, run->schedule->tiles.count + 1),
    };
    find_uses(run, &agent);
    return agent;
}

static int groups_of(const ScheduleRole *role)
{
    const bool divides = role->kind == ROLE_OF_CONSUMERS && role->threads > 128 && role->threads % 128 == 0;
    return divides ? role->threads / 128 : 1;
}

// False: more than are followed.
static bool make_agents(Run *run)
{
    int n = 0;
    for (int i = 0; i < run->schedule->roles.count; i++) n += groups_of(run->schedule->roles.items[i]);
    if (n == 0 || n > AGENTS_MAX) return false;
    run->agents = NEW_ARRAY(run->schedule->arena, Agent, n);
    for (int i = 0; i < run->schedule->roles.count; i++) {
        const int groups = groups_of(run->schedule->roles.items[i]);
        for (int g = 0; g < groups; g++, run->n_agents++) run->agents[run->n_agents] = make_agent(run, i, g, groups, n);
    }
    return true;
}

// ---- state of a run

static void make_cells(Run *run)
{
    Arena *const arena = run->schedule->arena;
    run->first_cell = NEW_ARRAY(arena, int, run->schedule->tiles.count + 1);
    run->in_flight_reads = NEW_ARRAY(arena, int, run->schedule->tiles.count + 1);
    run->in_flight_writes = NEW_ARRAY(arena, int, run->schedule->tiles.count + 1);
    for (int i = 0; i < run->schedule->tiles.count; i++) {
        const ScheduleTile *const tile = run->schedule->tiles.items[i];
        run->first_cell[i] = run->n_cells;
        run->n_cells += tile->slots > 1 ? tile->slots : 1;
    }
    run->cells = NEW_ARRAY(arena, Cell, run->n_cells + 1);
    run->places = NEW_ARRAY(arena, AccessPlace, run->programs.most_accesses + 1);
    run->rings = NEW_ARRAY(arena, RingRun, run->schedule->rings.count + 1);
    for (int i = 0; i < run->schedule->rings.count; i++) {
        run->rings[i].full = NEW_ARRAY(arena, Phase, run->schedule->rings.items[i]->slots);
        run->rings[i].empty = NEW_ARRAY(arena, Phase, run->schedule->rings.items[i]->slots);
        for (int t = 0; t < run->schedule->tiles.count; t++)
            if (run->schedule->tiles.items[t]->place == TILE_SHARED && run->schedule->tiles.items[t]->ring == i)
                VEC_PUSH(arena, &run->rings[i].tiles, t);
    }
}

static void reset_agent(const Run *run, Agent *agent)
{
    const size_t loops = (size_t)run->programs.loops.count;
    agent->pc = agent->now = agent->commits = agent->warp_seen = 0;
    agent->blocked = IS_RUNNING;
    agent->next_of = -1;
    agent->mmas.count = agent->stores.count = agent->copies.count = 0;
    memset(&agent->seen, 0, sizeof agent->seen);
    memset(&agent->fenced, 0, sizeof agent->fenced);
    memset(agent->step, 0, sizeof *agent->step * loops);
    memset(agent->is_inside, 0, sizeof *agent->is_inside * loops);
    memset(agent->advances, 0, sizeof *agent->advances * (size_t)run->schedule->tiles.count);
    for (int r = 0; r < run->schedule->rings.count; r++) {
        RingView *const view = &agent->rings[r];
        view->fill = view->acquired = view->waited = 0;
        view->released = 0;
    }
}

static void reset_cell(Cell *cell, int agents)
{
    cell->fill = cell->copying = 0;
    cell->is_added = false;
    for (int a = 0; a < agents; a++) {
        cell->written[a] = cell->read[a] = cell->added[a] = (CellAccess){ 0 };
        cell->stored[a] = cell->loaded[a] = cell->fetched[a] = 0;
        cell->lost[a] = NULL;
    }
}

static void reset(Run *run)
{
    for (int a = 0; a < run->n_agents; a++) reset_agent(run, &run->agents[a]);
    for (int i = 0; i < run->n_cells; i++) reset_cell(&run->cells[i], run->n_agents);
    memset(run->in_flight_reads, 0, sizeof(int) * (size_t)run->schedule->tiles.count);
    memset(run->in_flight_writes, 0, sizeof(int) * (size_t)run->schedule->tiles.count);
    memset(run->barriers, 0, sizeof run->barriers);
    for (int i = 0; i < run->schedule->rings.count; i++) {
        const size_t bytes = sizeof(Phase) * (size_t)run->schedule->rings.items[i]->slots;
        memset(run->rings[i].full, 0, bytes);
        memset(run->rings[i].empty, 0, bytes);
    }
}

static int most_slots(const Schedule *schedule)
{
    int slots = 1;
    for (int i = 0; i < schedule->rings.count; i++)
        if (schedule->rings.items[i]->slots > slots) slots = schedule->rings.items[i]->slots;
    for (int i = 0; i < schedule->tiles.count; i++)
        if (schedule->tiles.items[i]->slots > slots) slots = schedule->tiles.items[i]->slots;
    return slots < 8 ? slots : 8;
}

static int chosen_trips(const Run *run, const Assignment *assignment, int number)
{
    const SourceLoop *const loop = &run->programs.loops.items[number];
    const int slots = most_slots(run->schedule), of[] = { 0, 1, 2, slots + 1, 1 + number % 2 };
    int trips = of[loop->is_outer ? assignment->outer : assignment->inner];
    if (loop->source == run->schedule && !run->schedule->is_persistent) return 1;
    if (loop->source == run->schedule && trips > 2) trips = 2;
    if (loop->known < 0) return trips;
    if (loop->known <= 2) return loop->known;
    return trips > loop->known ? loop->known : trips > 2 ? trips : 2;
}

// What the pattern decides in this schedule: conditions, or whether there are boxes, or nothing.
static int pattern_of(const Run *run, const Assignment *assignment)
{
    const int without = assignment->pattern % 2;
    if (run->programs.has_branches[without]) return assignment->pattern;
    return run->programs.has_forms ? without : 0;
}

static void run_once(Run *run, const Assignment *assignment, const int *trips)
{
    reset(run);
    run->pattern = pattern_of(run, assignment);
    run->is_reversed = assignment->is_reversed;
    for (int i = 0; i < run->programs.loops.count; i++) run->programs.loops.items[i].trips = trips[i];
    run_roles(run);
}

// With conditions alike, trip counts tell runs apart: what is found does not depend on the agents' order. With fewer tiles
// of a persistent grid a run is the beginning of the other.
static bool is_repeated(const Run *run, const int *trips, int number)
{
    const int n = run->programs.loops.count;
    for (int before = 0; before < number; before++) {
        bool is_same = pattern_of(run, &assignments[before]) == pattern_of(run, &assignments[number]);
        for (int i = 0; i < n && is_same; i++) {
            const int was = trips[before * n + i], is = trips[number * n + i];
            is_same = was == is || (run->programs.loops.items[i].source == run->schedule && was > is);
        }
        if (is_same) return true;
    }
    return false;
}

static void run_all(Run *run)
{
    const int n = run->programs.loops.count;
    int *const trips = NEW_ARRAY(run->schedule->arena, int, COUNT(assignments) * n + 1);
    for (int i = 0; i < COUNT(assignments) && run->fault.kind == FAULT_NONE; i++) {
        for (int loop = 0; loop < n; loop++) trips[i * n + loop] = chosen_trips(run, &assignments[i], loop);
        if (!is_repeated(run, trips, i)) run_once(run, &assignments[i], trips + i * n);
    }
}

ScheduleFault schedule_verify(const Schedule *schedule)
{
    const ArenaMark before = arena_mark(schedule->arena);
    Run run = { .schedule = schedule, .tiles = schedule->tiles.items, .budget = ACTIONS_MAX };
    if (!check_tables(&run)) return run.fault;
    make_programs(schedule, &run.programs);
    if (!make_agents(&run)) return run.fault;
    make_cells(&run);
    find_overlaps(&run);
    run_all(&run);
    if (run.fault.kind == FAULT_NONE) arena_rewind(schedule->arena, before);
    return run.fault;
}
