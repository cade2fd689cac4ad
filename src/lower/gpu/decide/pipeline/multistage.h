// SPDX-License-Identifier: MIT
// multistage.h - pipelines whose copies run ahead by cp.async: what deciding (multistage.c) tells printing
// (print_multistage.c).
#ifndef KILN_LOWER_GPU_DECIDE_PIPELINE_MULTISTAGE_H
#define KILN_LOWER_GPU_DECIDE_PIPELINE_MULTISTAGE_H

#include "lower/gpu/plans/multistage.h"
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/decide/iteration/known_values.h"

// ---- multistage.c
void decide_multistage(Lowering *lo, TileOp *pipeline);

#endif
