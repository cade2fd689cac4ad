// SPDX-License-Identifier: MIT
// row_pieces.c - rows that become rows of a tile: their tile and columns, how they are aligned, and how many units go at
// once.
#include "lower/gpu/facts/row_pieces.h"
#include "lower/gpu/facts/info.h"

const TileInfo *tile_of_rows(const Lowering *lo, const Rows *rows) { return tile_info(lo, rows->store->store.buffer); }

Expr *last_sub(const Expr *load) { return load->load.subs[load->load.buffer->rank - 1]; }

Expr *first_column(const Lowering *lo, const Rows *rows, Expr *sub)
{
    int64_t coefficient = 0;
    Expr *first = NULL;
    return expr_affine(lo->arena, sub, (Var *const *)&rows->column, 1, &coefficient, &first) && coefficient == 1 ? first
                                                                                                                 : NULL;
}

int set_units(const Rows *rows)
{
    int words = 0, n = rows->units;
    for (int i = 0; i < rows->n_runs; i++) words += rows->unit * dtype_bits(rows->runs[i].load->type) / 32;
    const bool both = n <= SET_UNITS && n * words <= SETS * SET_WORDS; // in the registers of all sets together
    while (n > 1 && (rows->units % n != 0 || n * words > SET_WORDS || n > SET_UNITS)) n--;
    return n == 1 && both ? rows->units : n; // what does not divide
}

// ---- alignment

static int64_t bytes_of(const Buffer *buffer, int64_t elements) { return elements * dtype_bits(buffer->type) / 8; }

static int low_bit(int64_t x)
{
    return x == 0 ? PIECE_BYTES : (int)(x & -x) < PIECE_BYTES ? (int)(x & -x) : PIECE_BYTES;
}

static void align_to(int *align, int64_t bytes) { *align = low_bit(bytes) < *align ? low_bit(bytes) : *align; }

// Of buffer[.., sub]: what bytes its address is a multiple of, if `sub` is; 0: the last dimension may be left, or
// moves.
int place_alignment(const Buffer *buffer, const Expr *sub, int64_t multiple)
{
    const Range range = expr_range(sub);
    int64_t extent, start;
    int align = low_bit(bytes_of(buffer, multiple));
    if (buffer->rank < 1 || !expr_as_int(buffer->shape[buffer->rank - 1], &extent) || !range.has_lo || range.lo < 0 ||
        !range.has_hi || range.hi >= extent)
        return 0;
    for (; buffer->kind == BUFFER_VIEW; buffer = buffer->base.buffer) {
        const Region *const base = &buffer->base;
        const Sub *const of_base = &base->subs[base->buffer->rank - 1];
        const int64_t bytes = bytes_of(buffer, extent), base_size = dtype_bits(base->buffer->type) / 8;
        if (region_rank(base) != buffer->rank || !of_base->is_range || of_base->step ||
            !expr_as_int(of_base->start, &start) || start < 0 || base_size < 1 ||
            !expr_as_int(base->buffer->shape[base->buffer->rank - 1], &extent) ||
            start * base_size + bytes > extent * base_size)
            return 0;
        align_to(&align, start * base_size);
    }
    if (buffer->kind != BUFFER_TENSOR || buffer->strided || buffer->access != ACCESS_IN) return 0;
    int64_t elements = 1;
    for (int d = buffer->rank - 1; d > 0; d--) {
        elements *= expr_multiple(buffer->shape[d]);
        align_to(&align, bytes_of(buffer, buffer->stride[0] ? expr_multiple(buffer->stride[d - 1]) : elements));
    }
    return align;
}

static bool is_division(const Expr *x, void *context)
{
    (void)context;
    return x->kind == E_BINARY && (x->op.op == X_DIV || x->op.op == X_MOD) && !expr_is_const(x->op.b);
}

bool expr_has_division(const Expr *x) { return expr_any(x, is_division, NULL); }

static bool is_choice_of_load(const Expr *x, void *context)
{
    (void)context;
    return x->kind == E_SELECT && (expr_loads(x->select.a) || expr_loads(x->select.b));
}

bool row_is_chosen(const Expr *load)
{
    bool any = false;
    for (int d = 0; d < load->load.buffer->rank; d++) any |= expr_any(load->load.subs[d], is_choice_of_load, NULL);
    return any;
}
