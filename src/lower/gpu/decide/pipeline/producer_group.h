// SPDX-License-Identifier: MIT
// producer_group.h - a group of warps that only fills tiles, as the producer: what its threads do.
#ifndef KILN_LOWER_GPU_DECIDE_PIPELINE_PRODUCER_GROUP_H
#define KILN_LOWER_GPU_DECIDE_PIPELINE_PRODUCER_GROUP_H

#include "lower/gpu/facts/lowering.h"

void begin_fills(Lowering *lo);
void sync_producer(Lowering *lo);    // its threads do
void sync_row_writers(Lowering *lo); // those whose rows may be another's
void decide_fill(Lowering *lo, TileOp *op);

#endif
