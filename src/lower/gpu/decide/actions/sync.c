// SPDX-License-Identifier: MIT
// sync.c - barriers of the threads whose statements are decided.
//
// before: what these threads have copied and stored is under way      after: it is there before any of them goes on
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/facts/partition.h"

void wait_for_copies(Lowering *lo)
{
    if (lo->copies_in_flight) act_plain(lo, ACTION_COPY_WAIT);
    lo->copies_in_flight = false;
}

// What this thread has stored or copied is there before the others go on.
static void finish_own(Lowering *lo)
{
    wait_for_copies(lo);
    if (lo->needs_fence) act_plain(lo, ACTION_FENCE_ASYNC);
}

void act_sync_all(Lowering *lo)
{
    finish_own(lo);
    if (lo->has_producer || lo->is_specialised) // walks of groups are apart: not one __syncthreads
        act_barrier(lo, ACTION_BARRIER_SYNC, BAR_CONSUMERS, all_threads(lo));
    else act_barrier(lo, ACTION_BARRIER_SYNC, 0, all_threads(lo));
}

void act_sync_group(Lowering *lo)
{
    finish_own(lo);
    act_barrier(lo, ACTION_BARRIER_SYNC, BAR_GROUPS + lo->walk, consumer_threads(lo));
}

// Of the threads that share the statement at hand.
void act_sync(Lowering *lo)
{
    if (lo->is_specialised && lo->partition.groups == 1) act_sync_group(lo);
    else act_sync_all(lo);
}
