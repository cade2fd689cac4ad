// SPDX-License-Identifier: MIT
// pipeline.h - loops whose products run ahead: software pipelines, early issue, loops of products alone.
#ifndef KILN_LOWER_GPU_PLANS_PIPELINE_H
#define KILN_LOWER_GPU_PLANS_PIPELINE_H

#include "lower/gpu/plans/forms.h"
#include "lower/gpu/facts/lowering.h"

enum { CROSSINGS_MAX = 16 };

typedef struct SoftwarePipeline {
    StepsForm form; // STEPS_SOFTWARE_PIPELINE
    const TileOp *op;
    Var *crossings[CROSSINGS_MAX]; // of Tile IR: scalars of stage 0 that stage 1 uses a step later
    int n_crossings;
} SoftwarePipeline;

typedef struct EarlyIssue {
    StepsForm form; // STEPS_EARLY_ISSUE
    const TileOp *op;
    VEC(const Ring *) rings; // of the tiles that are first used by a product that is issued early
} EarlyIssue;

typedef struct ProductLoop {
    StepsForm form; // STEPS_PRODUCT_LOOP
    const TileOp *op;
    const RingState *ring_state; // of all tiles that its products read
    VEC(Product *) starting;     // whose first step overwrites the accumulator
} ProductLoop;

#endif
