// SPDX-License-Identifier: MIT
// lower.h - Tile IR to Loop IR for the CPU.
#ifndef KILN_LOWER_CPU_LOWER_H
#define KILN_LOWER_CPU_LOWER_H

#include "target/target.h"

// The entry runs instances first .. last-1 (plan.h). Sets plan->scratch_bytes. NULL when a diagnostic was reported. Both
// explain nothing.
LoopUnit *lower_cpu(TileKernel *kernel, const Target *target, LaunchPlan *plan, Text *explanation, Text *cost);

// The same entry for sequential kernels (references, case code, verify): plain scalar C, no tile passes.
LoopUnit *lower_sequential(TileKernel *kernel, const Target *target, LaunchPlan *plan, Text *explanation, Text *cost);

// A pass before plan_new: the outermost forall of a sequential kernel becomes its grid where nobody can tell.
void sequential_make_tasks(TileKernel *kernel);

#endif
