// SPDX-License-Identifier: MIT
// tma.c - tensor maps, and the copies of boxes between tensors and shared memory that go by them.
//
// A tile with panels takes one box per panel. A box that its view may cut is copied as boxes of 1, 4, 16 ... rows,
// those outside the view from beyond the tensor, which TMA fills with zeros and does not read.
#include "lower/cuda/box.h"

#include <assert.h>

// ---- maps

static bool is_same_map(const TensorMap *map, const Buffer *tensor, const int *shape, int swizzle)
{
    return map->tensor == tensor && map->swizzle == swizzle && memcmp(map->box, shape, sizeof map->box) == 0;
}

static int new_map(Lowering *lo, Buffer *tensor, const int *shape, int swizzle)
{
    TensorMap *const map = NEW(lo->arena, TensorMap, .tensor = tensor, .swizzle = swizzle, .index = lo->maps.count);
    memcpy(map->box, shape, sizeof map->box);
    VEC_PUSH(lo->arena, &lo->maps, map);
    return map->index;
}

static int add_map(Lowering *lo, Buffer *tensor, const int *shape, int swizzle)
{
    for (int i = 0; i < lo->maps.count; i++)
        if (is_same_map(lo->maps.items[i], tensor, shape, swizzle)) return i;
    return new_map(lo, tensor, shape, swizzle);
}

Expr *map_address(Lowering *lo, int map) { return call_expr(lo, DTYPE_U64, "param_map", 1, i32_const(lo, map)); }

// Widths of a box as a map has them: the fastest dimension first.
static void reverse_widths(const int64_t *widths, int rank, int *shape)
{
    for (int d = 0; d < rank; d++) shape[rank - 1 - d] = (int)widths[d];
}

int map_of_slice(Lowering *lo, const Region *region, int columns, int rows, int swizzle)
{
    int64_t widths[MAX_RANK];
    const bool is_box = box_widths(lo, region, widths);
    assert(is_box);
    (void)is_box;
    const int rank = region->buffer->rank;
    int shape[BOX_RANK] = { 0 };
    reverse_widths(widths, rank, shape);
    shape[0] = columns;
    for (int i = 1; i < rank && rows > 0; i++)
        if (shape[i] > 1) {
            shape[i] = rows;
            break;
        }
    return add_map(lo, region->buffer, shape, swizzle);
}

// Maps of the same columns and 1, 4, 16 ... and at last all rows along the dimension that is cut, one after the other.
// Returns the first.
static int maps_of_cut(Lowering *lo, const Box *box, int columns, int swizzle)
{
    const int rank = box->tensor->rank, along = rank - 1 - box->cut;
    int shape[BOX_RANK] = { 0 }, rows[6], n = 0;
    reverse_widths(box->width, rank, shape);
    shape[0] = columns;
    for (int r = 1; r < box->width[box->cut]; r *= 4) rows[n++] = r;
    rows[n++] = (int)box->width[box->cut];
    for (int i = 0; i + n <= lo->maps.count; i++) {
        bool same = true;
        for (int k = 0; k < n && same; k++) {
            shape[along] = rows[k];
            same = is_same_map(lo->maps.items[i + k], box->tensor, shape, swizzle);
        }
        if (same) return i;
    }
    const int first = lo->maps.count;
    for (int k = 0; k < n; k++) {
        shape[along] = rows[k];
        new_map(lo, box->tensor, shape, swizzle);
    }
    return first;
}

// ---- coordinates

// What arithmetic on what tensors hold makes may leave 32 bits: it stays outside the tensor then.
static Expr *coordinate(Lowering *lo, Expr *x, bool plain)
{
    Expr *const value = lower_expr(lo, x, NULL);
    return value->type == DTYPE_I32
               ? value
               : call_expr(lo, DTYPE_I32, plain && !lo->wide ? "(int32_t)" : "box_coordinate", 1, value);
}

void slice_coordinates(Lowering *lo, const Region *region, Expr **coordinates, int row_dim, Expr *row, Expr *column)
{
    const int rank = region->buffer->rank;
    for (int i = 0; i < rank; i++) {
        Expr *const start = region->subs[rank - 1 - i].start, *at = coordinate(lo, start, true);
        at = i == 0 ? i32_add(lo, at, column) : i == row_dim && row ? i32_add(lo, at, row) : at;
        coordinates[i] = is_not_negative(lo, start) ? at : call_expr(lo, DTYPE_I32, "store_coordinate", 1, at);
    }
}

// ---- what a CTA of a cluster copies

// Which part of a copy is this CTA's, where the cluster fetches it once: an n-th of the panels or of the slowest
// dimension that is wider than 1. Where neither divides, and where a view may end within the box, so that each part
// would take registers of its own, the CTAs take copies in turn.
typedef struct Share {
    int n;                   // CTAs; 1: it is not shared
    int panels;              // of each CTA, where panels are divided; else 0
    int along, width, bytes; // the divided dimension, a part of it, and the bytes that one fills; -1: none is
    int whole;               // the CTA that fetches all; -1: each fetches a part
} Share;

static Share share_of(Lowering *lo, const TileInfo *tile, const Box *box)
{
    Share share = { .n = 1, .along = -1, .whole = -1 };
    if (!tile || !tile->is_multicast) return share;
    const SharedLayout *const s = &tile->shared;
    const int last = box->tensor->rank - 1, panels = s->columns / s->panel_columns, n = share.n = lo->cluster;
    int slowest = 0;
    while (slowest < last && box->width[slowest] == 1) slowest++;
    int64_t bytes = slowest < last ? s->pitch_bytes : dtype_bits(box->tensor->type) / 8;
    for (int d = slowest + 1; d < last; d++) bytes *= box->width[d];
    const int64_t width = box->width[slowest] / n;
    if (box->cut >= 0) {
        share.whole = lo->n_alternating++ % n;
    } else if (panels % n == 0) {
        share.panels = panels / n;
    } else if (box->width[slowest] % n == 0 && width * bytes % BOX_ALIGN == 0 && (slowest < last || panels == 1)) {
        share.along = slowest;
        share.width = (int)width;
        share.bytes = (int)(width * bytes);
    } else {
        share.whole = lo->n_alternating++ % n;
    }
    return share;
}

static Expr *rank_times(Lowering *lo, int bytes)
{
    Expr *const rank = call_expr(lo, DTYPE_U32, "(uint32_t)", 1, var_of(lo, lo->rank));
    return expr_binary(lo->arena, X_MUL, rank, u32_const(lo, bytes));
}

// ---- copies

// A copy's boxes as they are printed.
typedef struct Load {
    const TileInfo *tile;
    const Ring *ring; // NULL: the box is only prefetched
    Box box;          // this CTA's part
    Share share;
    int rank, panels, map; // map: of a cut box the first
    int offset;            // bytes from the tile's beginning
    Expr *base, *barrier;
    Expr *at[BOX_RANK];       // of the first panel, the fastest dimension first
    Var *skip, *rows, *whole; // of a cut box
} Load;

static bool is_cut(const Load *load) { return load->box.cut >= 0; }

static int map_of_load(Lowering *lo, const Load *load)
{
    const SharedLayout *const s = &load->tile->shared;
    int shape[BOX_RANK] = { 0 };
    if (is_cut(load)) return maps_of_cut(lo, &load->box, s->panel_columns, s->swizzle_bytes);
    reverse_widths(load->box.width, load->rank, shape);
    if (load->share.along != load->rank - 1) shape[0] = s->panel_columns;
    return add_map(lo, load->box.tensor, shape, s->swizzle_bytes);
}

// To this CTA's part.
static void point_share(Lowering *lo, Load *load)
{
    const Share *const share = &load->share;
    const SharedLayout *const s = &load->tile->shared;
    const int i = share->along >= 0 ? load->rank - 1 - share->along : 0;
    const int width = share->along >= 0 ? share->width : share->panels * s->panel_columns;
    const int bytes = share->along >= 0 ? share->bytes : share->panels * s->panel_bytes;
    if (share->along < 0 && !share->panels) return;
    load->at[i] = i32_add(lo, load->at[i], i32_mul(lo, var_of(lo, lo->rank), width));
    load->base = expr_binary(lo->arena, X_ADD, load->base, rank_times(lo, bytes));
}

static void declare_cut(Lowering *lo, Load *load)
{
    const Box *const box = &load->box;
    for (int i = 0; i < load->rank; i++) load->at[i] = var_of(lo, emit_declare(lo, DTYPE_I32, "box_at", load->at[i]));
    load->skip = emit_declare(lo, DTYPE_I32, "box_skip", coordinate(lo, box->skip, false));
    load->rows = emit_declare(lo, DTYPE_I32, "box_rows", coordinate(lo, box->rows, false));
    const char *const is_whole = arena_printf(lo->arena, "is_whole<%d>", (int)box->width[box->cut]);
    load->whole = emit_declare(lo, DTYPE_BOOL, "box_is_whole",
                               call_expr(lo, DTYPE_BOOL, is_whole, 2, var_of(lo, load->skip), var_of(lo, load->rows)));
}

static bool point_load(Lowering *lo, TileOp *op, const Ring *ring, Load *load)
{
    int64_t first;
    *load = (Load){ .tile = tile_info(lo, op->copy.dst.buffer), .ring = ring };
    if (!find_box(lo, &op->copy.src, &load->box) || !is_rows_of_tile(&op->copy.dst, &first)) return false;
    const SharedLayout *const s = &load->tile->shared;
    const Share *const share = &load->share;
    load->rank = load->box.tensor->rank;
    load->share = share_of(lo, ring ? load->tile : NULL, &load->box);
    load->panels = share->panels ? share->panels : s->columns / s->panel_columns;
    load->offset = (int)first * s->pitch_bytes;
    if (share->along >= 0) load->box.width[share->along] = share->width;
    load->map = map_of_load(lo, load);
    load->base = call_expr(lo, DTYPE_U32, "shared_address", 1, var_of(lo, load->tile->pointer));
    load->barrier = ring ? full_barrier(lo, ring) : NULL;
    for (int d = 0; d < load->rank; d++)
        load->at[load->rank - 1 - d] = coordinate(lo, load->box.start[d], op->copy.src.buffer->kind == BUFFER_TENSOR);
    point_share(lo, load);
    if (is_cut(load)) declare_cut(lo, load);
    return true;
}

static const char *name_of_load(Lowering *lo, const Load *load)
{
    Arena *const a = lo->arena;
    const SharedLayout *const s = &load->tile->shared;
    const int n = load->share.n, width = is_cut(load) ? (int)load->box.width[load->box.cut] : 0;
    if (!load->ring) return is_cut(load) ? arena_printf(a, "tma_prefetch_rows<%d>", width) : "tma_prefetch";
    if (is_cut(load))
        return arena_printf(a, "tma_load_rows<%d, %d, %d, %d, %d, %d%s>", width, s->pitch_bytes,
                            load->rank - 1 - load->box.cut, load->panels, s->panel_bytes, s->panel_columns,
                            n > 1 ? arena_printf(a, ", %d", (1 << n) - 1) : "");
    return n > 1 ? arena_printf(a, "tma_multicast<%d>", (1 << n) - 1) : arena_printf(a, "tma_load_%dd", load->rank);
}

// name(to, map, barrier, whether it is whole, what is cut, coordinates)
static void emit_panel(Lowering *lo, const Load *load, int panel)
{
    Arena *const a = lo->arena;
    const SharedLayout *const s = &load->tile->shared;
    Expr *args[6 + BOX_RANK];
    int n = 0;
    if (load->ring) args[n++] = expr_binary(a, X_ADD, load->base, u32_const(lo, panel * s->panel_bytes + load->offset));
    args[n++] = map_address(lo, load->map);
    if (load->ring) args[n++] = load->barrier;
    if (is_cut(load)) args[n++] = var_of(lo, load->whole);
    if (is_cut(load) && load->ring) {
        args[n++] = var_of(lo, load->skip);
        args[n++] = var_of(lo, load->rows);
    }
    memcpy(args + n, load->at, sizeof(Expr *) * (size_t)load->rank);
    args[n] = i32_add(lo, load->at[0], i32_const(lo, panel * s->panel_columns));
    emit_call_if(lo, NULL, expr_call(a, DTYPE_NONE, name_of_load(lo, load), n + load->rank, args));
}

static void emit_load(Lowering *lo, TileOp *op, const Ring *ring)
{
    Load load;
    Nest one;
    if (!point_load(lo, op, ring, &load)) return;
    if (ring) open_ring(lo);
    if (load.share.whole >= 0) begin_if(lo, &one, i32_op(lo, X_EQ, cluster_rank(lo), load.share.whole));
    const bool at_once = is_cut(&load) && ring; // all panels in one call
    for (int panel = 0; panel < (at_once ? 1 : load.panels); panel++) emit_panel(lo, &load, panel);
    if (load.share.whole >= 0) end_nest(lo, &one);
}

void emit_tma_load(Lowering *lo, TileOp *op, Ring *ring) { emit_load(lo, op, ring); }

void emit_tma_prefetch(Lowering *lo, TileOp *op) { emit_load(lo, op, NULL); }
