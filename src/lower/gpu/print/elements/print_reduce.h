// SPDX-License-Identifier: MIT
// print_reduce.h - what a reduction of a map prints: before its loop, in it and after it.
#ifndef KILN_LOWER_GPU_PRINT_ELEMENTS_PRINT_REDUCE_H
#define KILN_LOWER_GPU_PRINT_ELEMENTS_PRINT_REDUCE_H

#include "lower/gpu/print/build/printer.h"
#include "lower/gpu/plans/map.h"

Expr *reduction_identity(Printer *pr, UpdateOp op, DType type);
void begin_reduction(Printer *pr, Iteration *it, int which);
void add_to_reduction(Printer *pr, Iteration *it, int which);
void finish_reduction(Printer *pr, Iteration *it, int which);
void print_combine_threads(Printer *pr, const JoinPlan *plan);
void declare_scratch_buffer(Printer *pr);
void next_scratch_buffer(Printer *pr); // for the next reduction or scan

#endif
