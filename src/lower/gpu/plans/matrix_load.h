// SPDX-License-Identifier: MIT
// matrix_load.h - 16-bit matrices from shared memory into fragments.
#ifndef KILN_LOWER_GPU_PLANS_MATRIX_LOAD_H
#define KILN_LOWER_GPU_PLANS_MATRIX_LOAD_H

#include "layout/convert.h"
#include "lower/gpu/plans/forms.h"
#include "lower/gpu/facts/product.h"

typedef struct MatrixLoadPlan {
    PlanForm form; // PLAN_MATRIX_LOAD
    const TileInfo *to;
    Operand from;       // the part of the shared tile; transposed: its columns are the fragment's rows
    SharedTransfer how; // of the slice: rows and columns from its corner on
    int run;            // of so many instructions each goes by the same steps from the one before it:
    int row_step, column_step, register_step;
} MatrixLoadPlan;

#endif
