// SPDX-License-Identifier: MIT
// reduction_facts.c - what a reduction of a map takes: its type, who holds parts of one result, the scratch between warps.
//
// before: map.c has found the reduction, in `it`        after: the same
#include "lower/gpu/facts/reduce.h"
#include "lower/gpu/facts/elementwise.h"

DType reduction_type(const TileOp *update)
{
    const DType target = update->update.buffer ? update->update.buffer->type : update->update.var->type;
    const DType wide = dtype_info[target].wide;
    return wide == DTYPE_INT ? DTYPE_I64 : wide;
}

bool is_kept(const Iteration *it, int which, const LayoutMode *mode)
{
    return mode->dim != REPLICATED && (it->reductions[which].kept >> mode->dim & 1);
}

// Threads of other warps that hold parts of the same result.
int warp_replicas(const Iteration *it, int which)
{
    int n = 1;
    for (int i = 0; i < it->layout.n; i++) {
        const LayoutMode *const mode = &it->layout.mode[i];
        if ((mode->input == IN_WARP || mode->input == IN_GROUP) && mode->dim != REPLICATED && !is_kept(it, which, mode))
            n *= mode->extent;
    }
    return n;
}

// Results of one reduction that all threads together hold.
static int kept_elements(const Iteration *it, int which)
{
    int n = 1;
    for (int i = 0; i < it->layout.n; i++)
        if (is_kept(it, which, &it->layout.mode[i])) n *= it->layout.mode[i].extent;
    return n;
}

int reduction_scratch_bytes(const Iteration *it, int which)
{
    const int replicas = warp_replicas(it, which);
    const int size = dtype_bits(reduction_type(it->reductions[which].update)) / 8;
    return replicas > 1 ? replicas * kept_elements(it, which) * size : 0;
}
