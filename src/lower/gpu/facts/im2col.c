// SPDX-License-Identifier: MIT
// im2col.c - what the tensor memory accelerator's im2col mode can do.
//
// The map gives each walked dimension its first and its last position, the last relative to the tensor's end, in 16, 8
// or 5 bits with one, two or three of them; a copy's offsets have as many without a sign. Steps are 1 to 8.
#include "lower/gpu/facts/im2col.h"
#include "lower/gpu/facts/values.h"

enum { STEP_MAX = 8 };

static const int corner_bits[IM2COL_WALKED + 1] = { 0, 16, 8, 5 };

static Expr *not_below(Lowering *lo, Expr *test, Expr *x, Expr *y)
{
    return expr_at_least(x, y) ? test : both(lo, test, expr_binary(lo->arena, X_GE, x, y));
}

static Expr *within(Lowering *lo, Expr *test, Expr *x, int64_t least, int64_t most)
{
    test = not_below(lo, test, x, int_const(lo->arena, least));
    return not_below(lo, test, int_const(lo->arena, most), x);
}

Expr *im2col_last(const Lowering *lo, const Buffer *tensor, const Im2col *im2col, int i)
{
    Arena *const a = lo->arena;
    const Walked *const w = &im2col->walked[i];
    Expr *const end = int_add(a, w->first, int_mul(a, int_sub(a, w->count, int_const(a, 1)), w->step));
    return int_sub(a, end, int_sub(a, tensor->shape[tensor->rank - 2 - i], int_const(a, 1)));
}

// A tensor without elements has a map of another kind.
Expr *im2col_fits(Lowering *lo, const Buffer *tensor, const Im2col *im2col)
{
    Expr *test = NULL;
    const int64_t half = INT64_C(1) << (corner_bits[im2col->n] - 1);
    Expr *const one = int_const(lo->arena, 1);
    for (int d = 0; d < tensor->rank; d++) test = not_below(lo, test, tensor->shape[d], one);
    for (int i = 0; i < im2col->n; i++) {
        const Walked *const w = &im2col->walked[i];
        test = not_below(lo, test, w->count, one);
        test = within(lo, test, w->step, 1, STEP_MAX);
        test = within(lo, test, w->first, -half, half - 1);
        test = within(lo, test, im2col_last(lo, tensor, im2col, i), -half, half - 1);
        if (!w->offset) continue;
        test = both(lo, test, w->rises);
        test = not_below(lo, test, w->least, int_const(lo->arena, 0));
        test = not_below(lo, test, int_const(lo->arena, 2 * half - 1), w->most);
    }
    return test;
}

bool im2col_is_same(const Im2col *a, const Im2col *b)
{
    if (!a || !b) return a == b;
    for (int i = 0; i < a->n; i++)
        if (i >= b->n || !expr_equal(a->walked[i].first, b->walked[i].first) ||
            !expr_equal(a->walked[i].step, b->walked[i].step) || !expr_equal(a->walked[i].count, b->walked[i].count))
            return false;
    return a->n == b->n && a->rows == b->rows;
}
