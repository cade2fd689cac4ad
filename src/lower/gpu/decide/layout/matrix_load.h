// SPDX-License-Identifier: MIT
// matrix_load.h - 16-bit matrices from shared memory into fragments.
#ifndef KILN_LOWER_GPU_DECIDE_LAYOUT_MATRIX_LOAD_H
#define KILN_LOWER_GPU_DECIDE_LAYOUT_MATRIX_LOAD_H

#include "lower/gpu/plans/matrix_load.h"
#include "lower/gpu/decide/actions/actions.h"

const MatrixLoadPlan *plan_matrix_load(Lowering *lo, TileOp *op); // matrix_load.c; NULL: it is no such map

#endif
