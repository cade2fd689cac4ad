// SPDX-License-Identifier: MIT
// groups.h - which warp groups run a statement, once statements are placed on groups: sets of groups have a bit for each.
#ifndef KILN_LOWER_GPU_FACTS_GROUPS_H
#define KILN_LOWER_GPU_FACTS_GROUPS_H

#include "lower/gpu/facts/lowering.h"

// The fragments in registers that an operation uses, and the groups that hold them.
typedef struct FragmentGroups {
    Lowering *lo;
    uint32_t mask;
    bool fragments, conflict, writes_copy;
    TileInfo *last;
} FragmentGroups;

uint32_t all_groups(const Lowering *lo);
bool is_single(uint32_t groups);
FragmentGroups fragment_groups(Lowering *lo, TileOp *op);
uint32_t op_groups(Lowering *lo, TileOp *op); // that run it; all, if nothing is placed
Partition map_partition(Lowering *lo, TileOp *map);
uint32_t light_groups(Lowering *lo); // that compute no products

#endif
