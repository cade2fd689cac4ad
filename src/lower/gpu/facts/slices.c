// SPDX-License-Identifier: MIT
// slices.c - what the producer computes, once its backward slice is found.
#include "lower/gpu/facts/slices.h"
#include "lower/gpu/facts/info.h"

bool is_fetch(const Lowering *lo, const TileOp *op) { return info_of(lo, op)->fetched && !info_of(lo, op)->fills; }

bool is_in_backward_slice(const Lowering *lo, const TileOp *op)
{
    const bool sets = op->kind == T_LET || op->kind == T_SET;
    return sets ? lo->in_backward_slice[op->let.var->id]
                : op->kind == T_UPDATE && op->update.var && lo->in_backward_slice[op->update.var->id];
}
