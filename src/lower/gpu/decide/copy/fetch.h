// SPDX-License-Identifier: MIT
// fetch.h - copies that run ahead of their use.
#ifndef KILN_LOWER_GPU_DECIDE_COPY_FETCH_H
#define KILN_LOWER_GPU_DECIDE_COPY_FETCH_H

#include "lower/gpu/facts/lowering.h"

// ---- fetch.c
bool fills_are_known(Lowering *lo); // the producer group depends on nothing that consumers make
RingState *ring_state_of(Lowering *lo, TileOp *block, int stage, int buffers); // made on first use

// ---- cluster.c
void explain_cluster(Lowering *lo);

// ---- row_indices.c: of a producer group, a step ahead
void find_row_indices(Lowering *lo);
bool rows_are_local(Lowering *lo, const TileOp *pipeline); // each accessed by the warp alone that gathers it

// ---- l2_prefetch.c
void prefetch_l2_ahead(Lowering *lo, TileOp *op, int first,
                       int end); // for fetches of the pipeline's next step, those from `first` on

#endif
