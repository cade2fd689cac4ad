// SPDX-License-Identifier: MIT
// convert_layout.h - fragments copied to fragments of another layout, and to tiles in shared memory.
#ifndef KILN_LOWER_GPU_PLANS_CONVERT_LAYOUT_H
#define KILN_LOWER_GPU_PLANS_CONVERT_LAYOUT_H

#include "layout/convert.h"
#include "lower/gpu/plans/forms.h"
#include "lower/gpu/facts/elementwise.h"

typedef struct ConversionPlan {
    PlanForm form; // PLAN_CONVERSION
    const TileInfo *from, *to;
    Conversion how;
    bool by_pieces;  // through shared memory by `store` and `load`; else element by element
    int rows, parts; // of those so many rows at a time
    SharedTransfer store, load;
} ConversionPlan;

// One side of it: what goes to the scratch, or comes from there.
typedef struct ConversionPart {
    PlanForm form; // PLAN_CONVERSION_PART
    const ConversionPlan *plan;
    int part;
    bool is_load;
} ConversionPart;

// A whole fragment stored by stmatrix into a tile that products read.
typedef struct TransferPlan {
    PlanForm form; // PLAN_TRANSFER
    const TileInfo *from, *to;
    SharedTransfer how;
} TransferPlan;

#endif
