// SPDX-License-Identifier: MIT
// explain.h - saying what was decided, for `kiln explain`.
#ifndef KILN_LOWER_GPU_DECIDE_EXPLAIN_EXPLAIN_H
#define KILN_LOWER_GPU_DECIDE_EXPLAIN_EXPLAIN_H

#include "lower/gpu/facts/lowering.h"

void explain(Lowering *lo);

#endif
