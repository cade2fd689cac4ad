// SPDX-License-Identifier: MIT
// producer.h - what a producer's steps consist of.
#ifndef KILN_LOWER_GPU_PLANS_PRODUCER_H
#define KILN_LOWER_GPU_PLANS_PRODUCER_H

#include "lower/gpu/plans/forms.h"
#include "lower/gpu/facts/lowering.h"

// Of the loop and the scopes of a pipeline with stages, each made in the order of use.
typedef struct ProducerStages {
    StepsForm form; // STEPS_OF_PRODUCER
    const TileOp *op;
} ProducerStages;

// Of a pipeline's next step, into the L2 cache.
struct BoxCopy;
typedef struct L2Prefetch {
    const TileOp *op;
    uint32_t sharing;                  // a bit for each coordinate of the grid on which no box depends
    int first;                         // of the step's fetches
    VEC(const struct BoxCopy *) boxes; // that one and those after it
} L2Prefetch;

#endif
