// SPDX-License-Identifier: MIT
// several_writers.h - tensors that several statements write.
#ifndef KILN_LOWER_GPU_DECIDE_PIPELINE_SEVERAL_WRITERS_H
#define KILN_LOWER_GPU_DECIDE_PIPELINE_SEVERAL_WRITERS_H

#include "lower/gpu/facts/lowering.h"

const bool *find_several_writers(Lowering *lo); // by buffer
const bool *find_sums(Lowering *lo);            // the same: tensors that tiles are added to, and no more

#endif
