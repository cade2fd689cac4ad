// SPDX-License-Identifier: MIT
// place.c - where one element of a tensor or tile is, through views, and what must hold for it to be inside.
//
// Accesses to tensors and views are checked here, one test per dimension, minus those that ranges prove.
#include "lower/gpu/print/expressions/expressions.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/values.h"

#include <assert.h>

// 0 <= sub < extent, as far as it has to be tested. NULL: proved.
static Expr *inside_test(Printer *pr, Expr *sub, Expr *extent)
{
    Arena *const a = pr->arena;
    const Range r = expr_range(sub);
    int64_t n;
    Expr *test = NULL;
    if (!(r.has_lo && r.lo >= 0)) test = expr_binary(a, X_GE, sub, int_const(a, 0));
    if (!(r.has_hi && expr_as_int(extent, &n) && r.hi < n))
        test = both(pr->lo, test, expr_binary(a, X_LT, sub, extent));
    return test && expr_is_const(test) && test->integer.value ? NULL : test;
}

// The linear position of subs in a row-major box of the given extents.
static Expr *linear_position(Printer *pr, Expr **subs, Expr *const *extents, int rank)
{
    Expr *at = int_const(pr->arena, 0);
    for (int d = 0; d < rank; d++) at = int_add(pr->arena, int_mul(pr->arena, at, extents[d]), subs[d]);
    return at;
}

// The subscripts of the view's base that stand for `subs` of the view.
static void through_view(Printer *pr, const Buffer *view, Expr **subs)
{
    Arena *const a = pr->arena;
    const Region *const base = &view->base;
    Expr *position[MAX_RANK] = { 0 };
    const int ranges = region_rank(base);
    const int unit = dtype_is_packed(base->buffer->type) ? dtype_bits(base->buffer->type) : 8;
    const int64_t size = dtype_bits(view->type) / unit, base_size = dtype_bits(base->buffer->type) / unit;
    const ViewPairs pairs = common_pair_view(view);
    const int front = pairs.front, back = pairs.back;
    for (int d = 0; d < front; d++) position[d] = subs[d];
    for (int d = 1; d <= back; d++) position[ranges - d] = subs[view->rank - d];
    if (back && size != base_size) // the last dimension is counted anew
        position[ranges - 1] =
            expr_binary(a, X_DIV, int_mul(a, position[ranges - 1], int_const(a, size)), int_const(a, base_size));
    Expr *rest = linear_position(pr, subs + front, view->shape + front, view->rank - front - back);
    if (back == 0 && size != base_size) // counted in bytes, or packed elements
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

Expr *shared_at(Printer *pr, const TileInfo *tile, Expr *row, Expr *column)
{
    const SharedLayout *const s = &tile->shared;
    if (!s->swizzle_bytes) {
        const int pitch = s->pitch_bytes / s->element_bytes;
        return i32_add(pr, i32_mul(pr, row, pitch), column);
    }
    Expr *within = column, *panel = i32_const(pr, 0);
    if (s->columns != s->panel_columns) {
        panel =
            i32_mul(pr, expr_binary(pr->arena, X_SHR, column, i32_const(pr, __builtin_ctz((unsigned)s->panel_columns))),
                    s->panel_bytes / s->element_bytes);
        within = i32_op(pr, X_BITAND, column, s->panel_columns - 1);
    }
    return i32_add(pr, panel,
                   call_expr(pr, DTYPE_I32,
                             arena_printf(pr->arena, "swizzle<%d, %d>", s->swizzle_bytes, s->element_bytes), 2, row,
                             within));
}

// One subscript of a tile: i32.
static Expr *tile_subscript(Printer *pr, const Buffer *tile, int d, Expr *sub, const Iteration *it, Span span)
{
    Expr *const lowered = lower_expr(pr, sub, it);
    return cast(pr, DTYPE_I32, test_subscript(pr, tile, d, sub, lowered, span));
}

static void place_shared(Printer *pr, TileInfo *tile, Expr **subs, const Iteration *it, Place *place, Span span)
{
    const Buffer *const buffer = tile->buffer;
    Expr *row = i32_const(pr, 0);
    for (int d = 0; d + 1 < buffer->rank; d++) {
        int64_t extent;
        expr_as_int(buffer->shape[d], &extent);
        row = i32_add(pr, i32_mul(pr, row, extent), tile_subscript(pr, buffer, d, subs[d], it, span));
    }
    Expr *const column = buffer->rank ? tile_subscript(pr, buffer, buffer->rank - 1, subs[buffer->rank - 1], it, span)
                                      : i32_const(pr, 0);
    place->pointer = tile_vars(pr, tile)->pointer;
    place->at = shared_at(pr, tile, row, column);
}

// The register number: the tile's register modes, each at the loop variable of the same mode of the iteration.
static void place_registers(Printer *pr, TileInfo *tile, Expr **subs, const Iteration *it, Place *place)
{
    Layout layout;
    int same[LAYOUT_MAX_MODES], stride = 1;
    const bool is_there = find_register_modes(pr->lo, tile, subs, it, &layout, same);
    assert(is_there && "deciding has seen the access");
    (void)is_there;
    Expr *at = i32_const(pr, 0);
    for (int i = 0; i < layout.n; i++) {
        const LayoutMode *const mode = &layout.mode[i];
        if (mode->input != IN_REGISTER) continue;
        if (it->mode[same[i]]) // before and after the loop of a vector its mode stands at 0
            at = i32_add(pr, at, i32_mul(pr, var_of(pr, it->mode[same[i]]), stride));
        stride *= mode->extent;
    }
    place->pointer = tile_vars(pr, tile)->registers;
    place->at = at;
}

static void place_tensor(Printer *pr, Buffer *tensor, Expr **subs, const Iteration *it, Place *place)
{
    Arena *const a = pr->arena;
    Expr *at = expr_int(a, DTYPE_I64, 0);
    for (int d = 0; d < tensor->rank; d++) {
        if (tensor->stride[0]) {
            Expr *const stride = lower_int64(pr, tensor->stride[d], NULL);
            at = expr_binary(a, X_ADD, at, expr_binary(a, X_MUL, lower_int64(pr, subs[d], it), stride));
        } else if (tensor->strided) {
            Expr *const stride =
                call_expr(pr, DTYPE_I64, "param_word", 1, i32_const(pr, pr->tensors[tensor->id]->multiple + 1 + d));
            at = expr_binary(a, X_ADD, at, expr_binary(a, X_MUL, lower_int64(pr, subs[d], it), stride));
        } else {
            at = expr_binary(a, X_MUL, at, lower_int64(pr, tensor->shape[d], NULL));
            at = expr_binary(a, X_ADD, at, lower_int64(pr, subs[d], it));
        }
    }
    place->pointer = pr->tensors[buffer_root(tensor)->id];
    place->at = at;
}

// An array of one thread. Checked builds look at each subscript.
static void place_local(Printer *pr, Buffer *local, Expr **subs, const Iteration *it, Place *place, Span span)
{
    place->pointer = pr->tensors[local->id];
    place->at =
        local->rank ? lower_int64(pr, linear_position(pr, subs, local->shape, local->rank), it) : i32_const(pr, 0);
    for (int d = 0; d < local->rank && pr->lo->kernel->checked; d++) {
        int64_t extent = 1;
        expr_as_int(local->shape[d], &extent);
        Expr *const sub = tile_subscript(pr, local, d, subs[d], it, span);
        place->at = d == 0 ? sub : i32_add(pr, i32_mul(pr, place->at, extent), sub);
    }
}

// ---- rows whose addresses are computed before the loops over columns

typedef struct RowAddress {
    const Buffer *view;
    Var *at; // of the row's first element from the tensor's start; -1: the row is outside
} RowAddress;

// Digits of a number that is not negative are less than what they count to; the highest may be more.
static Expr *row_is_inside(Printer *pr, const Buffer *view, Expr *row, Expr *const *subs)
{
    const Buffer *const tensor = view->base.buffer;
    Expr *const of_view = inside_test(pr, row, view->shape[0]);
    return both(pr->lo, of_view, expr_binary(pr->arena, X_LT, subs[0], tensor->shape[0]));
}

Var *declare_row_at(Printer *pr, const TileOp *store, const Iteration *it)
{
    Arena *const a = pr->arena;
    Buffer *const view = store->store.buffer, *const tensor = view->base.buffer;
    Expr *subs[MAX_RANK] = { store->store.subs[0], int_const(a, 0) };
    through_view(pr, view, subs);
    for (int d = 0; d + 1 < tensor->rank; d++) {
        Var *const sub = tile_new_var(pr->lo->kernel, VAR_LOCAL, DTYPE_INT, "row_at", store->span);
        *var_slot(pr, sub) = emit_declare(pr, DTYPE_I64, "row_at", lower_int64(pr, subs[d], it));
        subs[d] = expr_var(a, sub);
    }
    Place place;
    place_tensor(pr, tensor, subs, it, &place);
    Expr *const inside = lower_expr(pr, row_is_inside(pr, view, store->store.subs[0], subs), it);
    return emit_declare(pr, DTYPE_I64, "line_at", expr_select(a, inside, place.at, expr_int(a, DTYPE_I64, -1)));
}

void enter_row(Printer *pr, const TileOp *store, Var *at)
{
    RowAddress *const row = NEW(pr->arena, RowAddress, .view = store->store.buffer, .at = at);
    pr->row_address = row;
}

void leave_row(Printer *pr) { pr->row_address = NULL; }

static void place_in_row(Printer *pr, Expr *column, const Iteration *it, Place *place)
{
    const RowAddress *const row = pr->row_address;
    Buffer *const tensor = row->view->base.buffer;
    const int last = tensor->rank - 1;
    Expr *subs[MAX_RANK] = { int_const(pr->arena, 0), column };
    through_view(pr, row->view, subs);
    Expr *const test = inside_test(pr, subs[last], tensor->shape[last]);
    place->root = tensor;
    place->pointer = pr->tensors[tensor->id];
    place->column = lower_int64(pr, subs[last], it);
    place->extent = tensor->shape[last];
    place->columns = test ? lower_int64(pr, tensor->shape[last], NULL) : NULL;
    place->at = expr_binary(pr->arena, X_ADD, var_of(pr, row->at), place->column);
    place->rows_inside = expr_binary(pr->arena, X_GE, var_of(pr, row->at), expr_int(pr->arena, DTYPE_I64, 0));
    place->inside = both(pr->lo, place->rows_inside, test ? lower_expr(pr, test, it) : NULL);
}

// ---- elements

// `rows`: what must hold on the way here.
static void place_in_tensor(Printer *pr, Buffer *tensor, Expr **subs, Expr *rows, const Iteration *it, Place *place)
{
    const int last = tensor->rank - 1;
    for (int d = 0; d < last; d++) rows = both(pr->lo, rows, inside_test(pr, subs[d], tensor->shape[d]));
    Expr *const column_test = last >= 0 ? inside_test(pr, subs[last], tensor->shape[last]) : NULL;
    place_tensor(pr, tensor, subs, it, place);
    place->rows_inside = rows ? lower_expr(pr, rows, it) : NULL;
    place->column = last >= 0 ? lower_int64(pr, subs[last], it) : NULL;
    place->extent = last >= 0 ? tensor->shape[last] : NULL;
    place->columns = column_test ? lower_int64(pr, tensor->shape[last], NULL) : NULL;
    place->inside = both(pr->lo, place->rows_inside, column_test ? lower_expr(pr, column_test, it) : NULL);
}

// From a view to the buffer below it: *rows grows by the tests of its bounds, as Tile IR, so that they fold.
static void leave_view(Printer *pr, const Buffer *view, Expr **subs, Expr **rows, const Iteration *it, Place *place)
{
    const DType type = view->type, below = view->base.buffer->type;
    if (type != below && !place->recast) place->recast = type;
    if (dtype_bits(type) < dtype_bits(below)) { // several stand in one of those below
        Expr *const which = expr_binary(pr->arena, X_MOD, subs[view->rank - 1],
                                        int_const(pr->arena, dtype_bits(below) / dtype_bits(type)));
        Expr *const bytes = cast(
            pr, DTYPE_I32, lower_expr(pr, int_mul(pr->arena, which, int_const(pr->arena, dtype_bits(type) / 8)), it));
        place->bytes = place->bytes ? expr_binary(pr->arena, X_ADD, place->bytes, bytes) : bytes;
    }
    for (int d = 0; d < view->rank; d++) *rows = both(pr->lo, *rows, inside_test(pr, subs[d], view->shape[d]));
    through_view(pr, view, subs);
}

void place_element(Printer *pr, Buffer *buffer, Expr **given, const Iteration *it, Place *place, Span span)
{
    Expr *subs[MAX_RANK] = { 0 }, *rows = NULL;
    memcpy(subs, given, sizeof(Expr *) * (size_t)buffer->rank);
    *place = (Place){ 0 };
    if (pr->row_address && pr->row_address->view == buffer) {
        place_in_row(pr, subs[1], it, place);
        return;
    }
    for (; buffer->kind == BUFFER_VIEW && !is_flat_tensor(buffer); buffer = buffer->base.buffer)
        leave_view(pr, buffer, subs, &rows, it, place);
    place->root = buffer_root(buffer);
    if (place->root->kind == BUFFER_TENSOR) {
        place_in_tensor(pr, buffer, subs, rows, it, place);
        return;
    }
    place->inside = place->rows_inside = rows ? lower_expr(pr, rows, it) : NULL;
    TileInfo *const tile = tile_info(pr->lo, buffer);
    if (buffer->kind == BUFFER_LOCAL) place_local(pr, buffer, subs, it, place, span);
    else if (tile->storage == TILE_IN_SHARED) place_shared(pr, tile, subs, it, place, span);
    else place_registers(pr, tile, subs, it, place);
}

// Several elements of a tensor in a byte. Tiles hold each in a byte of its own.
bool is_packed_place(const Place *place)
{
    return place->root->kind == BUFFER_TENSOR && dtype_bits(place->root->type) < 8;
}

// Of one whose type is not its root's: where its element begins, whole bytes of packed ones.
Expr *recast_address(Printer *pr, const Place *place)
{
    const int in_a_byte = is_packed_place(place) ? 8 / dtype_bits(place->root->type) : 1;
    Expr *const at = in_a_byte == 1
                         ? place->at
                         : expr_binary(pr->arena, X_DIV, place->at, expr_int(pr->arena, place->at->type, in_a_byte));
    return expr_address(pr->arena, place->pointer, at);
}

// What stands at a place, in the loop's type for `stored`.
Expr *element_at(Printer *pr, const Place *place, DType stored)
{
    const DType type = loop_type(stored);
    if (place->recast)
        return call_expr(pr, type, arena_printf(pr->arena, "element_as<%s>", dtype_info[type].c_name),
                         place->bytes ? 2 : 1, recast_address(pr, place), place->bytes);
    if (is_packed_place(place))
        return call_expr(pr, type, arena_printf(pr->arena, "packed_element<%d>", dtype_bits(place->root->type)), 2,
                         var_of(pr, place->pointer), place->at);
    Expr *const element = expr_index(pr->arena, place->pointer, place->at);
    element->type = type;
    return element;
}
