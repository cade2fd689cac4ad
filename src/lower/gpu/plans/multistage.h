// SPDX-License-Identifier: MIT
// multistage.h - pipelines whose copies run a few steps ahead by cp.async.
#ifndef KILN_LOWER_GPU_PLANS_MULTISTAGE_H
#define KILN_LOWER_GPU_PLANS_MULTISTAGE_H

#include "lower/gpu/plans/forms.h"
#include "lower/gpu/facts/elementwise.h"

// What does not depend on what the consumers compute (known_values.c): for deciding alone.
typedef struct KnownValues {
    struct Lowering *lo;
    bool *unknown; // by variable id: made by consumers
    bool no_tiles; // nothing that tiles hold is known
    bool changed;
} KnownValues;

// A pipeline whose copies run ahead by cp.async (multistage.c).
struct Multistage {
    TileOp *pipeline;
    int n_tiles, buffers; // of each tile's ring
    KnownValues known;
};

// Of its loop, its scopes and what commits its copies.
typedef struct MultistageSteps {
    StepsForm form; // STEPS_MULTISTAGE
    const Multistage *multistage;
    bool is_body; // the scope is the step's own statements
} MultistageSteps;

// A copy by pieces of 4 to 16 bytes.
typedef struct Pieces {
    PlanForm form; // PLAN_PIECES
    const TileOp *map;
    Iteration it;
} Pieces;

#endif
