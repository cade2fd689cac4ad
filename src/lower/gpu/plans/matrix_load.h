// SPDX-License-Identifier: MIT
// matrix_load.h - 16-bit matrices from shared memory into fragments that lie as accumulators do.
#ifndef KILN_LOWER_GPU_PLANS_MATRIX_LOAD_H
#define KILN_LOWER_GPU_PLANS_MATRIX_LOAD_H

#include "lower/gpu/plans/forms.h"
#include "lower/gpu/facts/product.h"

typedef struct MatrixLoadPlan {
    PlanForm form; // PLAN_MATRIX_LOAD
    const TileInfo *to;
    Operand from;            // the part of the shared tile; transposed: its columns are the fragment's rows
    int row_blocks, columns; // of one group
} MatrixLoadPlan;

#endif
