// SPDX-License-Identifier: MIT
// map.h - maps over elements: what is decided (map.c) and printed (print_map.c).
#ifndef KILN_LOWER_GPU_DECIDE_PIPELINE_MAP_H
#define KILN_LOWER_GPU_DECIDE_PIPELINE_MAP_H

#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/facts/elementwise.h"

typedef struct MapPlan {
    PlanForm form; // PLAN_MAP
    TileOp *map;   // a forall
    Iteration it;
    const Iteration *loads;            // of a copy whose loads are printed before it (early.c); else NULL
    TileInfo *packed_to, *packed_from; // two elements by one instruction (packed.c); NULL: it is none such
    const TileInfo *row_factor;        // of a product with factors that may all be 1 (rescale.c); NULL: none
    bool only_first_replica, is_muted; // threads, groups that repeat what others do: they store nothing
} MapPlan;

enum { EARLY_COPIES_MAX = 8 };
typedef struct EarlyLoads {
    const Iteration *its[EARLY_COPIES_MAX]; // of each copy
    int n;
} EarlyLoads;

typedef struct JoinPlan {
    const TileInfo *tile;
    Iteration it; // over its registers: as if a forall had just reduced what its threads hold in common
} JoinPlan;

// ---- map.c: deciding
Action *act_map(Lowering *lo, TileOp *op, Action action); // the action is given its plan; accesses are the caller's
// For an action with maps inside: the plan, and its barriers as parts of the open action.
MapPlan *plan_map(Lowering *lo, TileOp *op);
void act_map_barriers(Lowering *lo, const MapPlan *plan);
void act_elementwise(Lowering *lo, TileOp *op);         // a forall, copy, fill or tile atomic, in the form that is best
void act_join_sums(Lowering *lo, const TileInfo *tile); // its parts become its value

// ---- early.c
void act_early_loads(Lowering *lo, TileOp *first);

// ---- print_map.c
void print_map(Printer *pr, const MapPlan *plan);
void print_early_loads(Printer *pr, const EarlyLoads *loads);

#endif
