// SPDX-License-Identifier: MIT
// box.c - which slices of tensors are boxes, which the tensor memory accelerator moves.
//
// A slice is a box if every subscript is an index or a range of constant width, by steps that the launch knows, and the
// last dimension is a range of whole 16-byte pieces, by steps of 1. The launch's steps must be 1 to 8: where they are not,
// and where the box would reach over more than 256 elements, kernels fall back. The tensor's strides, and where in its row the
// box begins, must be multiples of 16 bytes: where shapes do not prove it, kernels test it once per launch and fall back.
//
// A slice of a view is a box of the tensor under it, or of all of that tensor in the view's shape. Where the view may
// end before the box does (the last page of a request, a window) or begin after it, the rows outside must be zero,
// whatever memory holds: such a box is cut.
#include "lower/gpu/facts/box.h"
#include "lower/gpu/facts/operands.h"
#include "lower/gpu/facts/values.h"
#include "lower/gpu/facts/info.h"

enum {
    STEP_MAX = 8,
    BOX_MAX = 256, // elements along each dimension of a box
    SMALL_MAX = 512
}; // of a small copy

// An innermost coordinate that is not a multiple of 16 bytes is an illegal instruction, in copies and in stores.
static bool may_begin_at_piece(Lowering *lo, const Buffer *tensor, Expr *start)
{
    Expr *test; // of the launch
    return begins_at_piece(lo, tensor, start, &test);
}

static bool can_hold_boxes(const Buffer *tensor)
{
    return !tensor->strided && tensor->rank >= 1 && tensor->rank <= BOX_RANK && dtype_bits(tensor->type) >= 8;
}

typedef struct Along {
    bool is_range;
    Expr *skip, *rows;
} Along; // a dimension; NULL: nothing is outside

// The extents of a base's dimensions from `first` on, so many of them, are known: their product; 0: they are not.
static int64_t product_of_extents(const Buffer *tensor, int first, int n)
{
    int64_t product = 1, extent;
    for (int d = first; d < first + n; d++) {
        if (!expr_as_int(tensor->shape[d], &extent)) return 0;
        product *= extent;
    }
    return product;
}

// Rows that count several dimensions of the tensor: whole ones of all but the slowest of these, Qr[m*64 +: 128] of
// view Qr[S*64][D] = Q[S][64][D]. Where a window of such a view ends is no row of the tensor's slowest dimension.
static bool through_merged_rows(Lowering *lo, Box *box, Along *along)
{
    const Buffer *const view = box->tensor, *const tensor = view->base.buffer;
    const ViewPairs pairs = common_pair_view(view);
    const int at = pairs.front, merged = tensor->rank - pairs.front - pairs.back;
    if (!merges_rows(view) || view->rank != pairs.front + 1 + pairs.back || !has_all_elements(view) || along[at].skip ||
        along[at].rows)
        return false;
    Expr *const start = box->start[at];
    const int64_t below = product_of_extents(tensor, at + 1, merged - 1);
    if (below < 1 || box->width[at] % below != 0 || expr_multiple(start) % below != 0 || !is_not_negative(lo, start))
        return false;
    Box inner = { .tensor = (Buffer *)tensor };
    Along of_base[MAX_RANK] = { 0 };
    for (int d = 0; d < tensor->rank; d++) {
        const int v = d <= at ? d : d - (merged - 1);
        const bool is_inner = d > at && d < at + merged;
        inner.start[d] = is_inner ? int_const(lo->arena, 0) : box->start[v];
        inner.width[d] = is_inner ? product_of_extents(tensor, d, 1) : box->width[v];
        of_base[d] = is_inner ? (Along){ .is_range = true } : along[v];
    }
    inner.start[at] = expr_binary(lo->arena, X_DIV, start, int_const(lo->arena, below));
    inner.width[at] = box->width[at] / below;
    *box = inner;
    memcpy(along, of_base, sizeof of_base);
    return true;
}

// From subscripts of a view to those of its base.
static bool through_view(Lowering *lo, Box *box, Along *along)
{
    Arena *const a = lo->arena;
    const Buffer *const view = box->tensor;
    const Region *const base = &view->base;
    if (view->type != base->buffer->type || region_rank(base) != view->rank) return false;
    Box inner = { .tensor = base->buffer };
    Along of_base[MAX_RANK] = { 0 };
    for (int d = 0, of_view = 0; d < base->buffer->rank; d++) {
        const Sub *const sub = &base->subs[d];
        inner.start[d] = sub->start;
        inner.width[d] = 1;
        if (!sub->is_range) continue;
        if (sub->step) return false;
        const int v = of_view++;
        if (!expr_equal(view->shape[v], sub->width)) return false; // another shape of as many dimensions
        const Range from = expr_range(box->start[v]);
        inner.start[d] = int_add(a, sub->start, box->start[v]);
        inner.width[d] = box->width[v];
        of_base[d] = along[v];
        int64_t begin = -1; // of the view: what lies before the base's beginning is outside of both
        if ((!from.has_lo || from.lo < 0) && !(expr_as_int(sub->start, &begin) && begin == 0)) {
            Expr *const before = int_sub(a, int_const(a, 0), box->start[v]);
            of_base[d].skip = along[v].skip ? int_max(a, along[v].skip, before) : before;
        }
        if (!expr_at_least(view->shape[v], int_add(a, box->start[v], int_const(a, box->width[v]))) &&
            !expr_equal(int_add(a, sub->start, view->shape[v]), base->buffer->shape[d])) {
            Expr *const left = int_sub(a, view->shape[v], box->start[v]);
            of_base[d].rows = along[v].rows ? int_min(a, along[v].rows, left) : left;
        }
    }
    *box = inner;
    memcpy(along, of_base, sizeof of_base);
    return true;
}

static bool is_large(const Expr *x, void *context)
{
    const Lowering *const lo = context;
    for (int i = 0; x->kind == E_VAR && i < lo->kernel->n_binds; i++)
        if ((lo->wide >> i & 1) && lo->kernel->binds[i].symbol == x->var.var) return expr_range(x).hi > INT32_MAX;
    return x->kind == E_INT && x->integer.value > INT32_MAX;
}

// Coordinates of boxes have 32 bits.
static bool has_large_extents(Lowering *lo, const Buffer *tensor)
{
    for (int d = 0; d < tensor->rank; d++)
        if (expr_any(tensor->shape[d], is_large, lo)) return true;
    return false;
}

static bool is_no_argument(const Expr *x, void *context)
{
    (void)context;
    return (x->kind == E_VAR && x->var.var->kind != VAR_SYMBOL && x->var.var->kind != VAR_ARGUMENT) ||
           x->kind == E_LOAD || x->kind == E_ATOMIC || x->kind == E_CALL;
}

bool is_known_at_launch(const Expr *x) { return !expr_any(x, is_no_argument, NULL); }

static bool is_unknown_at_launch(const Expr *x, void *context)
{
    const Lowering *const lo = context;
    for (int i = 0; x->kind == E_VAR && i < lo->kernel->n_binds; i++)
        if (lo->kernel->binds[i].symbol == x->var.var) return false;
    return x->kind == E_VAR || x->kind == E_LOAD;
}

// Bytes, or codes of less, as words or bytes: a map knows addresses and bytes alone.
static bool is_of_same_bytes(const Buffer *view, const Buffer *tensor)
{
    return view->type == tensor->type ||
           (dtype_bits(tensor->type) <= 8 && (view->type == DTYPE_U32 || view->type == DTYPE_U8));
}

// A whole tensor in another shape, of which a launch can make maps as well.
static bool is_reshaped_tensor(Lowering *lo, const Buffer *view)
{
    const Region *const base = &view->base;
    const Buffer *const tensor = base->buffer;
    if (tensor->kind != BUFFER_TENSOR || tensor->strided || tensor->stride[0] || !is_of_same_bytes(view, tensor) ||
        !region_is_whole(base) || dtype_bits(view->type) < 8)
        return false;
    for (int d = 0; d < view->rank; d++)
        if (expr_any(view->shape[d], is_unknown_at_launch, lo)) return false;
    return true;
}

static bool is_tensor_of_maps(Lowering *lo, const Buffer *buffer)
{
    const int param = buffer_root((Buffer *)buffer)->param;
    if (param >= 0 && lo->no_maps >> param & 1) return false;
    return buffer->kind == BUFFER_TENSOR || (buffer->kind == BUFFER_VIEW && is_reshaped_tensor(lo, buffer));
}

// The slice as a box of the tensor, slowest dimension first: widths, 1 for indices.
bool box_widths(Lowering *lo, const Region *region, int64_t *widths)
{
    const Buffer *const tensor = region->buffer;
    if (!is_tensor_of_maps(lo, tensor) || !can_hold_boxes(tensor)) return false;
    for (int d = 0; d < tensor->rank; d++) {
        const Sub *const sub = &region->subs[d];
        widths[d] = 1;
        if (sub->is_range && (sub->step || !expr_as_int(sub->width, &widths[d]))) return false;
    }
    const Sub *const last = &region->subs[tensor->rank - 1];
    return last->is_range && may_begin_at_piece(lo, tensor, last->start);
}

bool box_has_steps(const Box *box)
{
    bool any = false;
    for (int d = 0; d < box->tensor->rank; d++) any |= box->step[d] != NULL;
    return any;
}

static Expr *not_below(Lowering *lo, Expr *test, Expr *x, Expr *y)
{
    return expr_at_least(x, y) ? test : both(lo, test, expr_binary(lo->arena, X_GE, x, y));
}

Expr *steps_fit(Lowering *lo, const Box *box)
{
    Arena *const a = lo->arena;
    Expr *test = NULL;
    for (int d = 0; d < box->tensor->rank; d++) {
        if (!box->step[d]) continue;
        const int64_t apart = box->width[d] > 1 ? (BOX_MAX - 1) / (box->width[d] - 1) : STEP_MAX;
        test = not_below(lo, test, box->step[d], int_const(a, 1));
        test = not_below(lo, test, int_const(a, apart < STEP_MAX ? apart : STEP_MAX), box->step[d]);
    }
    return test;
}

// The one dimension of which a part is outside the views, if there is one.
static bool find_cut(Lowering *lo, Box *box, const Along *along)
{
    box->cut = -1;
    for (int d = 0; d < box->tensor->rank; d++) {
        if (!along[d].skip && !along[d].rows) continue;
        if (box->cut >= 0 || d == box->tensor->rank - 1) return false;
        box->cut = d;
        box->skip = along[d].skip ? along[d].skip : int_const(lo->arena, 0);
        box->rows = along[d].rows ? along[d].rows : int_const(lo->arena, box->width[d]);
    }
    return true;
}

bool find_box(Lowering *lo, const Region *region, Box *box)
{
    Along along[MAX_RANK] = { 0 };
    *box = (Box){ .tensor = region->buffer };
    for (int d = 0; d < region->buffer->rank; d++) {
        const Sub *const sub = &region->subs[d];
        box->start[d] = sub->start;
        box->width[d] = 1;
        along[d].is_range = sub->is_range;
        if (sub->is_range && !expr_as_int(sub->width, &box->width[d])) return false;
        box->step[d] = sub->is_range && sub->step && !expr_is_int(sub->step, 1) ? sub->step : NULL;
        if (box->step[d] && (d == region->buffer->rank - 1 || !is_known_at_launch(box->step[d]))) return false;
    }
    if (box_has_steps(box) && box->tensor->kind == BUFFER_VIEW) return false;
    while (box->tensor->kind == BUFFER_VIEW && (through_view(lo, box, along) || through_merged_rows(lo, box, along))) {
    }
    const Buffer *const tensor = box->tensor;
    for (int d = 0; d < tensor->rank; d++) box->is_range[d] = along[d].is_range;
    return is_tensor_of_maps(lo, tensor) && can_hold_boxes(tensor) && along[tensor->rank - 1].is_range &&
           !has_large_extents(lo, tensor) && find_cut(lo, box, along);
}

// Rows of a tile: dst is all of them, or some from `first` on; NULL: from the beginning.
bool is_rows_of_tile(const Region *dst, Expr **first)
{
    *first = NULL;
    if (region_is_whole(dst)) return true;
    Region rest = *dst;
    Sub subs[MAX_RANK];
    memcpy(subs, dst->subs, sizeof(Sub) * (size_t)dst->buffer->rank);
    int64_t width;
    if (dst->buffer->rank < 2 || !subs[0].is_range || subs[0].step || !expr_as_int(subs[0].width, &width)) return false;
    *first = subs[0].start;
    subs[0] = (Sub){ .is_range = true, .start = subs[1].start, .width = dst->buffer->shape[0] };
    rest.subs = subs;
    return expr_as_int(subs[0].start, &width) && width == 0 && region_is_whole(&rest);
}

// Where a box may begin in a tile: rows at multiples of its alignment.
static bool can_begin_at(const TileInfo *tile, const Expr *first, int pitch)
{
    const Range from = expr_range(first);
    return tile->buffer->rank == 2 && from.has_lo && from.lo >= 0 && expr_multiple(first) * pitch % BOX_ALIGN == 0;
}

static int pitch_of(const TileInfo *tile)
{
    int64_t columns;
    if (tile->wants_panels) return tile->shared.pitch_bytes;
    if (!expr_as_int(tile->buffer->shape[tile->buffer->rank - 1], &columns)) return 0;
    return (int)columns * dtype_bits(tile->buffer->type) / 8;
}

static bool rows_are_walked(Lowering *lo, const TileInfo *tile, const TileOp *op)
{
    const Buffer *const tensor = op->copy.src.buffer;
    const int bytes = dtype_bits(tensor->type) / 8, columns = op_info(lo, op)->im2col->columns;
    return lo->gpu->tma && tile && !row_padding(tile->buffer) && is_tensor_of_maps(lo, tensor) &&
           !has_large_extents(lo, tensor) &&
           may_begin_at_piece(lo, tensor, op->copy.src.subs[tensor->rank - 1].start) &&
           (tile->wants_panels || (columns <= BOX_MAX && columns * bytes % 16 == 0));
}

bool copy_is_box(Lowering *lo, const TileOp *op)
{
    const TileInfo *const tile = tile_info(lo, op->copy.dst.buffer);
    if (op_info(lo, op)->im2col) return rows_are_walked(lo, tile, op);
    Box box;
    Expr *first;
    if (!lo->gpu->tma || !tile || tile->buffer->kind != BUFFER_SHARED || !is_rows_of_tile(&op->copy.dst, &first) ||
        row_padding(tile->buffer) || op->copy.src.buffer->type != tile->buffer->type ||
        !find_box(lo, &op->copy.src, &box) ||
        (region_rank(&op->copy.src) != tile->buffer->rank && !op_info(lo, op)->merges_rows))
        return false;
    const int last = box.tensor->rank - 1, size = dtype_bits(box.tensor->type) / 8;
    for (int d = 0; d < last; d++)
        if (box.width[d] > BOX_MAX) return false;
    const Expr *const row = box.cut >= 0 ? int_const(lo->arena, 1) : first; // where a box begins: any row, or this one
    int64_t at;
    if (row && !(expr_as_int(row, &at) && at == 0) && !can_begin_at(tile, row, pitch_of(tile))) return false;
    if (!may_begin_at_piece(lo, box.tensor, box.start[last])) return false;
    return tile->wants_panels || (box.width[last] <= BOX_MAX && box.width[last] * size % 16 == 0);
}

// Rows of statistics and gates: where a box is impossible, or its stride is not known to be aligned, the lanes of one
// warp copy them, so that the kernel needs no second way for all its copies.
bool copy_is_small(Lowering *lo, const TileOp *op)
{
    const Region *const src = &op->copy.src;
    const TileInfo *const tile = tile_info(lo, op->copy.dst.buffer);
    int64_t extent;
    if (!lo->gpu->tma || !tile || tile->buffer->kind != BUFFER_SHARED || tile->wants_panels) return false;
    return tile->buffer->rank == 1 && expr_as_int(tile->buffer->shape[0], &extent) && extent <= SMALL_MAX &&
           region_is_whole(&op->copy.dst) && src->buffer->kind == BUFFER_TENSOR &&
           src->buffer->type == tile->buffer->type && dtype_bits(tile->buffer->type) == 32 &&
           !(copy_is_box(lo, op) && !copy_is_aligned(lo, op));
}

bool copy_is_cut(Lowering *lo, const TileOp *op)
{
    Box box;
    return !op_info(lo, op)->im2col && copy_is_box(lo, op) && find_box(lo, &op->copy.src, &box) && box.cut >= 0;
}

bool is_copy_into(const TileOp *op, const Buffer *tile) { return op->kind == T_COPY && op->copy.dst.buffer == tile; }

int tma_bytes(Lowering *lo, const TileOp *op)
{
    Box box;
    int64_t n = dtype_bits(op->copy.src.buffer->type) / 8;
    const Im2col *const im2col = op_info(lo, op)->im2col;
    if (im2col) return (int)n * im2col->rows * im2col->columns;
    if (!find_box(lo, &op->copy.src, &box)) return 0;
    for (int d = 0; d < box.tensor->rank; d++) n *= box.width[d];
    return (int)n;
}

bool boxes_divide_rows(const Buffer *tensor, const Sub *subs, int64_t rows)
{
    int64_t width;
    for (int d = tensor->rank - 2; d >= 0; d--) {
        if (!subs[d].is_range) continue;
        if (!expr_as_int(subs[d].width, &width) || (rows % width != 0 && width % rows != 0)) return false;
        rows = width % rows == 0 ? 1 : rows / width;
    }
    return rows == 1;
}

bool is_not_negative(const Lowering *lo, const Expr *x) { return expr_at_least(x, int_const(lo->arena, 0)); }

// Can a fragment's slice be stored as boxes of so many rows and columns?
//
// A negative coordinate is an illegal instruction in stores, in copies it is not: where it may be negative the store is
// sent past the tensor's end instead, which is right if no box begins before the tensor and ends in it.
bool slice_is_box(Lowering *lo, const Region *region, int rows, int columns)
{
    int64_t widths[MAX_RANK];
    if (!lo->gpu->tma || !box_widths(lo, region, widths) || has_large_extents(lo, region->buffer)) return false;
    for (int d = 0; d < region->buffer->rank; d++) {
        const Expr *const start = region->subs[d].start;
        const int extent = d == region->buffer->rank - 1 ? columns : region->subs[d].is_range ? rows : 1;
        if (!is_not_negative(lo, start) && expr_multiple(start) % extent != 0) return false;
    }
    return true;
}
