// SPDX-License-Identifier: MIT
// actions.h - making the schedule's actions.
#ifndef KILN_LOWER_GPU_DECIDE_ACTIONS_ACTIONS_H
#define KILN_LOWER_GPU_DECIDE_ACTIONS_ACTIONS_H

#include "lower/gpu/facts/lowering.h"

// The first member of what an action's `print` points to, where its kind does not say what that is: copies, stores and
// maps have several forms each.
typedef enum PlanForm {
    PLAN_MAP,      // of a map over elements (map.h)
    PLAN_TRANSFER, // convert_layout.h
    PLAN_PIECES,   // of a copy that runs ahead by cp.async (multistage.h)
    PLAN_STORE,    // of a store through staging (store.h)
    PLAN_BOXES,    // of its boxes
    PLAN_ROWS,     // rows.h
    PLAN_ROW_ELEMENTS,
    PLAN_CONVERSION, // convert_layout.h
    PLAN_CONVERSION_PART,
    PLAN_MATRIX_LOAD, // matrix_load.h
} PlanForm;

// The same of a loop and of the scopes of its steps; without `print` a loop stays as the source has it.
typedef enum StepsForm {
    STEPS_SOFTWARE_PIPELINE, // pipeline.h
    STEPS_EARLY_ISSUE,
    STEPS_PRODUCT_LOOP,
    STEPS_OF_PRODUCER,    // producer.h
    STEPS_MULTISTAGE,     // multistage.h
    STEPS_OF_ROW_INDICES, // rows.h
} StepsForm;

// ---- actions.c: deciding
Action *act(Lowering *lo, Action action); // one without a body
// One with a body: control flow, or an action that has others in the course of its work. The printing of the latter comes
// to them with print_part(), in this order.
Action *open_action(Lowering *lo, Action action);
void otherwise_action(Lowering *lo);
void close_action(Lowering *lo);
void begin_role(Lowering *lo, ScheduleRole role);
void end_role(Lowering *lo);
int walking_groups(const Lowering *lo);        // whose code the walk is
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

// ---- places.c
// ---- sync.c
void wait_for_copies(Lowering *lo); // of this thread
void act_sync(Lowering *lo);        // of the threads that share the statement at hand
void act_sync_all(Lowering *lo);    // of all that are no producer
void act_sync_group(Lowering *lo);

void refuse_packed_views(Lowering *lo, TileOp *op); // its single elements, and those of what is in it
void refuse_fragment_accesses(Lowering *lo, TileOp *map, const Iteration *it);

// ---- schedule_tables.c
void make_schedule_tables(Lowering *lo);

#endif
