// SPDX-License-Identifier: MIT
// walk.h - the walks over the tree that make the roles' actions: the consumers' (consumer.c, statements.c) and the
// producer's (producer.c).
#ifndef KILN_LOWER_GPU_DECIDE_PIPELINE_WALK_H
#define KILN_LOWER_GPU_DECIDE_PIPELINE_WALK_H

#include "lower/gpu/facts/lowering.h"

// ---- consumer.c
void decide_consumers(Lowering *lo);
void decide_block(Lowering *lo, TileOp *block);
void decide_consumer_op(Lowering *lo, TileOp *op, TileOp *owner_block); // with its waits and releases

// ---- statements.c
void decide_body(Lowering *lo, TileOp *body); // of a loop
void decide_op(Lowering *lo, TileOp *op);

// ---- producer.c
void decide_producer_grid(Lowering *lo);

#endif
