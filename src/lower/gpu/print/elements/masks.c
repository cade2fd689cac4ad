// SPDX-License-Identifier: MIT
// masks.c - one test around a masked forall: can the condition hold anywhere in this warp's box of iterations?
//
// Conditions are comparisons of affine forms of the indices, joined by && and ||. Such a comparison is hardest or
// easiest to meet in a corner of the box, and the box of one warp is known from its number: the test is uniform in the
// warp and costs a few instructions, the masked statement nothing where nothing is masked.
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/values.h"

typedef struct Box {
    Printer *pr;
    const Iteration *it;
    Var *vars[LAYOUT_MAX_RANK * 2];
    Expr *lowest[LAYOUT_MAX_RANK * 2], *highest[LAYOUT_MAX_RANK * 2];
    int n;
} Box;

// The coordinates of a warp along one dimension: from what its number says to the reach of lanes and registers.
static void warp_range(Box *box, int index)
{
    Printer *const pr = box->pr;
    const Layout *const layout = &box->it->layout;
    const int dim = box->it->dim_of[index];
    Expr *first = i32_const(pr, 0);
    int reach = 0;
    for (int i = 0; i < layout->n; i++) {
        const LayoutMode *const mode = &layout->mode[i];
        if (mode->dim != dim) continue;
        if (mode->input == IN_WARP || mode->input == IN_GROUP)
            first = i32_add(pr, first, i32_mul(pr, mode_value(pr, layout, i), mode->stride));
        else reach += (mode->extent - 1) * mode->stride;
    }
    box->lowest[index] = first;
    box->highest[index] = i32_add(pr, first, i32_const(pr, reach));
}

static bool open_box(Box *box, Printer *pr, const Iteration *it)
{
    *box = (Box){ .pr = pr, .it = it, .n = it->n };
    for (int i = 0; i < it->n; i++) {
        if (it->dim_of[i] < 0) return false;
        box->vars[i] = it->indices[i].var;
        warp_range(box, i);
    }
    return true;
}

// a - b at its largest over the box, as lowered i64. NULL: not affine.
static Expr *largest_difference(const Box *box, Expr *a, Expr *b)
{
    Printer *const pr = box->pr;
    int64_t coefficients[LAYOUT_MAX_RANK * 2];
    Expr *rest;
    if (a->type != DTYPE_INT || b->type != DTYPE_INT ||
        !expr_affine(pr->arena, int_sub(pr->arena, a, b), box->vars, box->n, coefficients, &rest))
        return NULL;
    if (expr_loads(rest)) return NULL;
    Expr *sum = lower_int64(pr, rest, NULL);
    for (int i = 0; i < box->n; i++) {
        if (!coefficients[i]) continue;
        Expr *const corner = i32_mul(pr, coefficients[i] > 0 ? box->highest[i] : box->lowest[i], coefficients[i]);
        sum = expr_binary(pr->arena, X_ADD, sum, call_expr(pr, DTYPE_I64, "(int64_t)", 1, corner));
    }
    return sum;
}

// Lowered condition that is true wherever `cond` can be. NULL: always.
static Expr *may_hold(const Box *box, Expr *cond)
{
    Printer *const pr = box->pr;
    Arena *const a = pr->arena;
    if (cond->kind != E_BINARY) return NULL;
    Expr *const x = cond->op.a, *const y = cond->op.b;
    if (cond->op.op == X_AND || cond->op.op == X_OR) {
        Expr *const first = may_hold(box, x), *const second = may_hold(box, y);
        if (cond->op.op == X_OR) return first && second ? expr_binary(a, X_OR, first, second) : NULL;
        return both(pr->lo, first, second);
    }
    Expr *const zero = expr_int(a, DTYPE_I64, 0);
    Expr *difference;
    if (cond->op.op == X_GT || cond->op.op == X_GE) {
        difference = largest_difference(box, x, y);
        return difference ? expr_binary(a, cond->op.op, difference, zero) : NULL;
    }
    if (cond->op.op == X_LT || cond->op.op == X_LE) {
        difference = largest_difference(box, y, x);
        return difference ? expr_binary(a, cond->op.op == X_LT ? X_GT : X_GE, difference, zero) : NULL;
    }
    return NULL;
}

Expr *mask_test(Printer *pr, TileOp *forall, const Iteration *it)
{
    const TileOp *const only = forall->forall.body;
    Box box;
    if (!only || only->next || only->kind != T_IF || only->branch.otherwise || it->is_linear || !open_box(&box, pr, it))
        return NULL;
    return may_hold(&box, only->branch.cond);
}
