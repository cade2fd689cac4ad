// SPDX-License-Identifier: MIT
// store_again.c - whether a store may store the same elements in another iteration of the loops around it.
//
// The copy engine does not keep such stores in order: the later one waits until the earlier is complete, which takes
// as long as memory does. Each index of the loops must move the slice by at least its width along a dimension of its
// own, in which nothing else changes from iteration to iteration; then all iterations are apart.
#include "lower/gpu/decide/pipeline/store.h"
#include "lower/gpu/facts/info.h"
#include "ir/linear.h"

typedef struct Iterations {
    Lowering *lo;
    TileOp *outermost; // of the loops around the store
    const Var *var;
    bool found;
} Iterations;

static bool is_loop(const TileOp *op) { return op->kind == T_FOR || op->kind == T_WHILE || op->kind == T_PIPELINE; }

static bool declares(Lowering *lo, TileOp *op, void *context)
{
    Iterations *const iterations = context;
    (void)lo;
    iterations->found |= (op->kind == T_LET || op->kind == T_SET) && op->let.var == iterations->var;
    return false;
}

static bool changes(const Expr *x, void *context)
{
    Iterations *const iterations = context;
    if (x->kind == E_LOAD || x->kind == E_ATOMIC || x->kind == E_CALL) return true;
    if (x->kind != E_VAR || x->var.var->kind == VAR_GRID || x->var.var->kind == VAR_SYMBOL) return false;
    if (x->var.var->kind == VAR_INDEX || x->var.var->assigned) return true;
    iterations->var = x->var.var;
    iterations->found = false;
    visit_op(iterations->lo, iterations->outermost, declares, iterations);
    return iterations->found;
}

static bool separates(Iterations *iterations, const Sub *sub, const Var *index, int64_t step)
{
    Linear at = { 0 };
    int64_t factor = 0, width = 1;
    linear_add(&at, sub->start, 1);
    if (at.failed || (sub->is_range && (sub->step || !expr_as_int(sub->width, &width)))) return false;
    for (int i = 0; i < at.n; i++) {
        const Expr *const atom = at.terms[i].atom;
        if (atom->kind == E_VAR && atom->var.var == index) factor = at.terms[i].factor;
        else if (expr_any(atom, changes, iterations)) return false;
    }
    return factor * step >= width || factor * step <= -width;
}

// By a dimension that no other index has taken.
static bool is_separated(Iterations *iterations, const Region *dst, const Var *index, int64_t step, uint32_t *taken)
{
    for (int d = 0; d < dst->buffer->rank; d++)
        if (!(*taken >> d & 1) && separates(iterations, &dst->subs[d], index, step)) {
            *taken |= 1u << d;
            return true;
        }
    return false;
}

static bool loop_separates(Iterations *iterations, const TileOp *loop, const Region *dst, uint32_t *taken)
{
    int64_t step = 1;
    if (loop->kind == T_WHILE) return false;
    if (loop->kind == T_FOR) {
        if (!expr_as_int(loop->for_.step, &step)) step = 1;
        return is_separated(iterations, dst, loop->for_.var, step, taken);
    }
    for (int i = 0; i < loop->pipeline.n; i++)
        if (!is_separated(iterations, dst, loop->pipeline.indices[i].var, 1, taken)) return false;
    return true;
}

bool may_store_again(Lowering *lo, const TileOp *op)
{
    Iterations iterations = { .lo = lo };
    uint32_t taken = 0;
    if (op->kind != T_COPY) return false;
    for (TileOp *x = op_info(lo, op)->parent; x; x = op_info(lo, x)->parent)
        if (is_loop(x)) iterations.outermost = x;
    for (TileOp *x = op_info(lo, op)->parent; x; x = op_info(lo, x)->parent)
        if (is_loop(x) &&
            (op->copy.dst.buffer->kind != BUFFER_TENSOR || !loop_separates(&iterations, x, &op->copy.dst, &taken)))
            return true;
    return false;
}
