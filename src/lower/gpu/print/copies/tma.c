// SPDX-License-Identifier: MIT
// tma.c - printing: coordinates of boxes, and their copies from tensors to shared memory, by tensor maps.
//
// A tile with panels takes one box per panel. A box that its view may cut is copied as boxes of 1, 4, 16 ... rows,
// those outside the view from beyond the tensor, which TMA fills with zeros and does not read.
#include "lower/gpu/print/copies/tma.h"
#include "lower/gpu/print/build/parts.h"
#include "lower/gpu/print/expressions/expressions.h"
#include "lower/gpu/print/rings/print_rings.h"
#include "lower/gpu/print/control/grid.h"
#include "lower/gpu/facts/box.h"

Expr *map_address(Printer *pr, int map) { return call_expr(pr, DTYPE_U64, "param_map", 1, i32_const(pr, map)); }

// ---- coordinates

// What arithmetic on what tensors hold makes may leave 32 bits: it stays outside the tensor then.
static Expr *coordinate(Printer *pr, Expr *x, bool plain)
{
    Expr *const value = lower_expr(pr, x, NULL);
    return value->type == DTYPE_I32
               ? value
               : call_expr(pr, DTYPE_I32, plain && !pr->lo->wide ? "(int32_t)" : "box_coordinate", 1, value);
}

void slice_coordinates(Printer *pr, const Region *region, Expr **coordinates, Expr *const *rows, Expr *column)
{
    const int rank = region->buffer->rank;
    for (int i = 0; i < rank; i++) {
        Expr *const start = region->subs[rank - 1 - i].start, *at = coordinate(pr, start, true);
        at = i == 0 ? i32_add(pr, at, column) : rows && rows[i] ? i32_add(pr, at, rows[i]) : at;
        coordinates[i] = is_not_negative(pr->lo, start) ? at : call_expr(pr, DTYPE_I32, "store_coordinate", 1, at);
    }
}

// ---- copies

static Expr *rank_times(Printer *pr, int bytes)
{
    Expr *const rank = call_expr(pr, DTYPE_U32, "(uint32_t)", 1, var_of(pr, pr->rank));
    return expr_binary(pr->arena, X_MUL, rank, u32_const(pr, bytes));
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
static void point_share(Printer *pr, Load *load)
{
    const Share *const share = &load->copy->share;
    const SharedLayout *const s = &load->copy->tile->shared;
    const int i = share->along >= 0 ? load->rank - 1 - share->along : 0;
    const int width = share->along >= 0 ? share->width : share->panels * s->panel_columns;
    const int bytes = share->along >= 0 ? share->bytes : share->panels * s->panel_bytes;
    if (share->along < 0 && !share->panels) return;
    load->at[i] = i32_add(pr, load->at[i], i32_mul(pr, var_of(pr, pr->rank), width));
    load->base = expr_binary(pr->arena, X_ADD, load->base, rank_times(pr, bytes));
}

static void declare_cut(Printer *pr, Load *load)
{
    const Box *const box = &load->copy->box;
    for (int i = 0; i < load->rank; i++) load->at[i] = var_of(pr, emit_declare(pr, DTYPE_I32, "box_at", load->at[i]));
    load->skip = emit_declare(pr, DTYPE_I32, "box_skip", coordinate(pr, box->skip, false));
    load->rows = emit_declare(pr, DTYPE_I32, "box_rows", coordinate(pr, box->rows, false));
    const char *const is_whole = arena_printf(pr->arena, "is_whole<%d>", (int)box->width[box->cut]);
    load->whole = emit_declare(pr, DTYPE_BOOL, "box_is_whole",
                               call_expr(pr, DTYPE_BOOL, is_whole, 2, var_of(pr, load->skip), var_of(pr, load->rows)));
}

static Load point_load(Printer *pr, const BoxCopy *copy)
{
    const SharedLayout *const s = &copy->tile->shared;
    const Share *const share = &copy->share;
    Load load = { .copy = copy, .rank = copy->box.tensor->rank };
    load.panels = share->panels ? share->panels : s->columns / s->panel_columns;
    load.base = call_expr(pr, DTYPE_U32, "shared_address", 1, var_of(pr, tile_vars(pr, copy->tile)->pointer));
    int64_t first = 0;
    if (copy->first && !expr_as_int(copy->first, &first)) {
        Expr *const bytes = i32_mul(pr, cast(pr, DTYPE_I32, lower_expr(pr, copy->first, NULL)), s->pitch_bytes);
        load.base = expr_binary(pr->arena, X_ADD, load.base, cast(pr, DTYPE_U32, bytes));
    }
    load.offset = (int)first * s->pitch_bytes;
    load.barrier = copy->ring ? full_barrier(pr, copy->ring) : NULL;
    for (int d = 0; d < load.rank; d++)
        load.at[load.rank - 1 - d] = coordinate(pr, copy->box.start[d], copy->of_tensor);
    point_share(pr, &load);
    if (is_cut(copy)) declare_cut(pr, &load);
    return load;
}

// Maps of a cut box are of 1, 4, 16 ... rows; the last is of all.
static int map_of_all_rows(const BoxCopy *copy)
{
    int map = copy->map;
    for (int rows = 1; rows < copy->box.width[copy->box.cut]; rows *= 4) map++;
    return map;
}

static const char *name_of_load(Printer *pr, const Load *load, bool is_whole)
{
    Arena *const a = pr->arena;
    const SharedLayout *const s = &load->copy->tile->shared;
    if (is_whole) return arena_printf(a, "tma_load_%dd", load->rank);
    if (load->copy->im2col) return arena_printf(a, "tma_load_im2col_%dd", load->rank);
    const int n = load->copy->share.n, width = is_cut(load->copy) ? (int)load->copy->box.width[load->copy->box.cut] : 0;
    if (!load->copy->ring) return is_cut(load->copy) ? arena_printf(a, "tma_prefetch_rows<%d>", width) : "tma_prefetch";
    if (is_cut(load->copy))
        return arena_printf(a, "tma_load_rows<%d, %d, %d, %d, %d, %d%s>", width, s->pitch_bytes,
                            load->rank - 1 - load->copy->box.cut, load->panels, s->panel_bytes, s->panel_columns,
                            n > 1 ? arena_printf(a, ", %d", (1 << n) - 1) : "");
    return n > 1 ? arena_printf(a, "tma_multicast<%d>", (1 << n) - 1) : arena_printf(a, "tma_load_%dd", load->rank);
}

// name(to, map, barrier, whether it is whole, what is cut, coordinates, offsets); is_whole: of a cut box, it is known to be
static void emit_panel(Printer *pr, const Load *load, int panel, bool is_whole)
{
    Arena *const a = pr->arena;
    const SharedLayout *const s = &load->copy->tile->shared;
    const Im2col *const im2col = load->copy->im2col;
    Expr *args[6 + BOX_RANK + IM2COL_WALKED];
    int n = 0;
    if (load->copy->ring)
        args[n++] = expr_binary(a, X_ADD, load->base, u32_const(pr, panel * s->panel_bytes + load->offset));
    args[n++] = map_address(pr, is_whole ? map_of_all_rows(load->copy) : load->copy->map);
    if (load->copy->ring) args[n++] = load->barrier;
    if (is_cut(load->copy) && !is_whole) args[n++] = var_of(pr, load->whole);
    if (is_cut(load->copy) && !is_whole && load->copy->ring) {
        args[n++] = var_of(pr, load->skip);
        args[n++] = var_of(pr, load->rows);
    }
    memcpy(args + n, load->at, sizeof(Expr *) * (size_t)load->rank);
    args[n] = i32_add(pr, load->at[0], i32_const(pr, panel * s->panel_columns));
    n += load->rank;
    for (int i = 0; im2col && i < im2col->n; i++)
        args[n++] = im2col->walked[i].offset ? coordinate(pr, im2col->walked[i].offset, true) : i32_const(pr, 0);
    emit_call_if(pr, NULL, expr_call(a, DTYPE_NONE, name_of_load(pr, load, is_whole), n, args));
}

// Boxes one after another: as one, where none of them is cut.
static void print_box_run(Printer *pr, const BoxCopy *first)
{
    Nest nest;
    Expr *whole = NULL;
    VEC(Load) loads = { 0 };
    for (const BoxCopy *copy = first; copy; copy = copy->next) {
        const Load load = point_load(pr, copy);
        VEC_PUSH(pr->arena, &loads, load);
        if (!load.whole) continue;
        whole = whole ? expr_binary(pr->arena, X_AND, whole, var_of(pr, load.whole)) : var_of(pr, load.whole);
    }
    if (whole) whole = var_of(pr, emit_declare(pr, DTYPE_BOOL, "boxes_are_whole", whole));
    if (first->opens) print_parts_through(pr, ACTION_DECLARE);
    if (whole) begin_if(pr, &nest, whole);
    for (int i = 0; i < loads.count; i++)
        for (int panel = 0; panel < loads.items[i].panels; panel++)
            emit_panel(pr, &loads.items[i], panel, is_cut(loads.items[i].copy));
    if (!whole) return;
    begin_else(pr, &nest);
    for (int i = 0; i < loads.count; i++)
        for (int panel = 0; panel < (is_cut(loads.items[i].copy) ? 1 : loads.items[i].panels); panel++)
            emit_panel(pr, &loads.items[i], panel, false);
    end_nest(pr, &nest);
}

// Its parts are what it does to wait for its slot.
void print_box_copy(Printer *pr, const BoxCopy *copy)
{
    Nest one;
    if (copy->next) {
        print_box_run(pr, copy);
        return;
    }
    const Load load = point_load(pr, copy);
    if (copy->opens) print_parts_through(pr, ACTION_DECLARE);
    if (copy->share.whole >= 0) begin_if(pr, &one, i32_op(pr, X_EQ, cluster_rank(pr), copy->share.whole));
    const bool at_once = is_cut(copy) && copy->ring; // all panels in one call
    for (int panel = 0; panel < (at_once ? 1 : load.panels); panel++) emit_panel(pr, &load, panel, false);
    if (copy->share.whole >= 0) end_nest(pr, &one);
}
