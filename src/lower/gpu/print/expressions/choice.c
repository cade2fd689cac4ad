// SPDX-License-Identifier: MIT
// choice.c - `c ? a : b` in a forall where both sides are computed and one is chosen.
//
// Conversions of narrow types, functions and loads are texts that the C compiler does not move above a branch: a choice
// among them would be a branch for every element, each with the latency of its loads and functions, where a select
// costs one instruction. So what may be computed always, is.
#include "lower/gpu/print/expressions/expressions.h"
#include "lower/gpu/facts/elementwise.h"

typedef struct Side {
    const Lowering *lo;
    const Iteration *it;
} Side;

static bool is_within(const Buffer *buffer, Expr *const *subs)
{
    for (int d = 0; d < buffer->rank; d++) {
        const Range at = expr_range(subs[d]), extent = expr_range(buffer->shape[d]);
        if (!at.has_lo || at.lo < 0 || !at.has_hi || !extent.has_lo || at.hi >= extent.lo) return false;
    }
    return true;
}

// A load of a tensor may cost a transaction, one of a tile may be outside of it.
static bool is_safe_load(const Side *side, const Expr *x)
{
    for (int i = 0; i < side->it->n_loaded; i++)
        if (expr_equal(side->it->loaded[i].load, x)) return true;
    if (is_fragment_in_registers(side->lo, x->load.buffer)) return true;
    return x->load.buffer->kind == BUFFER_SHARED && is_within(x->load.buffer, x->load.subs);
}

// What may not be computed where it is not chosen, or costs more than a branch.
static bool is_reserved(const Expr *x, void *context)
{
    if (x->type == DTYPE_F64 || x->kind == E_ATOMIC || x->kind == E_CALL) return true;
    if (x->kind == E_MATH)
        return x->math.fn == M_POW || x->math.fn == M_SIN || x->math.fn == M_COS || x->math.fn == M_RANDOM;
    return x->kind == E_LOAD && !is_safe_load(context, x);
}

static bool is_held_by_branch(const Expr *x, void *context)
{
    const Side *const side = context;
    if (x->kind == E_LOAD) return !is_fragment_in_registers(side->lo, x->load.buffer);
    return x->kind == E_MATH ||
           (x->kind == E_CONVERT && (dtype_is_narrow_float(x->type) || dtype_is_narrow_float(x->convert.a->type)));
}

static bool leaves_registers(const Expr *x, void *context)
{
    const Side *const side = context;
    return x->kind == E_ATOMIC || x->kind == E_CALL ||
           (x->kind == E_LOAD && !is_fragment_in_registers(side->lo, x->load.buffer));
}

static bool may_differ(const Expr *x, void *context)
{
    (void)context;
    return x->kind == E_LOAD || (x->kind == E_VAR && (x->var.var->kind == VAR_INDEX || x->var.var->kind == VAR_LOCAL));
}

static bool is_division(const Expr *x, void *context)
{
    (void)context;
    return x->kind == E_BINARY && x->op.op == X_DIV && x->type == DTYPE_F32;
}

// A divisor's reciprocal is computed before the statement in any case (scalar.c).
static bool divides_registers(const Expr *x, Side *side)
{
    return x->type == DTYPE_F32 && expr_any(x, is_division, NULL) && !expr_any(x->select.a, leaves_registers, side) &&
           !expr_any(x->select.b, leaves_registers, side);
}

bool computes_both(Printer *pr, const Expr *x, const Iteration *it)
{
    Side side = { pr->lo, it };
    if (!it || !(x->type == DTYPE_F32 || dtype_is_narrow_float(x->type))) return false;
    if (divides_registers(x, &side)) return true;
    return !pr->lo->kernel->checked && expr_any(x->select.cond, may_differ, NULL) && // else the threads agree
           (expr_any(x->select.a, is_held_by_branch, &side) || expr_any(x->select.b, is_held_by_branch, &side)) &&
           !expr_any(x->select.a, is_reserved, &side) && !expr_any(x->select.b, is_reserved, &side);
}
