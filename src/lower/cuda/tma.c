// SPDX-License-Identifier: MIT
// tma.c - printing: coordinates of boxes, and their copies from tensors to shared memory, by tensor maps.
//
// A tile with panels takes one box per panel. A box that its view may cut is copied as boxes of 1, 4, 16 ... rows,
// those outside the view from beyond the tensor, which TMA fills with zeros and does not read.
#include "lower/cuda/actions.h"
#include "lower/cuda/box.h"
#include "lower/cuda/grid.h"
#include "lower/cuda/print.h"
#include "lower/cuda/print_action.h"

Expr *map_address(Lowering *lo, int map) { return call_expr(lo, DTYPE_U64, "param_map", 1, i32_const(lo, map)); }

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

// ---- copies

static Expr *rank_times(Lowering *lo, int bytes)
{
    Expr *const rank = call_expr(lo, DTYPE_U32, "(uint32_t)", 1, var_of(lo, lo->rank));
    return expr_binary(lo->arena, X_MUL, rank, u32_const(lo, bytes));
}

// A copy's boxes as they are printed.
typedef struct Load {
    const BoxCopy *copy;
    int rank, panels;
    int offset; // bytes from the tile's beginning
    Expr *base, *barrier;
    Expr *at[BOX_RANK];       // of the first panel, the fastest dimension first
    Var *skip, *rows, *whole; // of a cut box
} Load;

static bool is_cut(const BoxCopy *copy) { return copy->box.cut >= 0; }

// To this CTA's part.
static void point_share(Lowering *lo, Load *load)
{
    const Share *const share = &load->copy->share;
    const SharedLayout *const s = &load->copy->tile->shared;
    const int i = share->along >= 0 ? load->rank - 1 - share->along : 0;
    const int width = share->along >= 0 ? share->width : share->panels * s->panel_columns;
    const int bytes = share->along >= 0 ? share->bytes : share->panels * s->panel_bytes;
    if (share->along < 0 && !share->panels) return;
    load->at[i] = i32_add(lo, load->at[i], i32_mul(lo, var_of(lo, lo->rank), width));
    load->base = expr_binary(lo->arena, X_ADD, load->base, rank_times(lo, bytes));
}

static void declare_cut(Lowering *lo, Load *load)
{
    const Box *const box = &load->copy->box;
    for (int i = 0; i < load->rank; i++) load->at[i] = var_of(lo, emit_declare(lo, DTYPE_I32, "box_at", load->at[i]));
    load->skip = emit_declare(lo, DTYPE_I32, "box_skip", coordinate(lo, box->skip, false));
    load->rows = emit_declare(lo, DTYPE_I32, "box_rows", coordinate(lo, box->rows, false));
    const char *const is_whole = arena_printf(lo->arena, "is_whole<%d>", (int)box->width[box->cut]);
    load->whole = emit_declare(lo, DTYPE_BOOL, "box_is_whole",
                               call_expr(lo, DTYPE_BOOL, is_whole, 2, var_of(lo, load->skip), var_of(lo, load->rows)));
}

static Load point_load(Lowering *lo, const BoxCopy *copy)
{
    const SharedLayout *const s = &copy->tile->shared;
    const Share *const share = &copy->share;
    Load load = { .copy = copy, .rank = copy->box.tensor->rank };
    load.panels = share->panels ? share->panels : s->columns / s->panel_columns;
    load.offset = copy->first * s->pitch_bytes;
    load.base = call_expr(lo, DTYPE_U32, "shared_address", 1, var_of(lo, copy->tile->pointer));
    load.barrier = copy->ring ? full_barrier(lo, copy->ring) : NULL;
    for (int d = 0; d < load.rank; d++)
        load.at[load.rank - 1 - d] = coordinate(lo, copy->box.start[d], copy->of_tensor);
    point_share(lo, &load);
    if (is_cut(copy)) declare_cut(lo, &load);
    return load;
}

static const char *name_of_load(Lowering *lo, const Load *load)
{
    Arena *const a = lo->arena;
    const SharedLayout *const s = &load->copy->tile->shared;
    const int n = load->copy->share.n, width = is_cut(load->copy) ? (int)load->copy->box.width[load->copy->box.cut] : 0;
    if (!load->copy->ring) return is_cut(load->copy) ? arena_printf(a, "tma_prefetch_rows<%d>", width) : "tma_prefetch";
    if (is_cut(load->copy))
        return arena_printf(a, "tma_load_rows<%d, %d, %d, %d, %d, %d%s>", width, s->pitch_bytes,
                            load->rank - 1 - load->copy->box.cut, load->panels, s->panel_bytes, s->panel_columns,
                            n > 1 ? arena_printf(a, ", %d", (1 << n) - 1) : "");
    return n > 1 ? arena_printf(a, "tma_multicast<%d>", (1 << n) - 1) : arena_printf(a, "tma_load_%dd", load->rank);
}

// name(to, map, barrier, whether it is whole, what is cut, coordinates)
static void emit_panel(Lowering *lo, const Load *load, int panel)
{
    Arena *const a = lo->arena;
    const SharedLayout *const s = &load->copy->tile->shared;
    Expr *args[6 + BOX_RANK];
    int n = 0;
    if (load->copy->ring)
        args[n++] = expr_binary(a, X_ADD, load->base, u32_const(lo, panel * s->panel_bytes + load->offset));
    args[n++] = map_address(lo, load->copy->map);
    if (load->copy->ring) args[n++] = load->barrier;
    if (is_cut(load->copy)) args[n++] = var_of(lo, load->whole);
    if (is_cut(load->copy) && load->copy->ring) {
        args[n++] = var_of(lo, load->skip);
        args[n++] = var_of(lo, load->rows);
    }
    memcpy(args + n, load->at, sizeof(Expr *) * (size_t)load->rank);
    args[n] = i32_add(lo, load->at[0], i32_const(lo, panel * s->panel_columns));
    emit_call_if(lo, NULL, expr_call(a, DTYPE_NONE, name_of_load(lo, load), n + load->rank, args));
}

// Its parts are what it does to wait for its slot.
void print_box_copy(Lowering *lo, const BoxCopy *copy)
{
    Nest one;
    const Load load = point_load(lo, copy);
    if (copy->opens) print_parts_through(lo, ACTION_DECLARE);
    if (copy->share.whole >= 0) begin_if(lo, &one, i32_op(lo, X_EQ, cluster_rank(lo), copy->share.whole));
    const bool at_once = is_cut(copy) && copy->ring; // all panels in one call
    for (int panel = 0; panel < (at_once ? 1 : load.panels); panel++) emit_panel(lo, &load, panel);
    if (copy->share.whole >= 0) end_nest(lo, &one);
}
