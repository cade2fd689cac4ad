// SPDX-License-Identifier: MIT
// slices.h - what the producer computes, once its backward slice is found.
#ifndef KILN_LOWER_GPU_FACTS_SLICES_H
#define KILN_LOWER_GPU_FACTS_SLICES_H

#include "lower/gpu/facts/lowering.h"

bool is_fetch(const Lowering *lo, const TileOp *op); // a copy that the producer makes, and no producer group
bool is_in_backward_slice(const Lowering *lo, const TileOp *op); // a scalar

#endif
