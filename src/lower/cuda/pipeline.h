// SPDX-License-Identifier: MIT
// pipeline.h - pipelines whose products run under the next step: what deciding tells printing.
#ifndef KILN_LOWER_CUDA_PIPELINE_H
#define KILN_LOWER_CUDA_PIPELINE_H

#include "lower/cuda/actions.h"

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

// ---- print_software_pipeline.c, print_early_issue.c, print_product_loop.c: of actions with such a plan
void begin_software_pipeline(Lowering *lo, const Action *action);
void end_software_pipeline(Lowering *lo, const Action *action);
void keep_crossings(Lowering *lo, const Action *action); // of DECLARE_CROSSINGS
void begin_early_issue(Lowering *lo, const Action *action);
void end_early_issue(Lowering *lo, const Action *action);
void begin_product_loop(Lowering *lo, const Action *action);
void end_product_loop(Lowering *lo, const Action *action);

#endif
