// SPDX-License-Identifier: MIT
// reduce.h - reductions of a map.
#ifndef KILN_LOWER_GPU_FACTS_REDUCE_H
#define KILN_LOWER_GPU_FACTS_REDUCE_H

#include "lower/gpu/decide/map.h"

// ---- reduction_facts.c
DType reduction_type(const TileOp *update);                           // what it accumulates in
bool is_kept(const Iteration *it, int which, const LayoutMode *mode); // a part of the result's place
int warp_replicas(const Iteration *it, int which); // threads of other warps that hold parts of the same result
int reduction_scratch_bytes(const Iteration *it, int which);

// ---- reduce.c: printing
Expr *reduction_identity(Printer *pr, UpdateOp op, DType type);
void begin_reduction(Printer *pr, Iteration *it, int which);
void add_to_reduction(Printer *pr, Iteration *it, int which);
void finish_reduction(Printer *pr, Iteration *it, int which);
void print_join_sums(Printer *pr, const JoinPlan *plan);
void declare_scratch_buffer(Printer *pr);
void next_scratch_buffer(Printer *pr); // for the next reduction or scan

#endif
