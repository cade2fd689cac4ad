// SPDX-License-Identifier: MIT
// work.h - what the actions of a schedule use of a multiprocessor's units (schedule/work.h), noted where it is decided.
#ifndef KILN_LOWER_GPU_DECIDE_EXPLAIN_WORK_H
#define KILN_LOWER_GPU_DECIDE_EXPLAIN_WORK_H

#include "lower/gpu/decide/pipeline/map.h"

// ---- work.c: all actions of the schedule; it is complete, and stays as it is but for their `work`
void note_work(Lowering *lo);

// ---- work_map.c: adds that of a map over elements
void add_map_work(Lowering *lo, const TileOp *forall, const Iteration *it, ActionWork *work);
// Of an expression that is computed once for the whole CTA: what its loads wait for.
int load_depth(const Expr *x); // loads from tensors that wait for one another
void add_traffic(ActionWork *work, const Buffer *tensor, double bytes, bool writes);

// ---- work_access.c: one access of a map, by all its threads
typedef struct MapAccess {
    const Iteration *it;
    Buffer *buffer;
    Expr *const *subs;
    bool writes;
    int vector;             // elements that a thread moves at a time
    double threads, needed; // elements that threads ask for, and that differ
    const uint32_t *uses;   // by variable id, up to n_vars: the indices that a scalar of the map depends on
    int n_vars;
} MapAccess;
void add_tensor_access(const MapAccess *access, ActionWork *work);
void add_shared_access(Lowering *lo, const MapAccess *access, ActionWork *work);

#endif
