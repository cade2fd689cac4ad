// SPDX-License-Identifier: MIT
// map.h - maps over elements: foralls, copies, fills and atomic additions of tiles.
#ifndef KILN_LOWER_GPU_PLANS_MAP_H
#define KILN_LOWER_GPU_PLANS_MAP_H

#include "layout/convert.h"
#include "lower/gpu/plans/forms.h"
#include "lower/gpu/facts/elementwise.h"

// A store whose lanes exchange registers before, so that each has a vector of 16 bytes of a row.
typedef struct WideStore {
    Layout layout;  // after it
    Conversion how; // of words of two elements: four lanes exchange four of them
    int blocks;     // of the map's columns that are exchanged together
} WideStore;

typedef struct MapPlan {
    PlanForm form; // PLAN_MAP
    TileOp *map;   // a forall
    Iteration it;
    const Iteration *loads;            // of a copy whose loads are printed before it (early.c); else NULL
    TileInfo *packed_to, *packed_from; // two elements by one instruction (packed.c); NULL: it is none such
    const TileInfo *row_factor;        // of a product with factors that may all be 1 (rescale.c); NULL: none
    bool only_first_replica, is_muted; // threads, groups that repeat what others do: they store nothing
    // A store in it to merged rows, whose addresses are computed before the loops over columns, each by one lane of the warp;
    // NULL: none. The first so many of it.order are modes of rows; so many lanes beside each other have one row.
    const TileOp *addressed_rows;
    int n_row_modes, lanes_across;
    const WideStore *wide; // of that store; NULL: as the lanes have it
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

#endif
