// SPDX-License-Identifier: MIT
// windows.c - what is stored to a view that ends where the program says, such as a sequence of a packed tensor, goes to the tensor.
//
// TMA stores boxes to a tensor, not to a view: it stores what lies past the view's end, too. So a store has a box only where all of
// it is in the view, which is tested when it is stored (store.c).
#include "lower/gpu/decide/copy/windows.h"
#include "lower/gpu/facts/box.h"
#include "lower/gpu/facts/values.h"

// What the view has of a box that is cut: rows of the tile, where the dimension is its slowest.
static void see_cut(Lowering *lo, const Box *box, Window *window)
{
    Arena *const a = lo->arena;
    int slowest = 0;
    int64_t below = 1;
    while (!box->is_range[slowest]) slowest++;
    for (int d = box->cut + 1; d < box->tensor->rank - 1; d++) below *= box->width[d];
    if (!expr_is_int(box->skip, 0))
        window->fits = both(lo, window->fits, expr_binary(a, X_LE, box->skip, int_const(a, 0)));
    if (box->cut == slowest)
        window->rows = int_mul(a, int_min(a, box->rows, int_const(a, box->width[box->cut])), int_const(a, below));
    else window->fits = both(lo, window->fits, expr_binary(a, X_GE, box->rows, int_const(a, box->width[box->cut])));
}

// A slice of a view, which ends where the program says, as one of the tensor under it; NULL: it is none.
const Window *through_window(Lowering *lo, Region *slice)
{
    Arena *const a = lo->arena;
    Box box;
    if (slice->buffer->kind != BUFFER_VIEW || !find_box(lo, slice, &box) || box.tensor->kind != BUFFER_TENSOR)
        return NULL;
    Region dst = { .buffer = box.tensor, .subs = NEW_ARRAY(a, Sub, box.tensor->rank), .span = slice->span };
    Window *const window = NEW(a, Window, .fits = NULL);
    Expr *const zero = int_const(a, 0);
    for (int d = 0; d < box.tensor->rank; d++) {
        Expr *start = box.start[d];
        if (!is_not_negative(lo, start)) {
            window->fits = both(lo, window->fits, expr_binary(a, X_GE, start, zero));
            start = int_max(a, start, zero);
        }
        dst.subs[d] = (Sub){ .is_range = box.is_range[d], .start = start };
        if (box.is_range[d]) dst.subs[d].width = int_const(a, box.width[d]);
    }
    if (box.cut >= 0) see_cut(lo, &box, window);
    *slice = dst;
    return window;
}
