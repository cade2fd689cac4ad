// SPDX-License-Identifier: MIT
// rows.c - which statements are rows of a tensor that become rows of a tile, and how they lie among the lanes.
//
// before: tiles have storage, and it is known which of them are read as panels
// after:  a Rows says what is loaded for a row: runs along the columns, a piece or more at once, and what a whole piece
//         shares (scales of a block of columns), once; and which lane moves which pieces
//
// Rows are a producer group's, and where consumers copy rows as they lie, theirs. Whatever has not this form goes
// element by element.
#include "lower/gpu/decide/iteration/rows.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/groups.h"
#include "lower/gpu/facts/ring_counts.h"
#include "lower/gpu/facts/info.h"

// ---- what is loaded

static bool only_last_uses(const Rows *rows, const Expr *load)
{
    for (int d = 0; d + 1 < load->load.buffer->rank; d++)
        if (expr_uses(load->load.subs[d], rows->column)) return false;
    return load->load.buffer->rank > 0;
}

static bool is_run(Lowering *lo, const Rows *rows, const Expr *load)
{
    const int bits = dtype_bits(load->load.buffer->type);
    const int piece = bits < 8 ? PACKED_UNIT / 2 : rows->of_bytes ? PIECE_BYTES : PIECE;
    if (!only_last_uses(rows, load) || bits > 16 || load->load.buffer->type == DTYPE_BOOL) return false;
    const Expr *const first = first_column(lo, rows, last_sub(load));
    return first && expr_multiple(first) % piece == 0 &&
           place_alignment(load->load.buffer, last_sub(load), piece) >= (piece * bits / 8 < 16 ? piece * bits / 8 : 16);
}

// One value for columns / by, or for all.
static bool is_each(const Rows *rows, const Expr *load, int64_t *by)
{
    const int bits = dtype_bits(load->type);
    *by = 0;
    if (!only_last_uses(rows, load) || (bits != 32 && bits != 16 && bits != 8) ||
        place_alignment(load->load.buffer, last_sub(load), 1) < bits / 8)
        return false;
    const Expr *const sub = last_sub(load);
    if (!expr_uses(sub, rows->column)) return true;
    return sub->kind == E_BINARY && sub->op.op == X_DIV && sub->op.a->kind == E_VAR &&
           sub->op.a->var.var == rows->column && expr_as_int(sub->op.b, by) && *by > 0 && *by % PIECE == 0;
}

static void see_load(Lowering *lo, Rows *rows, Expr *x)
{
    int64_t by;
    for (int i = 0; i < rows->n_runs; i++)
        if (expr_equal(rows->runs[i].load, x)) return;
    for (int i = 0; i < rows->n_each; i++)
        if (expr_equal(rows->each[i].load, x)) return;
    if (rows->n_runs < RUNS_MAX && is_run(lo, rows, x))
        rows->runs[rows->n_runs++] = (Run){ .load = x,
                                            .element = tile_new_var(lo->kernel, VAR_LOCAL, x->type, "element", x->span),
                                            .wide = tile_new_var(lo->kernel, VAR_LOCAL, DTYPE_F32, "wide", x->span) };
    else if (rows->n_each < EACH_MAX && is_each(rows, x, &by))
        rows->each[rows->n_each++] =
            (Each){ .load = x, .value = tile_new_var(lo->kernel, VAR_LOCAL, x->type, "each", x->span), .by = by };
    else rows->fits = false;
}

// Not into the subscripts of loads: only there may the column itself be used.
static void find_loads(Lowering *lo, Rows *rows, Expr *x)
{
    if (x->kind == E_LOAD) {
        see_load(lo, rows, x);
        return;
    }
    if (x->kind == E_ATOMIC || x->kind == E_CALL || (x->kind == E_VAR && x->var.var == rows->column))
        rows->fits = false;
    Expr **slots[EXPR_SLOTS_MAX];
    const int n = expr_children(x, slots, COUNT(slots));
    for (int i = 0; i < n && rows->fits; i++) find_loads(lo, rows, *slots[i]);
}

// What the prelude widens to f32, eight elements at a time.
static bool has_wide(DType t)
{
    return (dtype_is_narrow_float(t) && t != DTYPE_E8M0) || (dtype_is_integer(t) && dtype_bits(t) <= 8);
}

// f32 of a run's element, or of its i32.
static const Expr *widened(const Expr *x)
{
    if (x->kind != E_CONVERT || x->type != DTYPE_F32) return NULL;
    const Expr *const a = x->convert.a;
    return a->kind == E_CONVERT && a->type == DTYPE_I32 ? a->convert.a : a;
}

typedef struct Replacing {
    Arena *arena;
    const Rows *rows;
} Replacing;

static Expr *replace_load(Expr *x, void *context)
{
    Arena *const a = ((const Replacing *)context)->arena;
    const Rows *const rows = ((const Replacing *)context)->rows;
    for (int i = 0; i < rows->n_runs; i++) {
        const Run *const run = &rows->runs[i];
        if (x->kind == E_LOAD && expr_equal(x, run->load)) return expr_var(a, run->element);
        const Expr *const narrow = widened(x);
        if (narrow && narrow->kind == E_VAR && narrow->var.var == run->element && has_wide(run->load->type))
            return expr_var(a, run->wide);
    }
    for (int i = 0; i < rows->n_each; i++)
        if (x->kind == E_LOAD && expr_equal(x, rows->each[i].load)) return expr_var(a, rows->each[i].value);
    return x;
}

// Of bytes sixteen, so that loads move 16 bytes too; of what is packed into bytes thirty-two.
static int choose_unit(Lowering *lo, const Rows *rows)
{
    bool packed = false;
    if (rows->of_bytes) return PIECE_BYTES;
    bool whole = !rows->is_copy && rows->n_columns % (4 * PACKED_UNIT) == 0;
    for (int i = 0; i < rows->n_runs; i++) {
        const Expr *const load = rows->runs[i].load;
        const int bits = dtype_bits(load->type);
        packed = packed || bits < 8;
        whole = whole && expr_multiple(first_column(lo, rows, last_sub(load))) % PACKED_UNIT == 0 &&
                place_alignment(load->load.buffer, last_sub(load), PACKED_UNIT) >= (bits * 4 < 16 ? bits * 4 : 16);
    }
    for (int i = 0; i < rows->n_each; i++) whole = whole && rows->each[i].by % PACKED_UNIT == 0;
    if (packed) return whole ? PACKED_UNIT : PIECE_BYTES;
    bool bytes = !rows->is_copy && rows->n_columns % (4 * PIECE_BYTES) == 0;
    for (int i = 0; i < rows->n_runs; i++) {
        const Expr *const load = rows->runs[i].load;
        bytes = bytes && dtype_bits(load->type) == 8 &&
                expr_multiple(first_column(lo, rows, last_sub(load))) % PIECE_BYTES == 0 &&
                place_alignment(load->load.buffer, last_sub(load), PIECE_BYTES) >= PIECE_BYTES;
    }
    for (int i = 0; i < rows->n_each; i++) bytes = bytes && rows->each[i].by % PIECE_BYTES == 0;
    return bytes ? PIECE_BYTES : PIECE;
}

// A tile of 16 bits, or of i8, of whole panels.
static bool takes_rows(const TileInfo *tile)
{
    return tile && tile->storage == TILE_IN_SHARED && tile->wants_panels && tile->buffer->hint == HINT_NONE &&
           (dtype_bits(tile->buffer->type) == 16 || tile->buffer->type == DTYPE_I8) && tile->buffer->rank == 2;
}

// A tile of bytes that is no product's side: what fills it copies rows as they lie.
static bool takes_bytes(const TileInfo *tile)
{
    return tile && tile->storage == TILE_IN_SHARED && !tile->wants_panels && tile->buffer->hint == HINT_NONE &&
           dtype_bits(tile->buffer->type) == 8 && tile->buffer->type != DTYPE_BOOL && tile->buffer->rank == 2;
}

static bool uses_run(const Expr *x, const Run *run) { return expr_uses(x, run->wide) || expr_uses(x, run->element); }

// Of codes of integers: what is subtracted from the code; false: it is neither the code alone nor such a difference. Codes
// and differences are exact in both types: bf16 has integers to 256, and the code is found by subtracting 128 from 128 more.
static bool is_difference(const Rows *rows, const Expr *x, Expr **less)
{
    const Run *const run = &rows->runs[0];
    *less = NULL;
    if (x->kind == E_VAR && x->var.var == run->wide) return true;
    if (x->kind != E_CONVERT || x->type != DTYPE_F32 || !dtype_is_integer(run->load->type)) return false;
    const Expr *const minus = x->convert.a;
    if (minus->kind != E_BINARY || minus->op.op != X_SUB || minus->type != DTYPE_I32) return false;
    const Expr *const code = minus->op.a->kind == E_CONVERT ? minus->op.a->convert.a : minus->op.a;
    if (code->kind != E_VAR || code->var.var != run->element || uses_run(minus->op.b, run) ||
        !expr_fits(minus->op.b, 0, 64))
        return false;
    *less = minus->op.b;
    return true;
}

// Multiplication in the tile's own 16-bit type rounds the same product once: it is exact in f32.
static void find_factor(Rows *rows)
{
    const Expr *const value = rows->value;
    const Expr *const product = value->kind == E_CONVERT && dtype_bits(value->type) == 16 ? value->convert.a : NULL;
    const DType run = rows->n_runs == 1 ? rows->runs[0].load->type : DTYPE_NONE;
    if (run == DTYPE_NONE || dtype_bits(run) > 8 || !has_wide(run) || !product || product->kind != E_BINARY ||
        product->op.op != X_MUL || product->type != DTYPE_F32)
        return;
    for (int side = 0; side < 2 && !rows->factor; side++) {
        const Expr *const wide = side ? product->op.b : product->op.a, *const other =
                                                                           side ? product->op.a : product->op.b;
        if (other->kind == E_CONVERT && other->convert.a->type == value->type && !uses_run(other, &rows->runs[0]) &&
            is_difference(rows, wide, &rows->less) && (!rows->less || dtype_is_packed(run)))
            rows->factor = other->convert.a;
    }
}

// Bytes are made of smaller integers, four at a time, and of nothing else.
static bool is_bytes(const Rows *rows)
{
    const Expr *const value = rows->value;
    if (rows->n_runs != 1 || rows->n_each || value->kind != E_CONVERT || value->type != DTYPE_I8) return false;
    const Expr *const code = value->convert.a;
    const DType type = rows->runs[0].load->type;
    return dtype_is_packed(type) && dtype_is_integer(type) && code->kind == E_VAR &&
           code->var.var == rows->runs[0].element && rows->unit == PACKED_UNIT;
}

// What is stored, with the scalars that are declared before the store replaced by their values; NULL: one of them has
// none that stays the same.
static Expr *stored_value(Lowering *lo, const TileOp *let, const TileOp *store)
{
    if (let == store) return store->store.value;
    Expr *const value = stored_value(lo, let->next, store);
    return value && let->let.value && !let->let.var->assigned && expr_is_pure(let->let.value)
               ? expr_replace(lo->arena, value, let->let.var, let->let.value)
               : NULL;
}

bool plan_rows(Lowering *lo, TileOp *op, Rows *rows)
{
    TileOp *const forall = as_map(lo, op), *store = forall->forall.body;
    while (store && store->kind == T_LET) store = store->next;
    *rows = (Rows){ .forall = forall, .store = store, .fits = true };
    if (!lo->gpu->mbarriers || !store || store->next || store->kind != T_STORE || forall->forall.n != 2) return false;
    rows->of_bytes = op_info(lo, op)->fills && takes_bytes(tile_of_rows(lo, rows));
    const int piece = rows->of_bytes ? PIECE_BYTES : PIECE; // of the tile, at least
    const Partition partition = op_info(lo, op)->fills ? (Partition){ 1, 4 } : map_partition(lo, forall);
    if (!(rows->of_bytes || takes_rows(tile_of_rows(lo, rows))) ||
        !full_extent(&forall->forall.indices[0], &rows->n_rows) ||
        !full_extent(&forall->forall.indices[1], &rows->n_columns) ||
        rows->n_rows % (8 * partition.warps * partition.groups) != 0 || rows->n_columns % (4 * piece) != 0 ||
        rows->n_columns == 4 * PIECE)
        return false;
    rows->column = forall->forall.indices[1].var;
    const Expr *const first = first_column(lo, rows, store->store.subs[1]);
    if (expr_uses(store->store.subs[0], rows->column) || !first || expr_multiple(first) % piece != 0) return false;
    Expr *const value = stored_value(lo, forall->forall.body, store);
    if (!value || (value->kind == E_LOAD && store != forall->forall.body)) return false;
    find_loads(lo, rows, value);
    if (!rows->fits || !rows->n_runs) return false;
    rows->is_copy = value->kind == E_LOAD && value->type == tile_of_rows(lo, rows)->buffer->type;
    rows->value = expr_map(lo->arena, value, replace_load, &(Replacing){ lo->arena, rows });
    find_factor(rows);
    rows->unit = choose_unit(lo, rows);
    if (rows->of_bytes) return rows->is_copy;
    rows->is_bytes = dtype_bits(tile_of_rows(lo, rows)->buffer->type) == 8;
    return rows->n_columns % (4 * rows->unit) == 0 && (!rows->is_bytes || is_bytes(rows));
}

// ---- among the lanes

// Rows and pieces of 16 bytes of a warp: eight by four, or four by eight. Either meets all banks of a swizzled tile;
// four of a row come from one sector or more, eight from one line. Rows are outermost, so that a row's place is worked
// out once. Eight lanes whose loads go together then read eight lines; where a lane has two pieces of the tile beside each
// other, four lanes beside each other are a row's, which is two lines: of two rows, swizzled, every other piece meets all
// banks as well. piece: elements that a lane takes at a time; 0: what makes 16 bytes of the tile; across: pieces of a row
bool choose_row_pieces(Lowering *lo, TileOp *forall, int piece, int across, Layout *layout)
{
    const TileOp *store = forall->forall.body;
    while (store && store->kind == T_LET) store = store->next;
    int64_t rows, columns;
    const Partition partition = map_partition(lo, forall);
    if (forall->forall.n != 2 || !store || store->kind != T_STORE || partition.warps != 4 ||
        !full_extent(&forall->forall.indices[0], &rows) || !full_extent(&forall->forall.indices[1], &columns))
        return false;
    const TileInfo *const tile = tile_info(lo, store->store.buffer);
    const bool beside = across > 4 || (tile && tile->has_rows_beside);
    const int down = WARP_LANES / across, lines = down * partition.warps * partition.groups;
    piece = piece ? piece : 128 / dtype_bits(store->store.buffer->type);
    if (rows % lines != 0 || columns % (across * piece) != 0) return false;
    *layout = layout_new(2, (int[]){ (int)rows, (int)columns });
    layout_add(layout, IN_REGISTER, piece, 1, 1);
    if (beside) layout_add(layout, IN_LANE, across, 1, piece);
    layout_add(layout, IN_LANE, down, 0, 1);
    if (!beside) layout_add(layout, IN_LANE, across, 1, piece);
    layout_add(layout, IN_WARP, partition.warps, 0, down);
    layout_add(layout, IN_GROUP, partition.groups, 0, down * partition.warps);
    layout_add(layout, IN_REGISTER, (int)columns / (across * piece), 1, across * piece);
    layout_add(layout, IN_REGISTER, (int)rows / lines, 0, lines);
    return true;
}

bool lay_rows(Lowering *lo, Rows *rows)
{
    TileOp *const forall = rows->forall;
    Iteration *const it = &rows->it;
    *it = (Iteration){ .indices = forall->forall.indices,
                       .n = forall->forall.n,
                       .partition = map_partition(lo, forall),
                       .dim_of = { 0, 1 },
                       .vector = -1 };
    rows->across = only_gathers(lo) && rows->is_copy && rows->n_columns % (8 * rows->unit) == 0 ? 8 : 4;
    rows->units = rows->lines = 1;
    rows->mode = -1;
    if (!choose_row_pieces(lo, forall, rows->unit, rows->across, &it->layout)) return false;
    for (int i = 1; i < it->layout.n; i++) { // register modes beside the unit's own
        const LayoutMode *const mode = &it->layout.mode[i];
        if (mode->input != IN_REGISTER) continue;
        *(mode->dim == 1 ? &rows->units : &rows->lines) = mode->extent;
        if (mode->dim == 0) rows->mode = i;
    }
    return true;
}

bool spread_rows(Lowering *lo, TileOp *op, Rows *rows) { return plan_rows(lo, op, rows) && lay_rows(lo, rows); }

// ---- for other files

bool fill_is_rows(Lowering *lo, TileOp *op)
{
    Rows rows;
    return plan_rows(lo, op, &rows);
}

bool fill_is_gather(Lowering *lo, TileOp *op)
{
    Rows rows;
    return plan_rows(lo, op, &rows) && rows.is_copy;
}
