// tma.c - copies of boxes between tensors and shared memory by the tensor memory accelerator.
//
// A slice is a box if every subscript is an index or a range of constant width and step 1 and the last dimension is
// a range of whole 16-byte pieces. A tile with panels takes one box per panel. The tensor's strides must be
// multiples of 16 bytes: where shapes do not prove it, kernels test it once per launch and fall back.
//
// A slice of a view is a box of the tensor behind it, or of all of that tensor in the view's shape. Where the view may end before the box does (the last page of a
// request, a window) or begin behind it, the rows outside must be zero, whatever memory holds: such a box is cut into boxes of
// 1, 4, 16 ... rows, those outside from beyond the tensor, which TMA fills with zeros and does not read.
#include "lower/cuda/cuda.h"

#include <assert.h>

enum { BOX_MAX = 256,                // elements along each dimension of a box
       BOX_ALIGN = 128 };            // bytes, of its place in shared memory

// An innermost coordinate that is no multiple of 16 bytes is an illegal instruction, in copies and in stores.
static bool starts_at_a_piece(const Buffer *tensor, const Expr *start)
{
    return expr_multiple(start) % 16 * dtype_bits(tensor->type) / 8 % 16 == 0;
}

// The slice as a box of the tensor, slowest dimension first: widths, 1 for indices.
static bool box_widths(const Region *region, int64_t *widths)
{
    const Buffer *const tensor = region->buffer;
    if (tensor->kind != BUFFER_TENSOR || tensor->strided || tensor->rank < 1 || tensor->rank > 5 || dtype_bits(tensor->type) < 8)
        return false;
    for (int d = 0; d < tensor->rank; d++) {
        const Sub *const sub = &region->subs[d];
        widths[d] = 1;
        if (sub->is_range && (sub->step || !expr_as_int(sub->width, &widths[d])))
            return false;
    }
    const Sub *const last = &region->subs[tensor->rank - 1];
    return last->is_range && starts_at_a_piece(tensor, last->start);
}

// A slice that is fetched, as a box of the tensor behind it.
typedef struct Box {
    Buffer *tensor;
    Expr   *start[MAX_RANK];
    int64_t width[MAX_RANK];         // 1 for indices
    int     cut;                     // the dimension of which only `skip` .. `rows` may be inside the views; -1: none
    Expr   *skip, *rows;
} Box;

typedef struct Along { bool is_range; Expr *skip, *rows; } Along;      // a dimension; NULL: nothing is outside

// From subscripts of a view to those of its base.
static bool through_view(Lowering *lo, Box *box, Along *along)
{
    Arena *const a = lo->arena;
    const Buffer *const view = box->tensor;
    const Region *const base = &view->base;
    if (view->type != base->buffer->type || region_rank(base) != view->rank)
        return false;
    Box inner = { .tensor = base->buffer };
    Along of_base[MAX_RANK] = { 0 };
    for (int d = 0, of_view = 0; d < base->buffer->rank; d++) {
        const Sub *const sub = &base->subs[d];
        inner.start[d] = sub->start;
        inner.width[d] = 1;
        if (!sub->is_range)
            continue;
        if (sub->step)
            return false;
        const int v = of_view++;
        if (!expr_equal(view->shape[v], sub->width))
            return false;            // another shape of as many dimensions
        const Range from = expr_range(box->start[v]);
        inner.start[d] = int_add(a, sub->start, box->start[v]);
        inner.width[d] = box->width[v];
        of_base[d] = along[v];
        int64_t begin = -1;          // of the view: what lies before the base's beginning is outside of both
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
        if ((lo->wide >> i & 1) && lo->kernel->binds[i].symbol == x->var.var)
            return expr_range(x).hi > INT32_MAX;
    return x->kind == E_INT && x->integer.value > INT32_MAX;
}

// Coordinates of boxes have 32 bits.
static bool has_large_extents(Lowering *lo, const Buffer *tensor)
{
    for (int d = 0; d < tensor->rank; d++)
        if (expr_any(tensor->shape[d], is_large, lo))
            return true;
    return false;
}

static bool is_unknown_at_launch(const Expr *x, void *context)
{
    const Lowering *const lo = context;
    for (int i = 0; x->kind == E_VAR && i < lo->kernel->n_binds; i++)
        if (lo->kernel->binds[i].symbol == x->var.var)
            return false;
    return x->kind == E_VAR || x->kind == E_LOAD;
}

// A whole tensor in another shape, of which a launch can make maps as well.
static bool is_reshaped_tensor(Lowering *lo, const Buffer *view)
{
    const Region *const base = &view->base;
    const Buffer *const tensor = base->buffer;
    if (tensor->kind != BUFFER_TENSOR || tensor->strided || tensor->stride[0] || view->type != tensor->type || !region_is_whole(base) ||
        dtype_bits(view->type) < 8 || strides_are_aligned(lo, view))
        return false;
    for (int d = 0; d < view->rank; d++)
        if (expr_any(view->shape[d], is_unknown_at_launch, lo))
            return false;
    return true;
}

static bool find_box(Lowering *lo, const Region *region, Box *box)
{
    Along along[MAX_RANK] = { 0 };
    *box = (Box){ .tensor = region->buffer };
    for (int d = 0; d < region->buffer->rank; d++) {
        const Sub *const sub = &region->subs[d];
        box->start[d] = sub->start;
        box->width[d] = 1;
        along[d].is_range = sub->is_range;
        if (sub->is_range && (sub->step || !expr_as_int(sub->width, &box->width[d])))
            return false;
    }
    while (box->tensor->kind == BUFFER_VIEW && through_view(lo, box, along)) {}
    const Buffer *const tensor = box->tensor;
    const int last = tensor->rank - 1;
    if ((tensor->kind != BUFFER_TENSOR && !(tensor->kind == BUFFER_VIEW && is_reshaped_tensor(lo, tensor))) || tensor->strided || tensor->rank < 1 || tensor->rank > 5 || dtype_bits(tensor->type) < 8 ||
        !along[last].is_range || along[last].skip || along[last].rows || has_large_extents(lo, tensor))
        return false;
    box->cut = -1;
    for (int d = 0; d < last; d++) {
        if (!along[d].skip && !along[d].rows)
            continue;
        if (box->cut >= 0)
            return false;
        box->cut = d;
        box->skip = along[d].skip ? along[d].skip : int_const(lo->arena, 0);
        box->rows = along[d].rows ? along[d].rows : int_const(lo->arena, box->width[d]);
    }
    return true;
}

// Rows of a tile: dst is all of them, or some from `first` on.
static bool is_rows_of_tile(const Region *dst, int64_t *first)
{
    *first = 0;
    if (region_is_whole(dst))
        return true;
    Region rest = *dst;
    Sub subs[MAX_RANK];
    memcpy(subs, dst->subs, sizeof(Sub) * (size_t)dst->buffer->rank);
    int64_t width;
    if (dst->buffer->rank < 2 || !subs[0].is_range || subs[0].step || !expr_as_int(subs[0].start, first) || *first < 0 ||
        !expr_as_int(subs[0].width, &width))
        return false;
    subs[0] = (Sub){ .is_range = true, .start = subs[1].start, .width = dst->buffer->shape[0] };
    expr_as_int(subs[0].start, &width);
    rest.subs = subs;
    return width == 0 && region_is_whole(&rest);
}

static int pitch_of(const TileInfo *tile)
{
    int64_t columns;
    if (tile->wants_panels)
        return tile->shared.pitch_bytes;
    return expr_as_int(tile->buffer->shape[tile->buffer->rank - 1], &columns) ? (int)columns * dtype_bits(tile->buffer->type) / 8 : 0;
}

bool copy_is_box(Lowering *lo, const TileOp *op)
{
    const TileInfo *const tile = tile_info(lo, op->copy.dst.buffer);
    Box box;
    int64_t first;
    if (lo->target->arch < 90 || !tile || tile->buffer->kind != BUFFER_SHARED || !is_rows_of_tile(&op->copy.dst, &first) || row_padding(tile->buffer) ||
        op->copy.src.buffer->type != tile->buffer->type || !find_box(lo, &op->copy.src, &box))
        return false;
    const int last = box.tensor->rank - 1, size = dtype_bits(box.tensor->type) / 8;
    for (int d = 0; d < last; d++)
        if (box.width[d] > BOX_MAX)
            return false;
    if (region_rank(&op->copy.src) != tile->buffer->rank)
        return false;
    if ((box.cut >= 0 || first > 0) && (tile->buffer->rank != 2 || (box.cut >= 0 ? 1 : first) * pitch_of(tile) % BOX_ALIGN != 0))
        return false;
    if (!starts_at_a_piece(box.tensor, box.start[last]))
        return false;
    return tile->wants_panels || (box.width[last] <= BOX_MAX && box.width[last] * size % 16 == 0);
}

// Rows of statistics and gates: where a box is impossible, or its stride is not known to be aligned, the lanes of one
// warp copy them, so that the kernel needs no second way for all its copies.
bool copy_is_small(Lowering *lo, const TileOp *op)
{
    const TileInfo *const tile = tile_info(lo, op->copy.dst.buffer);
    int64_t extent;
    return lo->target->arch >= 90 && tile && tile->buffer->kind == BUFFER_SHARED && tile->buffer->rank == 1 && !tile->wants_panels &&
           region_is_whole(&op->copy.dst) && op->copy.src.buffer->kind == BUFFER_TENSOR && op->copy.src.buffer->type == tile->buffer->type &&
           dtype_bits(tile->buffer->type) == 32 && expr_as_int(tile->buffer->shape[0], &extent) && extent <= 512 &&
           !(copy_is_box(lo, op) && !strides_are_aligned(lo, op->copy.src.buffer));
}

void emit_lane_copy(Lowering *lo, TileOp *op)
{
    const TileInfo *const tile = tile_info(lo, op->copy.dst.buffer);
    TileOp *const map = as_map(lo, op);
    const LoopIndex *const index = &map->forall.indices[0];
    Var *const i = loop_var(lo, index->var);
    Nest nest;
    begin_for(lo, &nest, i, var_of(lo, lo->lane), i32_const(lo, tile->shared.columns), i32_const(lo, WARP_LANES), LOOP_NO_UNROLL);
    Place place;
    const Expr *const load = map->forall.body->store.value;
    if (place_element(lo, load->load.buffer, load->load.subs, NULL, &place, op->span)) {
        Expr *const four = i32_const(lo, 4);
        emit_call(lo, "cp_async_4", 3, call_expr(lo, DTYPE_U32, "shared_address", 1, expr_address(lo->arena, tile->pointer, var_of(lo, i))),
                  place.inside ? expr_address(lo->arena, place.pointer, expr_select(lo->arena, place.inside, place.at, expr_int(lo->arena, DTYPE_I64, 0)))
                               : expr_address(lo->arena, place.pointer, place.at),
                  place.inside ? expr_select(lo->arena, place.inside, four, i32_const(lo, 0)) : four);
    }
    end_nest(lo, &nest);
}

bool copy_is_cut(Lowering *lo, const TileOp *op)
{
    Box box;
    return copy_is_box(lo, op) && find_box(lo, &op->copy.src, &box) && box.cut >= 0;
}

int tma_bytes(Lowering *lo, const TileOp *op)
{
    Box box;
    int64_t n = dtype_bits(op->copy.src.buffer->type) / 8;
    if (!find_box(lo, &op->copy.src, &box))
        return 0;
    for (int d = 0; d < box.tensor->rank; d++)
        n *= box.width[d];
    return (int)n;
}

static int add_map(Lowering *lo, Buffer *tensor, const int *box, int swizzle)
{
    for (int i = 0; i < lo->maps.count; i++) {
        const TensorMap *const map = lo->maps.items[i];
        if (map->tensor == tensor && map->swizzle == swizzle && memcmp(map->box, box, sizeof map->box) == 0)
            return i;
    }
    TensorMap *const map = NEW(lo->arena, TensorMap, .tensor = tensor, .swizzle = swizzle, .index = lo->maps.count);
    memcpy(map->box, box, sizeof map->box);
    VEC_PUSH(lo->arena, &lo->maps, map);
    return map->index;
}

Expr *map_address(Lowering *lo, int map)
{
    return call_expr(lo, DTYPE_U64, "param_map", 1, i32_const(lo, map));
}

Expr *strides_are_aligned(Lowering *lo, const Buffer *tensor)
{
    Arena *const a = lo->arena;
    const int size = dtype_bits(tensor->type) / 8;
    Expr *stride = int_const(a, 1), *test = NULL;
    for (int d = tensor->rank - 1; d > 0; d--) {
        stride = tensor->stride[0] ? tensor->stride[d - 1] : int_mul(a, stride, tensor->shape[d]);
        if (expr_multiple(stride) * size % 16 == 0)
            continue;
        Expr *const one = expr_binary(a, X_EQ, expr_binary(a, X_MOD, int_mul(a, stride, int_const(a, size)), int_const(a, 16)), int_const(a, 0));
        test = test ? expr_binary(a, X_AND, test, one) : one;
    }
    return test;
}

// name(map, ..., coordinates fastest first)
static void emit_tma_call(Lowering *lo, const char *verb, int rank, Expr *shared, int map, Expr *barrier, Expr **coordinates)
{
    Expr *args[8];
    int n = 0;
    args[n++] = shared;
    args[n++] = map_address(lo, map);
    if (barrier)
        args[n++] = barrier;
    for (int i = 0; i < rank; i++)
        args[n++] = coordinates[i];
    loop_add(lo->out, (LoopStmt){ .kind = L_CALL, .call = {
             expr_call(lo->arena, DTYPE_NONE, arena_printf(lo->arena, "%s_%dd", verb, rank), n, args) } });
}

static bool is_not_negative(Lowering *lo, const Expr *x) { return expr_at_least(x, int_const(lo->arena, 0)); }

static Expr *as_i32(Lowering *lo, Expr *x)
{
    Expr *const value = lower_expr(lo, x, NULL);
    return value->type == DTYPE_I32 ? value : call_expr(lo, DTYPE_I32, lo->wide ? "box_coordinate" : "(int32_t)", 1, value);
}

// Of the first box of a slice, fastest first. `row` and `column` lead from there to the box at hand; row_dim as there.
void slice_coordinates(Lowering *lo, const Region *region, Expr **coordinates, int row_dim, Expr *row, Expr *column)
{
    const int rank = region->buffer->rank;
    for (int i = 0; i < rank; i++) {
        Expr *const start = region->subs[rank - 1 - i].start, *at = as_i32(lo, start);
        at = i == 0 ? i32_add(lo, at, column) : i == row_dim && row ? i32_add(lo, at, row) : at;
        coordinates[i] = is_not_negative(lo, start) ? at : call_expr(lo, DTYPE_I32, "store_coordinate", 1, at);
    }
}

// The map of boxes of this slice whose rows are `columns` elements; the row dimension nearest the last is cut to `rows`
// when rows > 0.
int map_of_slice(Lowering *lo, const Region *region, int columns, int rows, int swizzle)
{
    int64_t widths[MAX_RANK];
    const bool is_box = box_widths(region, widths);
    assert(is_box);
    (void)is_box;
    const int rank = region->buffer->rank;
    int box[5] = { 0 };
    for (int d = 0; d < rank; d++)
        box[rank - 1 - d] = (int)widths[d];
    box[0] = columns;
    for (int i = 1; i < rank && rows > 0; i++)
        if (box[i] > 1) {
            box[i] = rows;
            break;
        }
    return add_map(lo, region->buffer, box, swizzle);
}

// Which part of a copy is this instance's, where the cluster fetches it once: an n-th of the panels or of the slowest
// dimension that is wider than 1. Where neither divides, and where a view may end within the box, so that each part would
// take registers of its own, the instances take copies in turn.
typedef struct Share {
    int n;                           // instances; 1: it is not shared
    int panels;                      // of each instance, where panels are divided; else 0
    int along, width, bytes;         // the divided dimension, a part of it, and the bytes that one fills; along -1: none is
    int whole;                       // the instance that fetches all; -1: each fetches a part
} Share;

static Share share_of(Lowering *lo, const TileInfo *tile, const Box *box)
{
    Share share = { .n = 1, .along = -1, .whole = -1 };
    if (!tile || !tile->is_multicast)
        return share;
    const SharedLayout *const s = &tile->shared;
    const int last = box->tensor->rank - 1, panels = s->columns / s->panel_columns, n = share.n = lo->cluster;
    int slowest = 0;
    while (slowest < last && box->width[slowest] == 1)
        slowest++;
    int64_t bytes = slowest < last ? s->pitch_bytes : dtype_bits(box->tensor->type) / 8;
    for (int d = slowest + 1; d < last; d++)
        bytes *= box->width[d];
    const int64_t width = box->width[slowest] / n;
    if (box->cut >= 0) {
        share.whole = lo->n_turns++ % n;
    } else if (panels % n == 0) {
        share.panels = panels / n;
    } else if (box->width[slowest] % n == 0 && width * bytes % BOX_ALIGN == 0 && (slowest < last || panels == 1)) {
        share.along = slowest;
        share.width = (int)width;
        share.bytes = (int)(width * bytes);
    } else {
        share.whole = lo->n_turns++ % n;
    }
    return share;
}

static Expr *rank_times(Lowering *lo, int bytes)
{
    Expr *const rank = call_expr(lo, DTYPE_U32, "(uint32_t)", 1, var_of(lo, lo->rank));
    return expr_binary(lo->arena, X_MUL, rank, expr_int(lo->arena, DTYPE_U32, bytes));
}

// Maps of the same columns and 1, 4, 16 ... and at last all rows along the dimension that is cut, one after the other.
// Returns the first.
static int maps_of_cut(Lowering *lo, const Box *box, int columns, int swizzle)
{
    const int rank = box->tensor->rank, along = rank - 1 - box->cut;
    int shape[5] = { 0 }, n = 0;
    for (int d = 0; d < rank; d++)
        shape[rank - 1 - d] = (int)box->width[d];
    shape[0] = columns;
    int rows[6];
    for (int r = 1; r < box->width[box->cut]; r *= 4)
        rows[n++] = r;
    rows[n++] = (int)box->width[box->cut];
    for (int i = 0; i + n <= lo->maps.count; i++) {
        bool same = true;
        for (int k = 0; k < n && same; k++) {
            const TensorMap *const map = lo->maps.items[i + k];
            shape[along] = rows[k];
            same = map->tensor == box->tensor && map->swizzle == swizzle && memcmp(map->box, shape, sizeof shape) == 0;
        }
        if (same)
            return i;
    }
    const int first = lo->maps.count;
    for (int k = 0; k < n; k++) {
        TensorMap *const map = NEW(lo->arena, TensorMap, .tensor = box->tensor, .swizzle = swizzle, .index = lo->maps.count);
        shape[along] = rows[k];
        memcpy(map->box, shape, sizeof shape);
        VEC_PUSH(lo->arena, &lo->maps, map);
    }
    return first;
}

// A coordinate from arithmetic on what tensors hold may leave 32 bits: it stays outside then.
static Expr *coordinate(Lowering *lo, Expr *x, bool plain)
{
    Expr *const value = lower_expr(lo, x, NULL);
    return value->type == DTYPE_I32 ? value : call_expr(lo, DTYPE_I32, plain && !lo->wide ? "(int32_t)" : "box_coordinate", 1, value);
}

// channel NULL: the box is only asked for, so that it will be in the L2 cache; one that is cut is left out.
static void emit_box(Lowering *lo, TileOp *op, const Channel *channel)
{
    const TileInfo *const tile = tile_info(lo, op->copy.dst.buffer);
    Arena *const a = lo->arena;
    Box box;
    int64_t first;
    if (!find_box(lo, &op->copy.src, &box) || !is_rows_of_tile(&op->copy.dst, &first))
        return;
    const int rank = box.tensor->rank;
    const bool is_cut = box.cut >= 0, plain = op->copy.src.buffer->kind == BUFFER_TENSOR;
    const SharedLayout *const s = &tile->shared;
    const Share share = share_of(lo, channel ? tile : NULL, &box);
    const int panels = share.panels ? share.panels : s->columns / s->panel_columns;
    if (share.along >= 0)
        box.width[share.along] = share.width;
    int map;
    if (is_cut) {
        map = maps_of_cut(lo, &box, s->panel_columns, s->swizzle_bytes);
    } else {
        int shape[5] = { 0 };
        for (int d = 0; d < rank; d++)
            shape[rank - 1 - d] = (int)box.width[d];
        if (share.along != rank - 1)
            shape[0] = s->panel_columns;
        map = add_map(lo, box.tensor, shape, s->swizzle_bytes);
    }
    Expr *base = call_expr(lo, DTYPE_U32, "shared_address", 1, var_of(lo, tile->pointer));
    Expr *const barrier = channel ? full_barrier(lo, channel) : NULL;
    Expr *at[5];
    for (int d = 0; d < rank; d++)
        at[rank - 1 - d] = coordinate(lo, box.start[d], plain);
    if (share.along >= 0) {
        at[rank - 1 - share.along] = i32_add(lo, at[rank - 1 - share.along], i32_mul(lo, var_of(lo, lo->rank), share.width));
        base = expr_binary(a, X_ADD, base, rank_times(lo, share.bytes));
    } else if (share.panels) {
        at[0] = i32_add(lo, at[0], i32_mul(lo, var_of(lo, lo->rank), share.panels * s->panel_columns));
        base = expr_binary(a, X_ADD, base, rank_times(lo, share.panels * s->panel_bytes));
    }
    Var *skip = NULL, *rows = NULL, *whole = NULL;
    if (is_cut) {
        for (int i = 0; i < rank; i++)
            at[i] = var_of(lo, emit_declare(lo, DTYPE_I32, "box_at", at[i]));
        skip = emit_declare(lo, DTYPE_I32, "box_skip", coordinate(lo, box.skip, false));
        rows = emit_declare(lo, DTYPE_I32, "box_rows", coordinate(lo, box.rows, false));
        whole = emit_declare(lo, DTYPE_BOOL, "box_is_whole", call_expr(lo, DTYPE_BOOL, arena_printf(a, "is_whole<%d>", (int)box.width[box.cut]),
                             2, var_of(lo, skip), var_of(lo, rows)));
    }
    if (channel)
        open_channel(lo);
    Nest one;
    if (share.whole >= 0)
        begin_if(lo, &one, expr_binary(a, X_EQ, cluster_rank(lo), i32_const(lo, share.whole)));
    const bool at_once = is_cut && channel;          // all panels in one call
    for (int panel = 0; panel < (at_once ? 1 : panels); panel++) {
        Expr *from[5];
        memcpy(from, at, sizeof from);
        from[0] = i32_add(lo, at[0], i32_const(lo, panel * s->panel_columns));
        const int offset = panel * s->panel_bytes + (int)first * s->pitch_bytes;
        Expr *const dst = expr_binary(a, X_ADD, base, expr_int(a, DTYPE_U32, offset));
        if (!is_cut && channel && share.n == 1) {
            emit_tma_call(lo, "tma_load", rank, dst, map, barrier, from);
            continue;
        }
        Expr *args[11];
        int n = 0;
        if (channel)
            args[n++] = dst;
        args[n++] = map_address(lo, map);
        if (channel)
            args[n++] = barrier;
        if (is_cut) {
            args[n++] = var_of(lo, whole);
            if (channel) {
                args[n++] = var_of(lo, skip);
                args[n++] = var_of(lo, rows);
            }
        }
        memcpy(args + n, from, sizeof(Expr *) * (size_t)rank);
        const int width = is_cut ? (int)box.width[box.cut] : 0;
        const char *const mask = share.n > 1 ? arena_printf(a, ", %d", (1 << share.n) - 1) : "";
        const char *const name = at_once ? arena_printf(a, "tma_load_rows<%d, %d, %d, %d, %d, %d%s>", width, s->pitch_bytes, rank - 1 - box.cut,
                                                        panels, s->panel_bytes, s->panel_columns, mask)
                               : channel ? arena_printf(a, "tma_multicast<%s>", mask + 2)
                               : is_cut ? arena_printf(a, "tma_ask_rows<%d>", width) : "tma_ask";
        loop_add(lo->out, (LoopStmt){ .kind = L_CALL, .call = { expr_call(a, DTYPE_NONE, name, n + rank, args) } });
    }
    if (share.whole >= 0)
        end_nest(lo, &one);
}

void emit_tma_load(Lowering *lo, TileOp *op, Channel *channel) { emit_box(lo, op, channel); }

void emit_tma_ask(Lowering *lo, TileOp *op) { emit_box(lo, op, NULL); }

// Can a fragment's slice be stored as boxes of so many rows and columns?
//
// A negative coordinate is an illegal instruction in stores, in copies it is not: where it may be negative the store is
// sent past the tensor's end instead, which is right if no box begins before the tensor and ends in it.
bool slice_is_box(Lowering *lo, const Region *region, int rows, int columns)
{
    int64_t widths[MAX_RANK];
    if (lo->target->arch < 90 || !box_widths(region, widths) || has_large_extents(lo, region->buffer))
        return false;
    for (int d = 0; d < region->buffer->rank; d++) {
        const Expr *const start = region->subs[d].start;
        const int extent = d == region->buffer->rank - 1 ? columns : region->subs[d].is_range ? rows : 1;
        if (!is_not_negative(lo, start) && expr_multiple(start) % extent != 0)
            return false;
    }
    return true;
}
