// SPDX-License-Identifier: MIT
// reduce.h - reductions of a map: what they accumulate in, and which threads hold parts of one result.
#ifndef KILN_LOWER_GPU_FACTS_REDUCE_H
#define KILN_LOWER_GPU_FACTS_REDUCE_H

#include "lower/gpu/facts/elementwise.h"

DType reduction_type(const TileOp *update);                           // what it accumulates in
bool is_kept(const Iteration *it, int which, const LayoutMode *mode); // a part of the result's place
int warp_replicas(const Iteration *it, int which); // threads of other warps that hold parts of the same result
int reduction_scratch_bytes(const Iteration *it, int which);

#endif
