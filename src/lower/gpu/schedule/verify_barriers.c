// SPDX-License-Identifier: MIT
// verify_barriers.c - named barriers and those of the cluster while the roles run.
//
// A named barrier counts threads and tells one phase from the next by nothing. Who comes to the next must know that the
// one before is over: it waited there itself, or heard of all who came. Else two phases can overlap.
#include "lower/gpu/schedule/verify_run.h"

int barrier_of(const Agent *agent, const Action *action)
{
    if (action->kind == ACTION_CLUSTER_SYNC) return CLUSTER_BARRIER;
    const int barrier = action->barrier.barrier;
    switch (action->barrier.of) {
    case BARRIER_ONE: return barrier;
    case BARRIER_OF_GROUP: return barrier + agent->group;
    case BARRIER_OF_NEXT_GROUP: return barrier + (agent->group + 1) % agent->groups;
    }
    return barrier;
}

static int all_threads(const Run *run)
{
    int threads = 0;
    for (int a = 0; a < run->n_agents; a++) threads += run->agents[a].threads;
    return threads;
}

static int counted_threads(const Run *run, const Action *action)
{
    const bool is_all = action->kind == ACTION_CLUSTER_SYNC || action->barrier.threads == 0;
    return is_all ? all_threads(run) : action->barrier.threads;
}

// Whether the agent knows that the phase before is over.
static bool knows_end(const Agent *agent, const BarrierRun *barrier)
{
    if (barrier->last_waited[agent->number]) return true;
    for (int a = 0; a < AGENTS_MAX; a++)
        if (a != agent->number && barrier->last[a] > agent->seen.at[a]) return false;
    return true;
}

static void end_meeting(Run *run, BarrierRun *barrier)
{
    for (int a = 0; a < run->n_agents; a++) {
        if (!barrier->waits[a]) continue;
        Agent *const agent = &run->agents[a];
        clock_learn(agent, &barrier->seen, &barrier->fenced);
        agent->blocked = IS_RUNNING;
        agent->pc++;
    }
    memcpy(barrier->last, barrier->came, sizeof barrier->came);
    memcpy(barrier->last_waited, barrier->waits, sizeof barrier->waits);
    memset(barrier->waits, 0, sizeof barrier->waits);
    memset(barrier->came, 0, sizeof barrier->came);
    memset(&barrier->seen, 0, sizeof barrier->seen);
    memset(&barrier->fenced, 0, sizeof barrier->fenced);
    barrier->threads = barrier->arrived = 0;
}

static bool check_meeting(Run *run, const Agent *agent, const Action *action, int id, int threads)
{
    const BarrierRun *const barrier = &run->barriers[id];
    if (barrier->threads && barrier->threads != threads)
        return found(run, FAULT_BARRIER, action, "%s comes to barrier %d for %d threads while %d synchronise there",
                     agent->name, id, threads, barrier->threads);
    if (barrier->came[agent->number])
        return found(run, FAULT_BARRIER, action, "%s arrives at barrier %d twice in one phase", agent->name, id);
    if (!knows_end(agent, barrier))
        return found(run, FAULT_BARRIER, action, "%s can come to barrier %d before the phase there is over",
                     agent->name, id);
    return true;
}

// An agent that waits stays at its step: the end of the phase takes it on.
bool run_barrier_action(Run *run, Agent *agent, const ProgramStep *step)
{
    const Action *const action = step->action;
    const int id = barrier_of(agent, action), threads = counted_threads(run, action);
    if (id < 0 || id > CLUSTER_BARRIER)
        return found(run, FAULT_BARRIER, action, "%s uses barrier %d; a CTA has %d", agent->name, id, NAMED_BARRIERS);
    if (step->is_divergent)
        return found(run, FAULT_BARRIER, action, "%s comes to barrier %d with a part of a warp", agent->name, id);
    if (!check_meeting(run, agent, action, id, threads)) return false;
    BarrierRun *const barrier = &run->barriers[id];
    barrier->threads = threads;
    barrier->arrived += step->warps < 0 ? agent->threads : 32 * step->warps;
    barrier->came[agent->number] = agent->now;
    clock_publish(agent, true, &barrier->seen, &barrier->fenced);
    if (barrier->arrived > threads)
        return found(run, FAULT_BARRIER, action, "barrier %d counts %d threads, and with %s come %d", id, threads,
                     agent->name, barrier->arrived);
    const bool waits = action->kind != ACTION_BARRIER_ARRIVE;
    if (waits) {
        barrier->waits[agent->number] = true;
        agent->blocked = ON_BARRIER;
        agent->on = id;
    }
    if (barrier->arrived == threads) end_meeting(run, barrier);
    return true;
}
