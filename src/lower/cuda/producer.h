// SPDX-License-Identifier: MIT
// producer.h - the producer's code: decided by producer.c, backward_slice.c, l2_prefetch.c and row_index_loop.c, printed
// by print_producer.c.
#ifndef KILN_LOWER_CUDA_PRODUCER_H
#define KILN_LOWER_CUDA_PRODUCER_H

#include "lower/cuda/actions.h"

// Of the loop and the scopes of a pipeline with stages, each made in the order of use.
typedef struct ProducerStages {
    StepsForm form; // STEPS_OF_PRODUCER
    const TileOp *op;
} ProducerStages;

// ---- backward_slice.c
bool is_fetch(Lowering *lo, const TileOp *op); // a copy that the producer makes, and no producer group
bool is_in_backward_slice(const Lowering *lo, const TileOp *op); // a scalar
bool has_work(Lowering *lo, TileOp *op);                         // the op, or what is inside it, does
bool declare_again(Lowering *lo, TileOp *op);                    // a needed scalar, of another step; false: it is none

// ---- l2_prefetch.c
void prefetch_l2_ahead(Lowering *lo, TileOp *op, int first,
                       int end); // for fetches of the pipeline's next step, those from `first` on

// ---- print_producer.c
void print_acquire(Lowering *lo, const Action *action);
void print_expect(Lowering *lo, const Action *action);
void print_arrive(Lowering *lo, const Action *action);
void print_fetch(Lowering *lo, const Action *action); // a copy by boxes or lanes
void begin_producer_stages(Lowering *lo, const Action *action);
void end_producer_stages(Lowering *lo, const Action *action);

#endif
