// SPDX-License-Identifier: MIT
// print_action.c - Loop IR for each kind of action.
//
// before: the action is decided, its ring states, tiles and thread numbers are declared
// after:  its statements are at the end of lo->out; nothing was decided
#include "lower/cuda/actions.h"

static const Ring *ring_of(const Lowering *lo, const Action *action) { return lo->rings.items[action->ring.ring]; }

// The groups ping-pong at the tensor cores: each waits on its own named barrier, which the group before it arrives at.
static Expr *barrier_id(Lowering *lo, const Action *action)
{
    const int first = action->barrier.barrier;
    if (action->barrier.of == BARRIER_ONE) return i32_const(lo, first);
    if (action->barrier.of == BARRIER_OF_GROUP) return i32_add(lo, var_of(lo, lo->group), i32_const(lo, first));
    Expr *const is_last = i32_op(lo, X_EQ, var_of(lo, lo->group), lo->partition.groups - 1);
    Expr *const next = i32_add(lo, var_of(lo, lo->group), i32_const(lo, first + 1));
    return expr_select(lo->arena, is_last, i32_const(lo, first), next);
}

static void print_barrier(Lowering *lo, const char *how, const Action *action)
{
    if (action->barrier.barrier == 0) emit_call(lo, "__syncthreads", 0);
    else emit_call(lo, how, 2, barrier_id(lo, action), i32_const(lo, action->barrier.threads));
}

void print_action(Lowering *lo, const Action *action)
{
    switch (action->kind) {
    case ACTION_WAIT: print_wait_full(lo, ring_of(lo, action)); return;
    case ACTION_RELEASE:
        print_release(lo, ring_of(lo, action), action->ring.slot == SLOT_HELD ? lo->held_slot : NULL);
        return;
    case ACTION_MMA_WAIT: emit_call(lo, "wgmma_wait", 1, i32_const(lo, action->wait.pending)); return;
    case ACTION_FENCE_ASYNC: emit_call(lo, "fence_async", 0); return;
    case ACTION_BARRIER_SYNC: print_barrier(lo, "bar_sync", action); return;
    case ACTION_BARRIER_ARRIVE: print_barrier(lo, "bar_arrive", action); return;
    case ACTION_CLUSTER_SYNC: emit_call(lo, "cluster_sync", 0); return;
    case ACTION_WARP_SYNC: emit_call(lo, "__syncwarp", 0); return;
    case ACTION_GRID:
    case ACTION_LOOP:
    case ACTION_IF:
    case ACTION_SCOPE:
    case ACTION_JUMP:
    case ACTION_ACQUIRE:
    case ACTION_EXPECT:
    case ACTION_ARRIVE:
    case ACTION_ADVANCE:
    case ACTION_COPY:
    case ACTION_COPY_COMMIT:
    case ACTION_COPY_WAIT:
    case ACTION_LDMATRIX:
    case ACTION_STORE:
    case ACTION_STORE_WAIT:
    case ACTION_PREFETCH:
    case ACTION_MMA:
    case ACTION_FENCE_REGISTERS:
    case ACTION_MAP:
    case ACTION_SCAN:
    case ACTION_ATOMIC:
    case ACTION_SCALAR:
    case ACTION_DECLARE: return;
    }
}

// ---- actions with a body

void print_begin(Lowering *lo, const Action *action) { (void)lo, (void)action; }
void print_otherwise(Lowering *lo, const Action *action) { (void)lo, (void)action; }
void print_end(Lowering *lo, const Action *action) { (void)lo, (void)action; }
