// SPDX-License-Identifier: MIT
// mma.c - products by mma.sync, warp by warp: the generic path; on Hopper small CTAs, and byte operands whose
// contraction runs across rows, which wgmma cannot read.
//
// The layouts are wgmma's (tensor_core.c): each warp owns 16 rows of every block of rows. Operands come from the same
// panels by ldmatrix; the result is there when the instruction has been issued, so nothing is waited for.
#include "lower/gpu/print/expressions/expressions.h"
#include "lower/gpu/print/products/print_product.h"
#include "lower/gpu/print/layout/print_transfer.h"
#include "lower/gpu/facts/operands.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/row_pieces.h"
#include "lower/gpu/facts/values.h"

#include <assert.h>

Expr *lane_bits(Printer *pr, int shift, int mask)
{
    Expr *x = var_of(pr, pr->lane);
    if (shift) x = i32_op(pr, X_SHR, x, shift);
    return i32_op(pr, X_BITAND, x, mask);
}

// What lanes add to a first row or column; places within four neighbours by themselves.
static Expr *lane_part(Printer *pr, const Layout *lanes, int dim, Expr *first)
{
    enum { NEIGHBOURS = 4, LARGEST = 16 };
    Expr *within = i32_const(pr, 0);
    for (int stride = LARGEST; stride > 0; stride /= 2)
        for (int i = 0, shift = 0; i < lanes->n; shift += __builtin_ctz((unsigned)lanes->mode[i++].extent)) {
            const LayoutMode *const mode = &lanes->mode[i];
            if (mode->dim != dim || mode->stride != stride) continue;
            Expr *const part = i32_mul(pr, lane_bits(pr, shift, mode->extent - 1), stride);
            if (stride < NEIGHBOURS) within = i32_add(pr, part, within);
            else first = i32_add(pr, first, part);
        }
    return i32_add(pr, first, within);
}

void load_words(Printer *pr, const Operand *x, const OperandLoad *load, Expr *line, Expr *k, Var *words, Expr *at)
{
    const TileInfo *const tile = tile_info(pr->lo, x->region.buffer);
    const Corner corner = corner_of(pr, &x->region);
    Expr *row = load->sort ? i32_add(pr, k, corner.row) : load->is_across ? k : line;
    row = lane_part(pr, &load->lanes, 0, row);
    if (!load->sort) row = i32_add(pr, row, corner.row);
    Expr *const column = lane_part(pr, &load->lanes, 1, load->is_across ? line : k);
    emit_call(pr, load->is_across ? "ldmatrix_x4_trans" : "ldmatrix_x4", 2, expr_address(pr->arena, words, at),
              lane_address(pr, tile, row, i32_add(pr, column, corner.column)));
    if (load->sort) emit_call(pr, load->sort, 1, expr_address(pr->arena, words, at));
}

static bool is_fp8(DType type) { return dtype_is_float(type) && dtype_bits(type) == 8; }

// The same four words, each of the neighbours along k that it holds.
static void load_elements(Printer *pr, const ElementOperand *elements, bool is_left, Expr *line, Expr *k, Var *words,
                          int at)
{
    const DType type = elements->value->type;
    const int per = 32 / dtype_bits(type), piece = 4 * per; // of the contraction
    Nest word, element;
    Var *const w = begin_unrolled(pr, &word, "w", 4);
    Expr *const low = i32_op(pr, X_BITAND, var_of(pr, w), 1), *const high = i32_op(pr, X_SHR, var_of(pr, w), 1);
    Var *const values = emit_array(pr, type, "values", per);
    emit_definition(pr, loop_var(pr, elements->line),
                    i32_add(pr, i32_add(pr, line, i32_op(pr, X_SHR, var_of(pr, pr->lane), 2)),
                            i32_mul(pr, is_left ? low : high, 8)));
    Var *const first = emit_declare(
        pr, DTYPE_I32, "first",
        i32_add(pr, i32_add(pr, k, i32_mul(pr, lane_bits(pr, 0, 3), per)), i32_mul(pr, is_left ? high : low, piece)));
    Var *const e = begin_unrolled(pr, &element, "e", per);
    emit_definition(pr, loop_var(pr, elements->at), i32_add(pr, var_of(pr, first), var_of(pr, e)));
    emit_element(pr, values, var_of(pr, e), lower_as(pr, type, elements->value, NULL));
    end_nest(pr, &element);
    emit_element(pr, words, i32_add(pr, var_of(pr, w), i32_const(pr, at)),
                 call_expr(pr, DTYPE_U32, "join_elements", 1, var_of(pr, values)));
    end_nest(pr, &word);
}

static void load_operand(Printer *pr, const Product *p, bool is_left, Expr *line, Expr *k, Var *words, int at)
{
    const Operand *const x = is_left ? &p->left : &p->right;
    const ElementOperand *const elements = is_left ? &p->left_elements : &p->right_elements;
    if (elements->why) {
        load_elements(pr, elements, is_left, line, k, words, at);
        return;
    }
    load_words(pr, x, is_left ? &p->left_load : &p->right_load, line, k, words, i32_const(pr, at));
}

// Rows of A by a step; fp8 comes as f16, twice the words.
static void load_left(Printer *pr, const Product *p, Expr *line, Expr *k, Var *words, int at)
{
    if (!is_fp8(p->type)) {
        load_operand(pr, p, true, line, k, words, at);
        return;
    }
    Nest block;
    begin_block(pr, &block);
    Var *const bytes = emit_array(pr, DTYPE_U32, "bytes", 4);
    load_operand(pr, p, true, line, k, bytes, 0);
    emit_call(pr, arena_printf(pr->arena, "widen_%s<4>", dtype_name(p->type)), 2,
              expr_address(pr->arena, words, i32_const(pr, at)), var_of(pr, bytes));
    end_nest(pr, &block);
}

void emit_zeros(Printer *pr, const TileInfo *acc)
{
    Nest nest;
    Var *const r = begin_unrolled(pr, &nest, "r", layout_registers(&acc->layout));
    emit_element(pr, tile_vars(pr, acc)->registers, var_of(pr, r), zero_of(pr->lo, acc->buffer->type));
    end_nest(pr, &nest);
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

static Warp new_warp(Printer *pr, Product *p)
{
    const int part = p->division == DIVIDE_CONTRACTION ? p->k / pr->lo->partition.groups : p->k;
    const bool fp8 = is_fp8(p->type), sparse = p->op->matmul.meta;
    // Places, and with them B, are found by a step's number: not by a loop's, nor by a group's part (check_sparse,
    // check_split_k).
    assert(!sparse || (!fp8 && p->division != DIVIDE_CONTRACTION));
    Warp w = { .p = p,
               .acc = tile_info(pr->lo, p->op->matmul.dst.buffer),
               .rows = p->row_blocks,
               .columns = p->n_group / 8,
               .part = part,
               .steps = (part + p->step_k - 1) / p->step_k,
               .sparse = sparse,
               .each = fp8 ? 8 : 4,
               .step_rows = 16 * pr->lo->partition.warps };
    w.left = p->a_in_registers ? pack_left(pr, p) : emit_array(pr, DTYPE_U32, "a_words", w.each * w.rows);
    w.places = sparse ? load_places(pr, p) : NULL;
    w.right = emit_array(pr, DTYPE_U32, "b_words", sparse ? 8 : 4);
    w.wide = fp8 ? emit_array(pr, DTYPE_U32, "b_wide", 4) : NULL;
    w.first_row = i32_mul(pr, var_of(pr, pr->warp), 16);
    if (p->division == DIVIDE_ROWS && pr->lo->partition.groups > 1)
        w.first_row = i32_add(pr, w.first_row, i32_mul(pr, var_of(pr, pr->group), w.step_rows * w.rows));
    w.first_column = p->division == DIVIDE_COLUMNS ? i32_mul(pr, var_of(pr, pr->group), p->n_group) : i32_const(pr, 0);
    w.name = p->op->matmul.in_three ? "mma_16x8x8_tf32x3"
                                    : arena_printf(pr->arena, sparse ? "mma_sp_16x8x%d_%s" : "mma_16x8x%d_%s",
                                                   sparse ? 2 * p->step_k : p->step_k, dtype_name(p->type));
    return w;
}

// Eight columns of the result: half of what is loaded of B.
static void emit_eight_columns(Printer *pr, const Warp *w, int step, int column, int half)
{
    Expr *from_b = expr_address(pr->arena, w->right, i32_const(pr, 2 * half));
    if (w->wide) {
        emit_call(pr, arena_printf(pr->arena, "widen_%s<2>", dtype_name(w->p->type)), 2, var_of(pr, w->wide), from_b);
        from_b = var_of(pr, w->wide);
    }
    for (int r = 0; r < w->rows; r++) {
        const int from = w->p->a_in_registers ? r * (w->p->k / 4) + 4 * step : w->each * r;
        Expr *const d =
            expr_address(pr->arena, tile_vars(pr, w->acc)->registers, i32_const(pr, (r * w->columns + column) * 4));
        Expr *const from_a = expr_address(pr->arena, w->left, i32_const(pr, from));
        if (w->sparse)
            emit_call(pr, w->name, 5, d, from_a, from_b, expr_address(pr->arena, w->right, i32_const(pr, 4 + 2 * half)),
                      expr_index(pr->arena, w->places, i32_const(pr, r * w->steps + step)));
        else emit_call(pr, w->name, 3, d, from_a, from_b);
    }
}

// around: k counts in a loop.
static void emit_step(Printer *pr, const Warp *w, int step, Expr *k, bool around)
{
    const Product *const p = w->p;
    if (p->division == DIVIDE_CONTRACTION) k = i32_add(pr, i32_mul(pr, var_of(pr, pr->group), w->part), k);
    for (int r = 0; r < w->rows && !p->a_in_registers; r++)
        load_left(pr, p, i32_add(pr, w->first_row, i32_const(pr, r * w->step_rows)), k, w->left, w->each * r);
    for (int c = 0; c < w->columns; c += 2) { // 16 columns of B at a time
        Expr *const line = i32_add(pr, w->first_column, i32_const(pr, 8 * c));
        if (around && is_fp8(p->type) && !pr->lo->gpu->converts_fp8 && c % CONVERTED == 0)
            emit_call(pr, "__syncwarp", 0); // ptxas loads and converts nothing of what is after it before
        load_operand(pr, p, false, line, w->sparse ? i32_const(pr, 2 * p->step_k * step) : k, w->right, 0);
        if (w->sparse) load_operand(pr, p, false, line, i32_const(pr, 2 * p->step_k * step + p->step_k), w->right, 4);
        for (int half = 0; half < 2 && c + half < w->columns; half++) emit_eight_columns(pr, w, step, c + half, half);
    }
}

// Conversions of fp8 in one long text would all be begun at once, and spill: there the steps are a loop, and where single
// elements are read, whose text is long.
void emit_mma(Printer *pr, Product *p)
{
    Nest block, loop;
    begin_block(pr, &block);
    if (!p->op->matmul.accumulate) emit_zeros(pr, tile_info(pr->lo, p->op->matmul.dst.buffer));
    const Warp w = new_warp(pr, p);
    if (is_fp8(p->type) || (reads_elements(p) && !p->a_in_registers)) {
        Var *const step = loop_new_var(pr->unit, DTYPE_I32, "step");
        begin_for(pr, &loop, step, i32_const(pr, 0), i32_const(pr, w.steps), i32_const(pr, 1), LOOP_NO_UNROLL);
        emit_step(pr, &w, 0, i32_mul(pr, var_of(pr, step), p->step_k), true);
        end_nest(pr, &loop);
    } else {
        for (int step = 0; step < w.steps; step++) emit_step(pr, &w, step, i32_const(pr, p->step_k * step), false);
    }
    end_nest(pr, &block);
}
