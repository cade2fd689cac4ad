// SPDX-License-Identifier: MIT
// verify_run.c - agents run their programs, each until it waits, until all have ended or nobody can go on.
//
// before: programs are made, trip counts and conditions of this run chosen, everything else zero
// after:  a fault is found, or what happened was right
#include "lower/gpu/schedule/verify_run.h"

#include <stdarg.h>

bool found(Run *run, ScheduleFaultKind kind, const Action *action, const char *format, ...)
{
    if (run->fault.kind != FAULT_NONE) return false;
    va_list args;
    va_start(args, format);
    run->fault =
        (ScheduleFault){ kind, action ? action->span : (Span){ 0 }, arena_vprintf(run->schedule->arena, format, args) };
    va_end(args);
    return false;
}

// ---- clocks

void clock_join(VectorClock *into, const VectorClock *from, int agents)
{
    for (int a = 0; a < agents; a++)
        if (into->at[a] < from->at[a]) into->at[a] = from->at[a];
}

static inline void join_both(VectorClock *seen, const VectorClock *by_seen, VectorClock *fenced,
                             const VectorClock *by_fenced, int agents)
{
    for (int a = 0; a < agents; a++) {
        if (seen->at[a] < by_seen->at[a]) seen->at[a] = by_seen->at[a];
        if (fenced->at[a] < by_fenced->at[a]) fenced->at[a] = by_fenced->at[a];
    }
}

void clock_publish(const Agent *agent, bool all, VectorClock *seen, VectorClock *fenced)
{
    join_both(seen, &agent->seen, fenced, &agent->fenced, agent->agents);
    if (all && seen->at[agent->number] < agent->now) seen->at[agent->number] = agent->now;
}

void clock_learn(Agent *agent, const VectorClock *seen, const VectorClock *fenced)
{
    join_both(&agent->seen, seen, &agent->fenced, fenced, agent->agents);
}

// ---- control flow

static int trips(const Run *run, int loop) { return run->programs.loops.items[loop].trips; }

static int first_iteration(const Action *action)
{
    if (action->kind == ACTION_GRID) return 0;
    return action->loop.part == LOOP_REST ? 1 : action->loop.part == LOOP_AHEAD ? -action->loop.ahead : 0;
}

static int end_iteration(const Run *run, const Action *action, int loop)
{
    return trips(run, loop) + (action->kind == ACTION_LOOP && action->loop.part == LOOP_ONE_MORE);
}

static void enter_loop(const Run *run, Agent *agent, const ProgramStep *step)
{
    const int first = first_iteration(step->action);
    agent->is_inside[step->loop] = first < end_iteration(run, step->action, step->loop);
    agent->step[step->loop] = agent->iteration[step->loop] = first;
    agent->pc = agent->is_inside[step->loop] ? agent->pc + 1 : step->target;
}

static void next_iteration(const Run *run, Agent *agent, const ProgramStep *step)
{
    const int iteration = ++agent->iteration[step->loop];
    agent->step[step->loop] = iteration;
    agent->is_inside[step->loop] = iteration < end_iteration(run, step->action, step->loop);
    agent->pc = agent->is_inside[step->loop] ? step->target : agent->pc + 1;
}

// Of a jump: break leaves one loop, return all but the grid.
static void leave_loops(const Run *run, Agent *agent, const ProgramStep *step)
{
    if (step->loop >= 0) agent->is_inside[step->loop] = false;
    const bool returns = step->action && step->action->jump.how == T_RETURN;
    for (int i = 0; returns && i < run->programs.loops.count; i++)
        agent->is_inside[i] &= run->programs.loops.items[i].source == run->schedule;
    agent->pc = step->target;
}

static int iterations_ahead(const Agent *agent, int loop)
{
    for (int i = 0; i < agent->program->steps.count; i++) {
        const ProgramStep *const step = &agent->program->steps.items[i];
        if (step->kind == STEP_LOOP && step->loop == loop && step->action->kind == ACTION_LOOP &&
            step->action->loop.part == LOOP_AHEAD)
            return step->action->loop.ahead;
    }
    return 0;
}

static void enter_source_scope(const Run *run, Agent *agent, const ProgramStep *step)
{
    const ScopeKind kind = step->action->scope.kind;
    const LoopPlace place = { .n = trips(run, step->loop),
                              .at = agent->step[step->loop],
                              .is_inside = agent->is_inside[step->loop],
                              .ahead = kind == SCOPE_STEP_AHEAD ? iterations_ahead(agent, step->loop) : 0 };
    const int to = scope_step(kind, place);
    if (to < 0) {
        agent->pc = step->target;
        return;
    }
    if (is_of_next_step(kind)) agent->next_of = place.at + 1 < place.n ? step->loop : -1;
    agent->saved[agent->pc] = place.at;
    agent->step[step->loop] = to;
    agent->pc++;
}

static void enter_scope(const Run *run, Agent *agent, const ProgramStep *step)
{
    const Action *const action = step->action;
    const bool is_other = action->scope.kind == SCOPE_ONE_GROUP && action->scope.threads != agent->group;
    const bool takes_otherwise = action->scope.kind == SCOPE_ALIGNED && is_unaligned(run);
    if (is_other || takes_otherwise) agent->pc = step->target;
    else if (step->loop >= 0) enter_source_scope(run, agent, step);
    else agent->pc++;
}

static void leave_scope(Agent *agent, const ProgramStep *step)
{
    if (step->loop >= 0) agent->step[step->loop] = agent->saved[step->first];
    if (is_of_next_step(step->action->scope.kind)) agent->next_of = -1;
    agent->pc++;
}

// The same in all roles for the same steps of the loops around.
static bool holds(const Run *run, const Agent *agent)
{
    if (run->pattern < 2) return run->pattern == 0;
    int sum = run->pattern;
    for (int i = 0; i < run->programs.loops.count; i++)
        if (agent->is_inside[i]) sum += agent->step[i];
    return sum % 2 == 0;
}

static bool is_true(const Run *run, const Agent *agent, const ProgramStep *step)
{
    return !step->action->branch.source || holds(run, agent) != step->is_opposite;
}

// ---- actions

static inline bool run_action(Run *run, Agent *agent, const ProgramStep *step)
{
    const Action *const action = step->action;
    agent->now++;
    switch (action->kind) {
    case ACTION_ACQUIRE:
    case ACTION_EXPECT:
    case ACTION_ARRIVE:
    case ACTION_WAIT:
    case ACTION_RELEASE:
    case ACTION_ADVANCE: return run_ring_action(run, agent, action);
    case ACTION_BARRIER_SYNC:
    case ACTION_BARRIER_ARRIVE:
    case ACTION_CLUSTER_SYNC: return run_barrier_action(run, agent, step);
    case ACTION_FENCE_ASYNC: fence_async(agent); return true;
    case ACTION_MMA_WAIT: retire(run, agent, &agent->mmas, action->wait.pending); return true;
    case ACTION_STORE_WAIT: retire(run, agent, &agent->stores, action->wait.pending); return true;
    case ACTION_COPY_WAIT: retire_copies(run, agent, action->wait.pending); return true;
    case ACTION_COPY_COMMIT: agent->commits++; return true;
    case ACTION_WARP_SYNC: agent->warp_seen = agent->now; return true;
    case ACTION_GRID:
    case ACTION_LOOP:
    case ACTION_IF:
    case ACTION_SCOPE:
    case ACTION_JUMP:
    case ACTION_COPY:
    case ACTION_LDMATRIX:
    case ACTION_STORE:
    case ACTION_PREFETCH:
    case ACTION_MMA:
    case ACTION_FENCE_REGISTERS:
    case ACTION_MAP:
    case ACTION_SCAN:
    case ACTION_ATOMIC:
    case ACTION_SCALAR:
    case ACTION_DECLARE: return run_accesses(run, agent, action);
    }
    return true;
}

static bool end_role(Run *run, Agent *agent)
{
    agent->blocked = HAS_ENDED;
    if (agent->mmas.count)
        return found(run, FAULT_IN_FLIGHT, agent->mmas.items[0].action, "%s ends with an MMA in flight", agent->name);
    if (!agent->stores.count) return true;
    return found(run, FAULT_PROXY, agent->stores.items[0].action, "%s ends while a bulk store reads '%s'", agent->name,
                 run->schedule->tiles.items[agent->stores.items[0].accesses[0].tile]->name);
}

static inline bool run_step(Run *run, Agent *agent)
{
    const ProgramStep *const step = &agent->program->steps.items[agent->pc];
    const int pc = agent->pc;
    switch (step->kind) {
    case STEP_LOOP: enter_loop(run, agent, step); return true;
    case STEP_NEXT: next_iteration(run, agent, step); return true;
    case STEP_SCOPE: enter_scope(run, agent, step); return true;
    case STEP_LEAVE: leave_scope(agent, step); return true;
    case STEP_GOTO: leave_loops(run, agent, step); return true;
    case STEP_END: return end_role(run, agent);
    case STEP_IF:
        agent->pc = is_true(run, agent, step) ? agent->pc + 1 : step->target;
        return run_action(run, agent, step);
    case STEP_ACCESS:
        run->budget--;
        agent->now++;
        agent->pc++;
        return run_accesses(run, agent, step->action);
    case STEP_DO:
        run->budget--;
        if (!run_action(run, agent, step)) return false;
        if (agent->blocked == IS_RUNNING && agent->pc == pc) agent->pc++;
        return true;
    }
    return true;
}

// ---- agents

static bool can_go_on(const Run *run, const Agent *agent)
{
    switch (agent->blocked) {
    case IS_RUNNING: return true;
    case ON_FULL: return is_full(run, agent->on, agent->fill);
    case ON_EMPTY: return is_empty(run, agent->on, agent->fill);
    case ON_BARRIER: // the end of the phase takes it on
    case HAS_ENDED: return false;
    }
    return false;
}

void run_roles(Run *run)
{
    for (bool any = true; any && run->budget > 0;) {
        any = false;
        for (int a = 0; a < run->n_agents; a++) {
            Agent *const agent = &run->agents[run->is_reversed ? run->n_agents - 1 - a : a];
            if (!can_go_on(run, agent)) continue;
            any = true;
            agent->blocked = IS_RUNNING;
            while (agent->blocked == IS_RUNNING && run->budget > 0)
                if (!run_step(run, agent)) return;
        }
    }
    if (run->budget <= 0) return;
    for (int a = 0; a < run->n_agents; a++)
        if (run->agents[a].blocked != HAS_ENDED) {
            explain_deadlock(run);
            return;
        }
    check_rings_at_end(run);
}
