// SPDX-License-Identifier: MIT
// print_producer.h - what the producer does: its stages, boxes and lanes, prefetches into the L2 cache.
#ifndef KILN_LOWER_GPU_PRINT_COPIES_PRINT_PRODUCER_H
#define KILN_LOWER_GPU_PRINT_COPIES_PRINT_PRODUCER_H

#include "lower/gpu/print/build/printer.h"
#include "lower/gpu/plans/producer.h"

bool declare_again(Printer *pr, TileOp *op); // a needed scalar, of another step; false: it is none
void begin_producer_stages(Printer *pr, const Action *action);
void end_producer_stages(Printer *pr, const Action *action);
void print_acquire(Printer *pr, const Action *action);
void print_expect(Printer *pr, const Action *action);
void print_arrive(Printer *pr, const Action *action);
void print_fetch(Printer *pr, const Action *action);         // a copy by boxes or lanes
void print_l2_prefetch(Printer *pr, const L2Prefetch *plan); // print_l2_prefetch.c

#endif
