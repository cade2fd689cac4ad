// SPDX-License-Identifier: MIT
// producer.h - the producer's code: decided by producer.c, backward_slice.c, l2_prefetch.c and row_index_loop.c, printed
// by print_producer.c.
#ifndef KILN_LOWER_GPU_DECIDE_PIPELINE_PRODUCER_H
#define KILN_LOWER_GPU_DECIDE_PIPELINE_PRODUCER_H

#include "lower/gpu/decide/actions/actions.h"

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

// ---- producer.c
bool fill_is_box(Lowering *lo, TileOp *op); // a producer group's copy, by one thread where the launch allows boxes

// ---- backward_slice.c
bool has_work(Lowering *lo, TileOp *op); // the op, or what is inside it, does

// ---- l2_prefetch.c
void prefetch_l2_ahead(Lowering *lo, TileOp *op, int first,
                       int end); // for fetches of the pipeline's next step, those from `first` on
void print_l2_prefetch(Printer *pr, const L2Prefetch *plan); // print_l2_prefetch.c

// ---- print_producer.c
bool declare_again(Printer *pr, TileOp *op); // a needed scalar, of another step; false: it is none
void print_acquire(Printer *pr, const Action *action);
void print_expect(Printer *pr, const Action *action);
void print_arrive(Printer *pr, const Action *action);
void print_fetch(Printer *pr, const Action *action); // a copy by boxes or lanes
void begin_producer_stages(Printer *pr, const Action *action);
void end_producer_stages(Printer *pr, const Action *action);

#endif
