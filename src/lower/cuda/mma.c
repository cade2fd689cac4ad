// mma.c - products by mma.sync, warp by warp: the generic path; on Hopper small instances, and byte operands whose
// contraction runs across rows, which wgmma cannot read.
//
// The layouts are wgmma's (tensor_core.c): each warp owns 16 rows of every block of rows. Operands come from the same
// panels by ldmatrix; the result is there when the instruction has been issued, so nothing is waited for.
#include "lower/cuda/cuda.h"

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
    if (shift)
        x = i32_op(lo, X_SHR, x, shift);
    return i32_op(lo, X_BITAND, x, mask);
}

typedef struct Corner { int64_t row, column; } Corner;
static Corner corner_of(const Region *region)
{
    Corner c = { 0, 0 };
    expr_as_int(region->subs[0].start, &c.row);
    expr_as_int(region->subs[1].start, &c.column);
    return c;
}

// Four 8 x 8 matrices of 2-byte units: `line` is a row of A (or column of B), k the contraction; the second 8 lines or
// second 16 bytes of k come with lanes 8-15 and 16-31 as `lines_first` says. Across: a row of memory is one k.
void load_four(Lowering *lo, const Operand *x, bool across, Expr *line, Expr *k, bool lines_first, Var *words, Expr *at)
{
    const TileInfo *const tile = tile_info(lo, x->region.buffer);
    const Corner corner = corner_of(&x->region);
    const int piece = 16 / (dtype_bits(x->type) / 8);      // of the contraction
    Expr *const low = lane_bits(lo, 0, 7), *const second = lane_bits(lo, 3, 1), *const third = lane_bits(lo, 4, 1);
    Expr *l = i32_add(lo, line, i32_mul(lo, lines_first ? second : third, 8));
    Expr *c = i32_add(lo, k, i32_mul(lo, lines_first ? third : second, piece));
    if (!across)
        l = i32_add(lo, l, low);
    else
        c = i32_add(lo, c, low);
    Expr *const row = i32_add(lo, across ? c : l, i32_const(lo, corner.row));
    Expr *const column = i32_add(lo, across ? l : c, i32_const(lo, corner.column));
    emit_call(lo, across ? "ldmatrix_x4_trans" : "ldmatrix_x4", 2, expr_address(lo->arena, words, at),
              lane_address(lo, tile, row, column));
}

// 16 lines by 32 k of bytes whose contraction runs down the tile: pairs of lines come turned, prmt takes them apart. Rows
// of the matrices are k's in the order 0 1 4 5 .. and 2 3 6 7 .., so that a word holds four neighbours.
static void load_bytes_across(Lowering *lo, const Operand *x, Expr *line, Expr *k, const char *sort, Var *words, Expr *at)
{
    const TileInfo *const tile = tile_info(lo, x->region.buffer);
    const Corner corner = corner_of(&x->region);
    Expr *c = i32_add(lo, i32_add(lo, k, i32_const(lo, corner.row)), i32_mul(lo, lane_bits(lo, 4, 1), 16));
    c = i32_add(lo, c, i32_mul(lo, lane_bits(lo, 1, 3), 4));
    c = i32_add(lo, c, i32_add(lo, lane_bits(lo, 0, 1), i32_mul(lo, lane_bits(lo, 3, 1), 2)));
    emit_call(lo, "ldmatrix_x4_trans", 2, expr_address(lo->arena, words, at),
              lane_address(lo, tile, c, i32_add(lo, line, i32_const(lo, corner.column))));
    emit_call(lo, sort, 1, expr_address(lo->arena, words, at));
}

static bool is_fp8(DType type) { return dtype_is_float(type) && dtype_bits(type) == 8; }

static void load_operand(Lowering *lo, const Operand *x, bool is_left, Expr *line, Expr *k, Var *words, int at)
{
    const bool across = is_left ? x->transposed : !x->transposed;
    if (across && dtype_bits(x->type) == 8)
        load_bytes_across(lo, x, line, k, is_left ? "sort_rows" : "sort_columns", words, i32_const(lo, at));
    else
        load_four(lo, x, across, line, k, is_left, words, i32_const(lo, at));
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

static void emit_zeros(Lowering *lo, const TileInfo *acc)
{
    Nest nest;
    Var *const r = loop_new_var(lo->unit, DTYPE_I32, "r");
    const DType type = acc->buffer->type;
    begin_for(lo, &nest, r, i32_const(lo, 0), i32_const(lo, layout_registers(&acc->layout)), i32_const(lo, 1),
              LOOP_UNROLL);
    Expr *const zero = dtype_is_float(type) ? expr_float(lo->arena, type, 0) : expr_int(lo->arena, type, 0);
    emit_element(lo, acc->registers, var_of(lo, r), zero);
    end_nest(lo, &nest);
}

enum { CONVERTED = 4 };              // columns of the result, in eights, for which fp8 operands are converted at a time

void emit_mma(Lowering *lo, Product *p)
{
    TileOp *const op = p->op;
    const Operand *const b = &p->right;
    const TileInfo *const acc = tile_info(lo, op->matmul.dst.buffer);
    const int columns = p->n_group / 8;
    const int rows = p->row_blocks;
    const int part = p->division == DIVIDE_CONTRACTION ? p->k / lo->crew.groups : p->k;
    const int steps = part / p->step_k;                    // of one group
    const bool by_rows = p->division == DIVIDE_ROWS;
    Nest block;
    begin_block(lo, &block);
    if (!op->matmul.accumulate)
        emit_zeros(lo, acc);
    Var *const packed = p->a_in_registers ? pack_left(lo, p) : NULL;
    const int each = is_fp8(p->type) ? 8 : 4;              // words of 16 lines by a step
    Var *const words = p->a_in_registers ? packed : emit_array(lo, DTYPE_U32, "a_words", each * rows);
    const bool sparse = op->matmul.meta;                   // B is twice as long: a second load follows the first
    Var *const places = sparse ? load_places(lo, p) : NULL;
    Var *const right = emit_array(lo, DTYPE_U32, "b_words", sparse ? 8 : 4);
    Var *const wide = is_fp8(p->type) ? emit_array(lo, DTYPE_U32, "b_wide", 4) : NULL;
    const int step_rows = 16 * lo->crew.warps;
    Expr *first_row = i32_mul(lo, var_of(lo, lo->warp), 16), *first_column = i32_const(lo, 0);
    if (by_rows && lo->crew.groups > 1)
        first_row = i32_add(lo, first_row, i32_mul(lo, var_of(lo, lo->group), step_rows * rows));
    if (p->division == DIVIDE_COLUMNS)
        first_column = i32_mul(lo, var_of(lo, lo->group), p->n_group);
    const char *const name = arena_printf(lo->arena, sparse ? "mma_sp_16x8x%d_%s" : "mma_16x8x%d_%s", sparse ? 2 * p->step_k : p->step_k,
                                          dtype_name(p->type));
    // Conversions of fp8 in one long text would all be begun at once, and spill.
    Nest loop;
    Var *const around = is_fp8(p->type) ? loop_new_var(lo->unit, DTYPE_I32, "step") : NULL;
    if (around)
        begin_for(lo, &loop, around, i32_const(lo, 0), i32_const(lo, steps), i32_const(lo, 1), LOOP_NO_UNROLL);
    for (int step = 0; step < (around ? 1 : steps); step++) {
        Expr *k = around ? i32_mul(lo, var_of(lo, around), p->step_k) : i32_const(lo, p->step_k * step);
        if (p->division == DIVIDE_CONTRACTION)
            k = i32_add(lo, i32_mul(lo, var_of(lo, lo->group), part), k);
        if (!p->a_in_registers)
            for (int r = 0; r < rows; r++)
                load_left(lo, p, i32_add(lo, first_row, i32_const(lo, r * step_rows)), k, words, each * r);
        for (int c = 0; c < columns; c += 2) {             // 16 columns of B at a time
            Expr *const line = i32_add(lo, first_column, i32_const(lo, 8 * c));
            if (around && lo->target->arch < 90 && c % CONVERTED == 0)
                emit_call(lo, "__syncwarp", 0);        // ptxas loads and converts nothing of what is behind it before
            load_operand(lo, b, false, line, sparse ? i32_const(lo, 2 * p->step_k * step) : k, right, 0);
            if (sparse)
                load_operand(lo, b, false, line, i32_const(lo, 2 * p->step_k * step + p->step_k), right, 4);
            for (int half = 0; half < 2 && c + half < columns; half++) {
                if (wide)
                    emit_call(lo, arena_printf(lo->arena, "widen_%s<2>", dtype_name(p->type)), 2, var_of(lo, wide),
                              expr_address(lo->arena, right, i32_const(lo, 2 * half)));
                Expr *const from_b = wide ? var_of(lo, wide) : expr_address(lo->arena, right, i32_const(lo, 2 * half));
                for (int r = 0; r < rows; r++) {
                    const int from = p->a_in_registers ? r * (p->k / 4) + 4 * step : each * r;
                    Expr *const d = expr_address(lo->arena, acc->registers, i32_const(lo, (r * columns + c + half) * 4));
                    Expr *const from_a = expr_address(lo->arena, words, i32_const(lo, from));
                    if (sparse)
                        emit_call(lo, name, 5, d, from_a, from_b,
                                  expr_address(lo->arena, right, i32_const(lo, 4 + 2 * half)),
                                  expr_index(lo->arena, places, i32_const(lo, r * steps + step)));
                    else
                        emit_call(lo, name, 3, d, from_a, from_b);
                }
            }
        }
    }
    if (around)
        end_nest(lo, &loop);
    end_nest(lo, &block);
}
