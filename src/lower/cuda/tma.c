// tma.c - copies of boxes between tensors and shared memory by the tensor memory accelerator.
//
// A slice is a box if every subscript is an index or a range of constant width and step 1 and the last dimension is
// a range of whole 16-byte pieces. A tile with panels takes one box per panel. The tensor's strides must be
// multiples of 16 bytes: where shapes do not prove it, kernels test it once per launch and fall back.
#include "lower/cuda/cuda.h"

#include <assert.h>

enum { BOX_MAX = 256 };              // elements along each dimension of a box

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
    return region->subs[tensor->rank - 1].is_range;
}

bool copy_is_box(Lowering *lo, const TileOp *op)
{
    const TileInfo *const tile = tile_info(lo, op->copy.dst.buffer);
    int64_t widths[MAX_RANK];
    if (lo->target->arch < 90 || !tile || tile->buffer->kind != BUFFER_SHARED || !region_is_whole(&op->copy.dst) ||
        op->copy.src.buffer->type != tile->buffer->type || !box_widths(&op->copy.src, widths))
        return false;
    const Buffer *const tensor = op->copy.src.buffer;
    const int last = tensor->rank - 1, size = dtype_bits(tensor->type) / 8;
    for (int d = 0; d < last; d++)
        if (widths[d] > BOX_MAX)
            return false;
    if (region_rank(&op->copy.src) != tile->buffer->rank)
        return false;
    return tile->wants_panels || (widths[last] <= BOX_MAX && widths[last] * size % 16 == 0);
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

int tma_bytes(Lowering *lo, const TileOp *op)
{
    int64_t widths[MAX_RANK];
    box_widths(&op->copy.src, widths);
    int64_t n = dtype_bits(op->copy.src.buffer->type) / 8;
    for (int d = 0; d < op->copy.src.buffer->rank; d++)
        n *= widths[d];
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
        stride = int_mul(a, stride, tensor->shape[d]);
        if (expr_multiple(stride) * size % 16 == 0)
            continue;
        Expr *const one = expr_binary(a, X_EQ, expr_binary(a, X_MOD, int_mul(a, stride, int_const(a, size)), int_const(a, 16)), int_const(a, 0));
        test = test ? expr_binary(a, X_AND, test, one) : one;
    }
    return test;
}

// name(map, ..., coordinates fastest first)
void emit_tma_call(Lowering *lo, const char *verb, int rank, Expr *shared, int map, Expr *barrier, Expr **coordinates)
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

static Expr *as_i32(Lowering *lo, Expr *x)
{
    Expr *const value = lower_expr(lo, x, NULL);
    return value->type == DTYPE_I32 ? value : call_expr(lo, DTYPE_I32, "(int32_t)", 1, value);
}

void slice_coordinates(Lowering *lo, const Region *region, Expr **coordinates)
{
    const int rank = region->buffer->rank;
    for (int d = 0; d < rank; d++)
        coordinates[rank - 1 - d] = as_i32(lo, region->subs[d].start);
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

void emit_tma_load(Lowering *lo, TileOp *op, Channel *channel)
{
    const TileInfo *const tile = tile_info(lo, op->copy.dst.buffer);
    const int rank = op->copy.src.buffer->rank;
    const SharedLayout *const s = &tile->shared;
    const int panels = s->columns / s->panel_columns;
    const int map = map_of_slice(lo, &op->copy.src, s->panel_columns, 0, s->swizzle_bytes);
    Expr *const base = call_expr(lo, DTYPE_U32, "shared_address", 1, var_of(lo, tile->pointer));
    Expr *const barrier = full_barrier(lo, channel);
    for (int panel = 0; panel < panels; panel++) {
        Expr *at[5];
        slice_coordinates(lo, &op->copy.src, at);
        at[0] = i32_add(lo, at[0], i32_const(lo, panel * s->panel_columns));
        Expr *const dst = expr_binary(lo->arena, X_ADD, base, expr_int(lo->arena, DTYPE_U32, panel * s->panel_bytes));
        emit_tma_call(lo, "tma_load", rank, dst, map, barrier, at);
    }
}

// Can a fragment's slice be stored as boxes?
bool slice_is_box(Lowering *lo, const Region *region)
{
    int64_t widths[MAX_RANK];
    return lo->target->arch >= 90 && box_widths(region, widths);
}
