// SPDX-License-Identifier: MIT
// factors.c - products of numbers that a kernel's launch knows, factor by factor.
#include "lower/gpu/facts/factors.h"

bool add_factors(Factors *f, const Expr *x)
{
    int64_t value;
    if (expr_as_int(x, &value)) return value > 0 && (f->constant *= value, true);
    if (x->kind == E_BINARY && x->op.op == X_MUL) return add_factors(f, x->op.a) && add_factors(f, x->op.b);
    if (f->n == FACTORS_MAX) return false;
    f->x[f->n++] = x;
    return true;
}

bool add_all_factors(Factors *to, const Factors *from)
{
    if (to->n + from->n > FACTORS_MAX) return false;
    to->constant *= from->constant;
    for (int i = 0; i < from->n; i++) to->x[to->n++] = from->x[i];
    return true;
}

bool divide_factors(Factors *f, const Factors *divisor)
{
    if (f->constant % divisor->constant != 0) return false;
    f->constant /= divisor->constant;
    for (int i = 0; i < divisor->n; i++) {
        int at = 0;
        while (at < f->n && !expr_equal(f->x[at], divisor->x[i])) at++;
        if (at == f->n) return false;
        f->x[at] = f->x[--f->n];
    }
    return true;
}

bool are_same_factors(Factors a, const Factors *b) { return divide_factors(&a, b) && a.n == 0 && a.constant == 1; }

Expr *product_of(Arena *arena, const Factors *f)
{
    Expr *product = int_const(arena, f->constant);
    for (int i = 0; i < f->n; i++) product = int_mul(arena, product, (Expr *)f->x[i]);
    return product;
}
