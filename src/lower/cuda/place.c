// SPDX-License-Identifier: MIT
// place.c - where one element of a tensor or tile is, through views, and what must hold for it to be inside.
//
// Accesses to tensors and views are checked here, one test per dimension, minus those that ranges prove.
#include "lower/cuda/checked.h"
#include "lower/cuda/elementwise.h"
#include "lower/cuda/print.h"

// 0 <= sub < extent, as far as it has to be tested. NULL: proved.
static Expr *inside_test(Lowering *lo, Expr *sub, Expr *extent)
{
    Arena *const a = lo->arena;
    const Range r = expr_range(sub);
    int64_t n;
    Expr *test = NULL;
    if (!(r.has_lo && r.lo >= 0)) test = expr_binary(a, X_GE, sub, int_const(a, 0));
    if (!(r.has_hi && expr_as_int(extent, &n) && r.hi < n)) test = both(lo, test, expr_binary(a, X_LT, sub, extent));
    return test && expr_is_const(test) && test->integer.value ? NULL : test;
}

// The linear position of subs in a row-major box of the given extents.
static Expr *linear_position(Lowering *lo, Expr **subs, Expr *const *extents, int rank)
{
    Expr *at = int_const(lo->arena, 0);
    for (int d = 0; d < rank; d++) at = int_add(lo->arena, int_mul(lo->arena, at, extents[d]), subs[d]);
    return at;
}

// The subscripts of the view's base that stand for `subs` of the view.
static void through_view(Lowering *lo, const Buffer *view, Expr **subs)
{
    Arena *const a = lo->arena;
    const Region *const base = &view->base;
    Expr *position[MAX_RANK] = { 0 };
    const int ranges = region_rank(base);
    const int64_t size = dtype_bits(view->type) / 8, base_size = dtype_bits(base->buffer->type) / 8;
    const ViewPairs pairs = common_pair_view(view);
    const int front = pairs.front, back = pairs.back;
    for (int d = 0; d < front; d++) position[d] = subs[d];
    for (int d = 1; d <= back; d++) position[ranges - d] = subs[view->rank - d];
    if (back && size != base_size) // the last dimension is counted anew
        position[ranges - 1] =
            expr_binary(a, X_DIV, int_mul(a, position[ranges - 1], int_const(a, size)), int_const(a, base_size));
    Expr *rest = linear_position(lo, subs + front, view->shape + front, view->rank - front - back);
    if (back == 0 && size != base_size) // counted in bytes
        rest = expr_binary(a, X_DIV, int_mul(a, rest, int_const(a, size)), int_const(a, base_size));
    int outer = front; // dimensions of one element stay at 0
    for (int64_t n; outer < ranges - back - 1 && expr_as_int(region_extent(base, outer), &n) && n == 1; outer++)
        position[outer] = int_const(a, 0);
    for (int d = ranges - back - 1; d >= outer; d--) {
        Expr *const width = region_extent(base, d);
        position[d] = d == outer ? rest : expr_binary(a, X_MOD, rest, width);
        rest = d == outer ? rest : expr_binary(a, X_DIV, rest, width);
    }
    region_element(a, base, position, subs);
}

Expr *shared_at(Lowering *lo, const TileInfo *tile, Expr *row, Expr *column)
{
    const SharedLayout *const s = &tile->shared;
    if (!s->swizzle_bytes) {
        const int pitch = s->pitch_bytes / s->element_bytes;
        return i32_add(lo, i32_mul(lo, row, pitch), column);
    }
    Expr *within = column, *panel = i32_const(lo, 0);
    if (s->columns != s->panel_columns) {
        panel =
            i32_mul(lo, expr_binary(lo->arena, X_SHR, column, i32_const(lo, __builtin_ctz((unsigned)s->panel_columns))),
                    s->panel_bytes / s->element_bytes);
        within = i32_op(lo, X_BITAND, column, s->panel_columns - 1);
    }
    return i32_add(lo, panel,
                   call_expr(lo, DTYPE_I32,
                             arena_printf(lo->arena, "swizzle<%d, %d>", s->swizzle_bytes, s->element_bytes), 2, row,
                             within));
}

// One subscript of a tile: i32.
static Expr *tile_subscript(Lowering *lo, const Buffer *tile, int d, Expr *sub, const Iteration *it, Span span)
{
    Expr *const lowered = lower_expr(lo, sub, it);
    return cast(lo, DTYPE_I32, test_subscript(lo, tile, d, sub, lowered, span));
}

static void place_shared(Lowering *lo, TileInfo *tile, Expr **subs, const Iteration *it, Place *place, Span span)
{
    const Buffer *const buffer = tile->buffer;
    Expr *row = i32_const(lo, 0);
    for (int d = 0; d + 1 < buffer->rank; d++) {
        int64_t extent;
        expr_as_int(buffer->shape[d], &extent);
        row = i32_add(lo, i32_mul(lo, row, extent), tile_subscript(lo, buffer, d, subs[d], it, span));
    }
    Expr *const column = buffer->rank ? tile_subscript(lo, buffer, buffer->rank - 1, subs[buffer->rank - 1], it, span)
                                      : i32_const(lo, 0);
    place->pointer = tile->pointer;
    place->at = shared_at(lo, tile, row, column);
}

// The iteration's register mode that is the same as the tile's, for index `index`; -1: there is none.
static int same_mode(const Iteration *it, int index, const LayoutMode *mode)
{
    int same = -1;
    for (int j = 0; j < it->layout.n; j++) {
        const LayoutMode *const other = &it->layout.mode[j];
        if (other->input == IN_REGISTER && other->dim == it->dim_of[index] && other->stride == mode->stride &&
            other->extent == mode->extent)
            same = j;
    }
    return same;
}

// The register number: the tile's register modes, each at the loop variable of the same mode of the iteration.
static bool place_registers(Lowering *lo, TileInfo *tile, Expr **subs, const Iteration *it, Place *place)
{
    Subscripts match = { 0 };
    Layout layout = tile->layout;
    if (it && tile->buffer->rank &&
        (!match_subscripts(lo, subs, tile->buffer->rank, it->indices, it->n, &match) ||
         !split_layout(tile, &match, &layout)))
        return false;
    Expr *at = i32_const(lo, 0);
    int stride = 1;
    for (int i = 0; i < layout.n; i++) {
        const LayoutMode *const mode = &layout.mode[i];
        if (mode->input != IN_REGISTER) continue;
        const int index = it && mode->dim >= 0 ? match.index[mode->dim] : -1;
        const int same = index < 0 || it->dim_of[index] < 0 ? -1 : same_mode(it, index, mode);
        if (same < 0) return false;
        if (it->mode[same]) // before and after the loop of a vector its mode stands at 0
            at = i32_add(lo, at, i32_mul(lo, var_of(lo, it->mode[same]), stride));
        stride *= mode->extent;
    }
    place->pointer = tile->registers;
    place->at = at;
    return true;
}

static void place_tensor(Lowering *lo, Buffer *tensor, Expr **subs, const Iteration *it, Place *place)
{
    Arena *const a = lo->arena;
    Expr *at = expr_int(a, DTYPE_I64, 0);
    for (int d = 0; d < tensor->rank; d++) {
        if (tensor->stride[0]) {
            Expr *const stride = lower_int64(lo, tensor->stride[d], NULL);
            at = expr_binary(a, X_ADD, at, expr_binary(a, X_MUL, lower_int64(lo, subs[d], it), stride));
        } else if (tensor->strided) {
            Expr *const stride =
                call_expr(lo, DTYPE_I64, "param_word", 1, i32_const(lo, lo->tensors[tensor->id]->multiple + 1 + d));
            at = expr_binary(a, X_ADD, at, expr_binary(a, X_MUL, lower_int64(lo, subs[d], it), stride));
        } else {
            at = expr_binary(a, X_MUL, at, lower_int64(lo, tensor->shape[d], NULL));
            at = expr_binary(a, X_ADD, at, lower_int64(lo, subs[d], it));
        }
    }
    place->pointer = lo->tensors[tensor->id];
    place->at = at;
}

// An array of one thread. Checked builds look at each subscript.
static void place_local(Lowering *lo, Buffer *local, Expr **subs, const Iteration *it, Place *place, Span span)
{
    place->pointer = lo->tensors[local->id];
    place->at =
        local->rank ? lower_int64(lo, linear_position(lo, subs, local->shape, local->rank), it) : i32_const(lo, 0);
    for (int d = 0; d < local->rank && lo->kernel->checked; d++) {
        int64_t extent = 1;
        expr_as_int(local->shape[d], &extent);
        Expr *const sub = tile_subscript(lo, local, d, subs[d], it, span);
        place->at = d == 0 ? sub : i32_add(lo, i32_mul(lo, place->at, extent), sub);
    }
}

// `rows`: what must hold on the way here.
static void place_in_tensor(Lowering *lo, Buffer *tensor, Expr **subs, Expr *rows, const Iteration *it, Place *place)
{
    const int last = tensor->rank - 1;
    for (int d = 0; d < last; d++) rows = both(lo, rows, inside_test(lo, subs[d], tensor->shape[d]));
    Expr *const column_test = last >= 0 ? inside_test(lo, subs[last], tensor->shape[last]) : NULL;
    place_tensor(lo, tensor, subs, it, place);
    place->rows_inside = rows ? lower_expr(lo, rows, it) : NULL;
    place->column = last >= 0 ? lower_int64(lo, subs[last], it) : NULL;
    place->columns = column_test ? lower_int64(lo, tensor->shape[last], NULL) : NULL;
    place->inside = both(lo, place->rows_inside, column_test ? lower_expr(lo, column_test, it) : NULL);
}

// From a view to the buffer below it: *rows grows by the tests of its bounds, as Tile IR, so that they fold.
static bool leave_view(Lowering *lo, const Buffer *view, Expr **subs, Expr **rows, const Iteration *it, Place *place,
                       Span span)
{
    const DType type = view->type, below = view->base.buffer->type;
    if (type != below && (dtype_bits(type) < 8 || dtype_bits(below) < 8))
        return unsupported(lo, span, "a view of packed elements in another type ('%s')", view->name);
    if (type != below && !place->recast) place->recast = type;
    if (dtype_bits(type) < dtype_bits(below)) { // several stand in one of those below
        Expr *const which = expr_binary(lo->arena, X_MOD, subs[view->rank - 1],
                                        int_const(lo->arena, dtype_bits(below) / dtype_bits(type)));
        Expr *const bytes = cast(
            lo, DTYPE_I32, lower_expr(lo, int_mul(lo->arena, which, int_const(lo->arena, dtype_bits(type) / 8)), it));
        place->bytes = place->bytes ? expr_binary(lo->arena, X_ADD, place->bytes, bytes) : bytes;
    }
    for (int d = 0; d < view->rank; d++) *rows = both(lo, *rows, inside_test(lo, subs[d], view->shape[d]));
    through_view(lo, view, subs);
    return true;
}

bool place_element(Lowering *lo, Buffer *buffer, Expr **given, const Iteration *it, Place *place, Span span)
{
    Expr *subs[MAX_RANK] = { 0 }, *rows = NULL;
    memcpy(subs, given, sizeof(Expr *) * (size_t)buffer->rank);
    *place = (Place){ 0 };
    for (; buffer->kind == BUFFER_VIEW; buffer = buffer->base.buffer)
        if (!leave_view(lo, buffer, subs, &rows, it, place, span)) return false;
    place->root = buffer;
    if (buffer->kind == BUFFER_TENSOR) {
        place_in_tensor(lo, buffer, subs, rows, it, place);
        return true;
    }
    place->inside = place->rows_inside = rows ? lower_expr(lo, rows, it) : NULL;
    TileInfo *const tile = tile_info(lo, buffer);
    if (buffer->kind == BUFFER_LOCAL) place_local(lo, buffer, subs, it, place, span);
    else if (tile->storage == TILE_IN_SHARED) place_shared(lo, tile, subs, it, place, span);
    else if (!place_registers(lo, tile, subs, it, place))
        return unsupported(lo, span, "this access to fragment '%s'", buffer->name);
    return true;
}

// Several elements of a tensor in a byte. Tiles hold each in a byte of its own.
bool is_packed_place(const Place *place)
{
    return place->root->kind == BUFFER_TENSOR && dtype_bits(place->root->type) < 8;
}

// What stands at a place, in the loop's type for `stored`.
Expr *element_at(Lowering *lo, const Place *place, DType stored)
{
    const DType type = loop_type(stored);
    if (place->recast)
        return call_expr(lo, type, arena_printf(lo->arena, "element_as<%s>", dtype_info[type].c_name),
                         place->bytes ? 2 : 1, expr_address(lo->arena, place->pointer, place->at), place->bytes);
    if (is_packed_place(place))
        return call_expr(lo, type, arena_printf(lo->arena, "packed_element<%d>", dtype_bits(place->root->type)), 2,
                         var_of(lo, place->pointer), place->at);
    Expr *const element = expr_index(lo->arena, place->pointer, place->at);
    element->type = type;
    return element;
}
