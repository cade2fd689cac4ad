// SPDX-License-Identifier: MIT
// producer.h - the producer's code: decided by producer.c, backward_slice.c, l2_prefetch.c and row_index_loop.c, printed
// by print_producer.c.
#ifndef KILN_LOWER_GPU_DECIDE_PIPELINE_PRODUCER_H
#define KILN_LOWER_GPU_DECIDE_PIPELINE_PRODUCER_H

#include "lower/gpu/plans/producer.h"
#include "lower/gpu/decide/actions/actions.h"

// ---- producer.c
bool fill_is_box(Lowering *lo, TileOp *op); // a producer group's copy, by one thread where the launch allows boxes

// ---- backward_slice.c
bool has_work(Lowering *lo, TileOp *op); // the op, or what is inside it, does

#endif
