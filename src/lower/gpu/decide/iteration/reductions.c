// SPDX-License-Identifier: MIT
// reductions.c - the reductions of a forall: which there are, and along which dimensions of its layout their results run.
//
// before: the iterations are laid out among the threads      after: it->reductions, or a refusal
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/info.h"

// Whether the target of a reduction runs along an index that each thread loops over.
bool result_is_looped(const TileOp *update, const Iteration *it)
{
    for (int i = 0; i < it->n && update->update.reduces && update->update.buffer; i++)
        for (int d = 0; d < update->update.buffer->rank && it->dim_of[i] < 0; d++)
            if (expr_uses(update->update.subs[d], it->indices[i].var)) return true;
    return false;
}

// The layout's dimensions along which the target of a reduction runs.
static uint32_t kept_dimensions(const TileOp *update, const Iteration *it)
{
    uint32_t kept = 0;
    for (int i = 0; i < it->n && update->update.buffer; i++)
        for (int d = 0; d < update->update.buffer->rank; d++)
            if (expr_uses(update->update.subs[d], it->indices[i].var)) kept |= 1u << it->dim_of[i];
    return kept;
}

// Counted through by all threads, indices that any result drops are loops in each thread, and those that are left tell the
// threads' results apart: one along a loop's index is changed step by step where it lies. What would then be rounded at
// each step is not.
static bool is_updated_in_place(const TileOp *update, const Iteration *it)
{
    const DType type = update->update.buffer->type;
    const bool is_sum = update->update.op == UPDATE_ADD || update->update.op == UPDATE_MUL;
    return it->is_linear && !(is_sum && dtype_is_float(type) && dtype_bits(type) < 32);
}

static bool find_reduction(Lowering *lo, TileOp *op, void *context)
{
    Iteration *const it = context;
    if (op->kind != T_UPDATE || !op->update.reduces) return false;
    if (result_is_looped(op, it) && is_updated_in_place(op, it)) return false;
    if (result_is_looped(op, it))
        return !unsupported(lo, op->span, "a result along an index that another result of the forall drops");
    if (it->n_reductions == COUNT(it->reductions))
        return !unsupported(lo, op->span, "more than %d reductions in one forall", COUNT(it->reductions));
    it->reductions[it->n_reductions].kept = kept_dimensions(op, it);
    it->reductions[it->n_reductions++].update = op;
    return false;
}

void find_reductions(Lowering *lo, TileOp *forall, Iteration *it)
{
    each_op(lo, forall->forall.body, find_reduction, it);
}
