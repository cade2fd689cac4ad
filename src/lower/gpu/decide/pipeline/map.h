// SPDX-License-Identifier: MIT
// map.h - maps over elements: what is decided (map.c) and printed (print_map.c).
#ifndef KILN_LOWER_GPU_DECIDE_PIPELINE_MAP_H
#define KILN_LOWER_GPU_DECIDE_PIPELINE_MAP_H

#include "lower/gpu/plans/map.h"
#include "lower/gpu/decide/actions/actions.h"

// ---- map.c: deciding
Action *act_map(Lowering *lo, TileOp *op, Action action); // the action is given its plan; accesses are the caller's
// For an action with maps inside: the plan, and its barriers as parts of the open action.
MapPlan *plan_map(Lowering *lo, TileOp *op);
void act_elementwise(Lowering *lo, TileOp *op);         // a forall, copy, fill or tile atomic, in the form that is best
void act_join_sums(Lowering *lo, const TileInfo *tile); // its parts become its value

#endif
