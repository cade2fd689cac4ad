// SPDX-License-Identifier: MIT
// written.c - operations of the source, constant where all they are made of is.
//
// The builders know more than the source says: that x - x is 0, that an index is below its extent. Code is discarded before
// it is typed, and literals adapt their type, by constants; neither may hang on what algebra finds. So where a builder
// folds to a constant what is no operation on constants, the operation is kept as it stands. It folds after the check, and
// at once (expr_folded) where a number is asked for and nothing is discarded by it.
#include "check/context.h"

static Expr *unless_found(Expr *folded, bool of_constants, Expr *as_written)
{
    if (of_constants || !expr_is_const(folded)) return folded;
    as_written->type = folded->type;
    return as_written;
}

Expr *written_unary(Checker *cx, ExprOp op, Expr *x)
{
    return unless_found(expr_unary(cx->arena, op, x), expr_is_const(x),
                        NEW(cx->arena, Expr, .kind = E_UNARY, .span = x->span, .op = { op, x, NULL }));
}

// A constant that decides && or || does so whatever the other side is.
static bool is_decided(ExprOp op, const Expr *x)
{
    return (op == X_AND && expr_is_int(x, 0)) || (op == X_OR && expr_is_int(x, 1));
}

Expr *written_binary(Checker *cx, ExprOp op, Expr *x, Expr *y)
{
    const bool of_constants = (expr_is_const(x) && expr_is_const(y)) || is_decided(op, x) || is_decided(op, y);
    return unless_found(
        expr_binary(cx->arena, op, x, y), of_constants,
        NEW(cx->arena, Expr, .kind = E_BINARY, .span = span_join(x->span, y->span), .op = { op, x, y }));
}

Expr *written_select(Checker *cx, Expr *cond, Expr *x, Expr *y)
{
    return unless_found(
        expr_select(cx->arena, cond, x, y), expr_is_const(cond),
        NEW(cx->arena, Expr, .kind = E_SELECT, .span = span_join(cond->span, y->span), .select = { cond, x, y }));
}

Expr *written_math(Checker *cx, DType type, MathFn fn, int n, Expr **args)
{
    bool of_constants = true;
    Expr **const copy = NEW_ARRAY(cx->arena, Expr *, n);
    for (int i = 0; i < n; i++) of_constants &= expr_is_const(copy[i] = args[i]);
    return unless_found(expr_math(cx->arena, type, fn, n, args), of_constants,
                        NEW(cx->arena, Expr, .kind = E_MATH, .span = args[0]->span, .math = { fn, n, copy }));
}
