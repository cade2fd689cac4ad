// SPDX-License-Identifier: MIT
// actions.c - the walks over the tree make the schedule: what each action says beside its operation.
//
// before: the schedule has its tables (schedule_tables.c)
// after:  it has its roles; nothing is printed (print_action.c does that)
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/facts/roles.h"

void begin_role(Lowering *lo, ScheduleRole role)
{
    schedule_begin_role(&lo->builder, role);
    enter_role(lo, lo->builder.role);
}

void end_role(Lowering *lo)
{
    leave_role(lo);
    schedule_end_role(&lo->builder);
}

Action *act(Lowering *lo, Action action) { return schedule_add(&lo->builder, action); }

Action *act_op(Lowering *lo, TileOp *op, Action action)
{
    action.op = op;
    if (action.kind == ACTION_SCALAR) refuse_packed_views(lo, op);
    Action *const added = act(lo, action);
    record_accesses(lo, added, op);
    return added;
}

Action *open_action(Lowering *lo, Action action) { return schedule_open(&lo->builder, action); }
void otherwise_action(Lowering *lo) { schedule_otherwise(&lo->builder); }
void close_action(Lowering *lo) { schedule_close(&lo->builder); }

void open_loop(Lowering *lo, LoopPart part, const TileOp *source)
{
    open_action(lo, (Action){ .kind = ACTION_LOOP, .op = source, .loop = { .part = part, .source = source } });
}

void act_declare(Lowering *lo, DeclareKind what)
{
    act(lo, (Action){ .kind = ACTION_DECLARE, .declare = { .what = what } });
}

// ---- rings

static Action on_ring(ActionKind kind, const Ring *ring)
{
    return (Action){ .kind = kind, .ring = { .ring = ring->index } };
}

void act_on_ring(Lowering *lo, ActionKind kind, const Ring *ring, int arrivals)
{
    Action action = on_ring(kind, ring);
    action.ring.arrivals = arrivals;
    act(lo, action);
}

void act_slot_pointers(Lowering *lo, const Ring *ring)
{
    act(lo, (Action){ .kind = ACTION_DECLARE, .declare = { .what = DECLARE_SLOT_POINTERS, .ring = ring->index } });
}

void act_wait(Lowering *lo, const Ring *ring) { act(lo, on_ring(ACTION_WAIT, ring)); }

// Whose code the walk is.
static int walking_groups(const Lowering *lo) { return lo->is_specialised ? 1 : lo->all.groups; }

// The warps that read by ordinary loads are together again before one lane of each speaks for it.
void act_release(Lowering *lo, const Ring *ring, RingSlot slot)
{
    Action release = on_ring(ACTION_RELEASE, ring);
    release.ring.slot = slot;
    release.ring.arrivals = lo->partition.warps * walking_groups(lo) * (ring->is_shared ? lo->cluster : 1);
    act(lo, release);
}

// ---- order

void act_plain(Lowering *lo, ActionKind kind) { act(lo, (Action){ .kind = kind }); }

void act_barrier(Lowering *lo, ActionKind kind, int barrier, int threads)
{
    act(lo, (Action){ .kind = kind, .barrier = { .barrier = barrier, .threads = threads } });
}

void act_register_fence(Lowering *lo, const TileInfo *tile)
{
    act(lo, (Action){ .kind = ACTION_FENCE_REGISTERS, .registers = { .tile = tile->number } });
}

void act_mma_wait(Lowering *lo, int pending)
{
    act(lo, (Action){ .kind = ACTION_MMA_WAIT, .wait = { .pending = pending } });
}
