// SPDX-License-Identifier: MIT
// cost_time.c - how long one warp group takes for its part of an action, if it has the multiprocessor for itself.
#include "lower/gpu/cost/cost.h"

#include <math.h>

CostThreads cost_threads(const GpuMachine *machine, const ScheduleRole *role)
{
    const double groups = role->threads > 128 ? role->threads / 128.0 : 1;
    return (CostThreads){ machine, groups, role->threads / 32.0 / groups };
}

double cost_waits(const CostThreads *threads, const ActionWork *work)
{
    const GpuMachine *const m = threads->machine;
    return work->loads * m->load + work->shuffles * m->shuffle + work->barriers * m->barrier +
           work->branches * m->branch + work->cycles;
}

// Its warps issue every few cycles, each on its own scheduler.
double cost_group_time(const CostThreads *threads, const ActionWork *work)
{
    const GpuMachine *const m = threads->machine;
    const double part = 1 / threads->groups, schedulers = fmin(4, threads->warps);
    const double issue = work->used[UNIT_ISSUE] * part * m->instruction / schedulers;
    const double special = work->used[UNIT_SPECIAL] * part / (m->special * schedulers / 4);
    const double shared = work->used[UNIT_SHARED] * part / m->shared,
                 memory = work->used[UNIT_MEMORY] * part / m->memory;
    return fmax(fmax(issue, special), fmax(shared, memory));
}

double cost_product_time(const CostThreads *threads, const ActionWork *work)
{
    const GpuMachine *const m = threads->machine;
    return fmax(work->used[UNIT_TENSOR] / m->tensor, work->used[UNIT_SHARED] / m->shared) / threads->groups;
}
