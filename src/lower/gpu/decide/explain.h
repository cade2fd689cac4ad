// SPDX-License-Identifier: MIT
// explain.h - saying what was decided, for `kiln explain`.
#ifndef KILN_LOWER_GPU_DECIDE_EXPLAIN_H
#define KILN_LOWER_GPU_DECIDE_EXPLAIN_H

#include "lower/gpu/facts/lowering.h"

void explain(Lowering *lo);
const char *line_of(Lowering *lo, const TileOp *op); // of the source: "31", in an imported file "softmax.tile:13"
void explain_cluster(Lowering *lo);                  // cluster.c

#endif
