// SPDX-License-Identifier: MIT
// lower.h - Tile IR to Loop IR for CUDA.
#ifndef KILN_LOWER_GPU_LOWER_H
#define KILN_LOWER_GPU_LOWER_H

#include "target/target.h"

// Fills the CUDA part of the plan. `explanation`: what was decided, for `kiln explain`.
// NULL when a diagnostic was reported (a plan that does not fit lists its tiles).
LoopUnit *lower_gpu(TileKernel *kernel, const Target *target, LaunchPlan *plan, Text *explanation, Text *cost);

#endif
