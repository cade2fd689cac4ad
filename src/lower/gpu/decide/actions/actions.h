// SPDX-License-Identifier: MIT
// actions.h - making the schedule's actions.
#ifndef KILN_LOWER_GPU_DECIDE_ACTIONS_ACTIONS_H
#define KILN_LOWER_GPU_DECIDE_ACTIONS_ACTIONS_H

#include "lower/gpu/plans/forms.h"
#include "lower/gpu/facts/lowering.h"

// The first member of what an action's `print` points to, where its kind does not say what that is: copies, stores and
// maps have several forms each.
// ---- actions.c
Action *act(Lowering *lo, Action action); // one without a body
// One with a body: control flow, or an action that has others in the course of its work. The printing of the latter comes
// to them with print_part(), in this order.
Action *open_action(Lowering *lo, Action action);
void otherwise_action(Lowering *lo);
void close_action(Lowering *lo);
void begin_role(Lowering *lo, ScheduleRole role);
void end_role(Lowering *lo);
void act_plain(Lowering *lo, ActionKind kind); // one that says all by its kind
void act_wait(Lowering *lo, const Ring *ring);
void act_release(Lowering *lo, const Ring *ring, RingSlot slot);
void act_barrier(Lowering *lo, ActionKind kind, int barrier, int threads);
void act_register_fence(Lowering *lo, const TileInfo *tile); // its registers are not accessed before this
void act_mma_wait(Lowering *lo, int pending);
void act_declare(Lowering *lo, DeclareKind what);
void act_slot_pointers(Lowering *lo, const Ring *ring); // its tiles' pointers to the current slot
void act_on_ring(Lowering *lo, ActionKind kind, const Ring *ring, int arrivals);
Action *act_op(Lowering *lo, TileOp *op, Action action); // with what it accesses
void open_loop(Lowering *lo, LoopPart part, const TileOp *source);

// ---- action_accesses.c
void record_accesses(Lowering *lo, Action *action, TileOp *op);
void access_tile(Lowering *lo, Action *action, const TileInfo *tile, bool reads, bool writes, bool is_async);

// ---- sync.c
void wait_for_copies(Lowering *lo); // of this thread
void act_sync(Lowering *lo);        // of the threads that share the statement at hand
void act_sync_all(Lowering *lo);    // of all that are no producer
void act_sync_group(Lowering *lo);

void refuse_packed_views(Lowering *lo, TileOp *op); // its single elements, and those of what is in it
void refuse_fragment_accesses(Lowering *lo, TileOp *map, const Iteration *it);

// ---- schedule_tables.c
// ---- early.c
void act_early_loads(Lowering *lo, TileOp *first);

void make_schedule_tables(Lowering *lo);

#endif
