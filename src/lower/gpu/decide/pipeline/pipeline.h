// SPDX-License-Identifier: MIT
// pipeline.h - pipelines whose products run under the next step: what is decided of them, and what prints them.
#ifndef KILN_LOWER_GPU_DECIDE_PIPELINE_PIPELINE_H
#define KILN_LOWER_GPU_DECIDE_PIPELINE_PIPELINE_H

#include "lower/gpu/decide/actions/actions.h"

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

// ---- software_pipeline.c: deciding; pipelines with stage labels
bool can_software_pipeline(Lowering *lo, TileOp *pipeline);
bool groups_ping_pong(Lowering *lo, TileOp *pipeline);
void act_first_ping_pong(Lowering *lo);
void decide_software_pipeline(Lowering *lo, TileOp *pipeline);

// ---- early_issue.c: deciding; pipelines whose step begins with products that the step before issues at its end
bool can_issue_early(Lowering *lo, TileOp *pipeline);
void decide_early_issue_loop(Lowering *lo, TileOp *pipeline);
void decide_early_issue(Lowering *lo); // such products, if they are due

// ---- product_loop.c: deciding
int loop_products(Lowering *lo, TileOp *pipeline); // of a step, where it is nothing but such products; else 0
bool starts_in_loop(Lowering *lo, const TileOp *fill);
void decide_product_loop(Lowering *lo, TileOp *op, int n_products);

// ---- print_software_pipeline.c, print_early_issue.c, print_product_loop.c: of actions with such a plan
void begin_software_pipeline(Printer *pr, const Action *action);
void end_software_pipeline(Printer *pr, const Action *action);
void keep_crossings(Printer *pr, const Action *action); // of DECLARE_CROSSINGS
void begin_early_issue(Printer *pr, const Action *action);
void end_early_issue(Printer *pr, const Action *action);
void begin_product_loop(Printer *pr, const Action *action);
void end_product_loop(Printer *pr, const Action *action);

#endif
