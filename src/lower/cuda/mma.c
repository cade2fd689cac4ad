// SPDX-License-Identifier: MIT
// mma.c - products by mma.sync, warp by warp: the generic path; on Hopper small CTAs, and byte operands whose
// contraction runs across rows, which wgmma cannot read.
//
// The layouts are wgmma's (tensor_core.c): each warp owns 16 rows of every block of rows. Operands come from the same
// panels by ldmatrix; the result is there when the instruction has been issued, so nothing is waited for.
#include "lower/cuda/product.h"
#include "lower/cuda/print.h"

#include <assert.h>

// The shared address of what this lane hands to ldmatrix: row and column are expressions of the lane. What is constant
// in them becomes the instruction's own offset, since the sum is one of 32 bits.
Expr *lane_address(Lowering *lo, const TileInfo *tile, Expr *row, Expr *column)
{
    Expr *const bytes = i32_mul(lo, shared_at(lo, tile, row, column), tile->shared.element_bytes);
    return expr_binary(lo->arena, X_ADD, call_expr(lo, DTYPE_U32, "shared_address", 1, var_of(lo, tile->pointer)),
                       cast(lo, DTYPE_U32, bytes));
}

Expr *lane_bits(Lowering *lo, int shift, int mask)
{
    Expr *x = var_of(lo, lo->lane);
    if (shift) x = i32_op(lo, X_SHR, x, shift);
    return i32_op(lo, X_BITAND, x, mask);
}

// Where a slice begins: i32.
typedef struct Corner {
    Expr *row, *column;
} Corner;
static Expr *start_of(Lowering *lo, const Sub *sub)
{
    int64_t start;
    return expr_as_int(sub->start, &start) ? i32_const(lo, start)
                                           : cast(lo, DTYPE_I32, lower_expr(lo, sub->start, NULL));
}
static Corner corner_of(Lowering *lo, const Region *region)
{
    return (Corner){ start_of(lo, &region->subs[0]), start_of(lo, &region->subs[1]) };
}

// Four 8 x 8 matrices of 2-byte units: `line` is a row of A (or column of B), k the contraction; the second 8 lines or
// second 16 bytes of k come with lanes 8-15 and 16-31 as `lines_first` says. Across: a row of memory is one k.
void load_four(Lowering *lo, const Operand *x, bool across, Expr *line, Expr *k, bool lines_first, Var *words, Expr *at)
{
    const TileInfo *const tile = tile_info(lo, x->region.buffer);
    const Corner corner = corner_of(lo, &x->region);
    const int piece = 16 / (dtype_bits(x->type) / 8); // of the contraction
    Expr *const low = lane_bits(lo, 0, 7), *const second = lane_bits(lo, 3, 1), *const third = lane_bits(lo, 4, 1);
    Expr *l = i32_add(lo, line, i32_mul(lo, lines_first ? second : third, 8));
    Expr *c = i32_add(lo, k, i32_mul(lo, lines_first ? third : second, piece));
    if (!across) l = i32_add(lo, l, low);
    else c = i32_add(lo, c, low);
    Expr *const row = i32_add(lo, across ? c : l, corner.row);
    Expr *const column = i32_add(lo, across ? l : c, corner.column);
    emit_call(lo, across ? "ldmatrix_x4_trans" : "ldmatrix_x4", 2, expr_address(lo->arena, words, at),
              lane_address(lo, tile, row, column));
}

// 16 lines by 32 k of bytes whose contraction runs down the tile: pairs of lines come turned, prmt takes them apart.
// Rows of the matrices are k's in the order 0 1 4 5 .. and 2 3 6 7 .., so that a word holds four neighbours.
static void load_bytes_across(Lowering *lo, const Operand *x, Expr *line, Expr *k, const char *sort, Var *words,
                              Expr *at)
{
    const TileInfo *const tile = tile_info(lo, x->region.buffer);
    const Corner corner = corner_of(lo, &x->region);
    Expr *c = i32_add(lo, i32_add(lo, k, corner.row), i32_mul(lo, lane_bits(lo, 4, 1), 16));
    c = i32_add(lo, c, i32_mul(lo, lane_bits(lo, 1, 3), 4));
    c = i32_add(lo, c, i32_add(lo, lane_bits(lo, 0, 1), i32_mul(lo, lane_bits(lo, 3, 1), 2)));
    emit_call(lo, "ldmatrix_x4_trans", 2, expr_address(lo->arena, words, at),
              lane_address(lo, tile, c, i32_add(lo, line, corner.column)));
    emit_call(lo, sort, 1, expr_address(lo->arena, words, at));
}

static bool is_fp8(DType type) { return dtype_is_float(type) && dtype_bits(type) == 8; }

static void load_operand(Lowering *lo, const Operand *x, bool is_left, Expr *line, Expr *k, Var *words, int at)
{
    const bool across = is_left ? x->transposed : !x->transposed;
    if (across && dtype_bits(x->type) == 8)
        load_bytes_across(lo, x, line, k, is_left ? "sort_rows" : "sort_columns", words, i32_const(lo, at));
    else load_four(lo, x, across, line, k, is_left, words, i32_const(lo, at));
}

// Rows of A by a step; fp8 comes as f16, twice the words.
static void load_left(Lowering *lo, const Product *p, Expr *line, Expr *k, Var *words, int at)
{
    if (!is_fp8(p->type)) {
        load_operand(lo, &p->left, true, line, k, words, at);
        return;
    }
    Nest block;
    begin_block(lo, &block);
    Var *const bytes = emit_array(lo, DTYPE_U32, "bytes", 4);
    load_operand(lo, &p->left, true, line, k, bytes, 0);
    emit_call(lo, arena_printf(lo->arena, "widen_%s<4>", dtype_name(p->type)), 2,
              expr_address(lo->arena, words, i32_const(lo, at)), var_of(lo, bytes));
    end_nest(lo, &block);
}

void emit_zeros(Lowering *lo, const TileInfo *acc)
{
    Nest nest;
    Var *const r = begin_unrolled(lo, &nest, "r", layout_registers(&acc->layout));
    emit_element(lo, acc->registers, var_of(lo, r), zero_of(lo, acc->buffer->type));
    end_nest(lo, &nest);
}

enum { CONVERTED = 4 }; // columns of the result, in eights, for which fp8 operands are converted at a time

// What a warp's instructions have in common.
typedef struct Warp {
    Product *p;
    const TileInfo *acc;
    const char *name;
    int rows, columns;                 // blocks of 16 and of 8 of the result
    int part, steps;                   // of the contraction: one group's, and its instructions
    bool sparse;                       // B is twice as long: a second load follows the first
    int each;                          // words of 16 lines of A by a step
    Var *left, *right, *wide, *places; // words; wide: of B, converted
    Expr *first_row, *first_column;
    int step_rows; // from one block of rows to the next
} Warp;

static Warp new_warp(Lowering *lo, Product *p)
{
    const int part = p->division == DIVIDE_CONTRACTION ? p->k / lo->partition.groups : p->k;
    const bool fp8 = is_fp8(p->type), sparse = p->op->matmul.meta;
    // Places, and with them B, are found by a step's number: not by a loop's, nor by a group's part (check_sparse,
    // check_split_k).
    assert(!sparse || (!fp8 && p->division != DIVIDE_CONTRACTION));
    Warp w = { .p = p,
               .acc = tile_info(lo, p->op->matmul.dst.buffer),
               .rows = p->row_blocks,
               .columns = p->n_group / 8,
               .part = part,
               .steps = part / p->step_k,
               .sparse = sparse,
               .each = fp8 ? 8 : 4,
               .step_rows = 16 * lo->partition.warps };
    w.left = p->a_in_registers ? pack_left(lo, p) : emit_array(lo, DTYPE_U32, "a_words", w.each * w.rows);
    w.places = sparse ? load_places(lo, p) : NULL;
    w.right = emit_array(lo, DTYPE_U32, "b_words", sparse ? 8 : 4);
    w.wide = fp8 ? emit_array(lo, DTYPE_U32, "b_wide", 4) : NULL;
    w.first_row = i32_mul(lo, var_of(lo, lo->warp), 16);
    if (p->division == DIVIDE_ROWS && lo->partition.groups > 1)
        w.first_row = i32_add(lo, w.first_row, i32_mul(lo, var_of(lo, lo->group), w.step_rows * w.rows));
    w.first_column = p->division == DIVIDE_COLUMNS ? i32_mul(lo, var_of(lo, lo->group), p->n_group) : i32_const(lo, 0);
    w.name = arena_printf(lo->arena, sparse ? "mma_sp_16x8x%d_%s" : "mma_16x8x%d_%s",
                          sparse ? 2 * p->step_k : p->step_k, dtype_name(p->type));
    return w;
}

// Eight columns of the result: half of what is loaded of B.
static void emit_eight_columns(Lowering *lo, const Warp *w, int step, int column, int half)
{
    Expr *from_b = expr_address(lo->arena, w->right, i32_const(lo, 2 * half));
    if (w->wide) {
        emit_call(lo, arena_printf(lo->arena, "widen_%s<2>", dtype_name(w->p->type)), 2, var_of(lo, w->wide), from_b);
        from_b = var_of(lo, w->wide);
    }
    for (int r = 0; r < w->rows; r++) {
        const int from = w->p->a_in_registers ? r * (w->p->k / 4) + 4 * step : w->each * r;
        Expr *const d = expr_address(lo->arena, w->acc->registers, i32_const(lo, (r * w->columns + column) * 4));
        Expr *const from_a = expr_address(lo->arena, w->left, i32_const(lo, from));
        if (w->sparse)
            emit_call(lo, w->name, 5, d, from_a, from_b, expr_address(lo->arena, w->right, i32_const(lo, 4 + 2 * half)),
                      expr_index(lo->arena, w->places, i32_const(lo, r * w->steps + step)));
        else emit_call(lo, w->name, 3, d, from_a, from_b);
    }
}

// around: k counts in a loop.
static void emit_step(Lowering *lo, const Warp *w, int step, Expr *k, bool around)
{
    const Product *const p = w->p;
    if (p->division == DIVIDE_CONTRACTION) k = i32_add(lo, i32_mul(lo, var_of(lo, lo->group), w->part), k);
    for (int r = 0; r < w->rows && !p->a_in_registers; r++)
        load_left(lo, p, i32_add(lo, w->first_row, i32_const(lo, r * w->step_rows)), k, w->left, w->each * r);
    for (int c = 0; c < w->columns; c += 2) { // 16 columns of B at a time
        Expr *const line = i32_add(lo, w->first_column, i32_const(lo, 8 * c));
        if (around && !lo->gpu->converts_fp8 && c % CONVERTED == 0)
            emit_call(lo, "__syncwarp", 0); // ptxas loads and converts nothing of what is after it before
        load_operand(lo, &p->right, false, line, w->sparse ? i32_const(lo, 2 * p->step_k * step) : k, w->right, 0);
        if (w->sparse)
            load_operand(lo, &p->right, false, line, i32_const(lo, 2 * p->step_k * step + p->step_k), w->right, 4);
        for (int half = 0; half < 2 && c + half < w->columns; half++) emit_eight_columns(lo, w, step, c + half, half);
    }
}

// Conversions of fp8 in one long text would all be begun at once, and spill: there the steps are a loop.
void emit_mma(Lowering *lo, Product *p)
{
    Nest block, loop;
    begin_block(lo, &block);
    if (!p->op->matmul.accumulate) emit_zeros(lo, tile_info(lo, p->op->matmul.dst.buffer));
    const Warp w = new_warp(lo, p);
    if (is_fp8(p->type)) {
        Var *const step = loop_new_var(lo->unit, DTYPE_I32, "step");
        begin_for(lo, &loop, step, i32_const(lo, 0), i32_const(lo, w.steps), i32_const(lo, 1), LOOP_NO_UNROLL);
        emit_step(lo, &w, 0, i32_mul(lo, var_of(lo, step), p->step_k), true);
        end_nest(lo, &loop);
    } else {
        for (int step = 0; step < w.steps; step++) emit_step(lo, &w, step, i32_const(lo, p->step_k * step), false);
    }
    end_nest(lo, &block);
}
