// SPDX-License-Identifier: MIT
// box_pieces.c - whole pieces of 16 bytes: a tensor's rows, and where in a row a box begins; for all launches, or as a test
// of the launch's numbers says.
//
// A place is a sum. Terms that are whole pieces whatever their values tell nothing; where a launch knows those that are left,
// they are tested before anything is copied: x[k*64 + z +: 64] is a box of 16-bit elements where z is a multiple of eight.
// Scalars that are set once are looked through.
#include "ir/linear.h"
#include "lower/gpu/facts/box.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/values.h"

enum { NODES_MAX = 64 }; // of a place

// ---- scalars

static bool note_let(Lowering *lo, TileOp *op, void *context)
{
    (void)context;
    if (op->kind == T_LET && !op->let.var->assigned && op->let.var->id < lo->n_lets)
        lo->lets[op->let.var->id] = op->let.value;
    return false;
}

// Those that this lowering itself declares later are not looked through.
static Expr *value_of(Lowering *lo, const Var *var)
{
    if (!lo->lets) {
        lo->n_lets = lo->kernel->n_vars + 1;
        lo->lets = NEW_ARRAY(lo->arena, Expr *, lo->n_lets);
        each_op(lo, lo->kernel->body, note_let, NULL);
    }
    return var->kind == VAR_LOCAL && var->id < lo->n_lets ? lo->lets[var->id] : NULL;
}

typedef struct Inlining {
    Lowering *lo;
    int nodes;
} Inlining;

static Expr *inline_let(Expr *x, void *context)
{
    Inlining *const in = context;
    Expr *const value = ++in->nodes <= NODES_MAX && x->kind == E_VAR ? value_of(in->lo, x->var.var) : NULL;
    return value ? expr_convert(in->lo->arena, x->type, expr_map(in->lo->arena, value, inline_let, in)) : x;
}

// ---- places

// Of bytes: NULL where they are known to be whole pieces.
static Expr *are_pieces(Lowering *lo, Expr *elements, int size)
{
    Arena *const a = lo->arena;
    if (expr_multiple(elements) * size % 16 == 0) return NULL;
    Expr *const rest = expr_binary(a, X_MOD, int_mul(a, elements, int_const(a, size)), int_const(a, 16));
    return expr_binary(a, X_EQ, rest, int_const(a, 0));
}

bool begins_at_piece(Lowering *lo, const Buffer *tensor, Expr *start, Expr **test)
{
    const int size = dtype_bits(tensor->type) / 8, piece = 16 / size;
    *test = NULL;
    if (expr_multiple(start) % piece == 0) return true;
    Linear sum = { 0 }, rest = { 0 };
    linear_add(&sum, expr_map(lo->arena, start, inline_let, &(Inlining){ .lo = lo }), 1);
    rest.constant = sum.constant % piece;
    for (int i = 0; i < sum.n; i++) {
        const LinearTerm *const term = &sum.terms[i];
        if (expr_multiple(term->atom) % piece * (term->factor % piece) % piece == 0) continue;
        if (!is_known_at_launch(term->atom)) return false;
        rest.terms[rest.n++] = *term;
    }
    if (sum.failed || rest.n == 0) return !sum.failed && rest.constant == 0;
    *test = are_pieces(lo, linear_expr(lo->arena, &rest, DTYPE_INT), size);
    return true;
}

// ---- rows

// Coordinates of boxes have 32 bits, which a product of extents may leave. NULL: proved.
static Expr *merged_extents_fit(Lowering *lo, const Buffer *view)
{
    Expr *test = NULL, *const most = int_const(lo->arena, INT32_MAX);
    for (int d = 0; d < view->rank; d++)
        if (!expr_at_least(most, view->shape[d]))
            test = both(lo, test, expr_binary(lo->arena, X_LE, view->shape[d], most));
    return test;
}

// Where strides are symbols a row may end within a piece of 16 bytes. A store of a box writes the piece to its end, beyond the
// row (H100; a tensor without such strides has no such rows, because its pitch would not be aligned).
Expr *strides_are_aligned(Lowering *lo, const Buffer *tensor)
{
    Arena *const a = lo->arena;
    const int size = dtype_bits(tensor->type) / 8;
    const bool has_strides = tensor->stride[0] != NULL;
    Expr *stride = int_const(a, 1);
    Expr *test = has_strides ? are_pieces(lo, tensor->shape[tensor->rank - 1], size) : NULL;
    for (int d = tensor->rank - 1; d > 0; d--) {
        stride = has_strides ? tensor->stride[d - 1] : int_mul(a, stride, tensor->shape[d]);
        test = both(lo, test, are_pieces(lo, stride, size));
    }
    return test && tensor->kind == BUFFER_VIEW ? both(lo, test, merged_extents_fit(lo, tensor)) : test;
}

Expr *slice_is_aligned(Lowering *lo, const Region *region)
{
    const Buffer *const tensor = region->buffer;
    Expr *begins, *const rows = strides_are_aligned(lo, tensor);
    begins_at_piece(lo, tensor, region->subs[tensor->rank - 1].start, &begins);
    return both(lo, rows, begins);
}

Expr *copy_is_aligned(Lowering *lo, const TileOp *op)
{
    Box box;
    if (op_info(lo, op)->im2col) return slice_is_aligned(lo, &op->copy.src);
    if (!find_box(lo, &op->copy.src, &box)) return NULL;
    Expr *begins, *const rows = strides_are_aligned(lo, box.tensor);
    begins_at_piece(lo, box.tensor, box.start[box.tensor->rank - 1], &begins);
    return both(lo, rows, begins);
}
