// SPDX-License-Identifier: MIT
// multistage.h - pipelines whose copies run ahead by cp.async: what deciding (multistage.c) tells printing
// (print_multistage.c).
#ifndef KILN_LOWER_GPU_DECIDE_PIPELINE_MULTISTAGE_H
#define KILN_LOWER_GPU_DECIDE_PIPELINE_MULTISTAGE_H

#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/decide/iteration/known_values.h"
#include "lower/gpu/facts/elementwise.h"

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

// ---- multistage.c
void decide_multistage(Lowering *lo, TileOp *pipeline);

// ---- print_multistage.c
void begin_multistage(Printer *pr, const Action *action);
void end_multistage(Printer *pr, const Action *action);
void print_commit(Printer *pr, const Action *action);
void print_pieces(Printer *pr, const Pieces *pieces);

#endif
