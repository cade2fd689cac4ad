// SPDX-License-Identifier: MIT
// ring_uses.h - rings while they are used: who uses their tiles first and last, and where buffers are released.
#ifndef KILN_LOWER_GPU_DECIDE_PIPELINE_RING_USES_H
#define KILN_LOWER_GPU_DECIDE_PIPELINE_RING_USES_H

#include "lower/gpu/facts/lowering.h"

const TileOp *first_use(const Lowering *lo, const Ring *ring); // by the group whose role it is
const TileOp *last_use(const Lowering *lo, const Ring *ring);
void advance_ring_states(Lowering *lo, TileOp *block, int stage); // stage -1: all
void decide_release(Lowering *lo, const Ring *ring);              // consumers are done with the current buffer
const TileOp *release_within(const Lowering *lo, const Ring *ring);
void decide_last_release(Lowering *lo, const Ring *ring, bool within);

// ---- consumer_rings.c
void act_consumer_acquire(Lowering *lo, const TileOp *op); // around the op, if this group makes a tile there
void act_consumer_arrive(Lowering *lo, const TileOp *op);

#endif
