// mma.c - products by mma.sync, warp by warp: the generic path, and small instances on Hopper.
//
// The layouts are wgmma's (tensor_core.c): each warp owns 16 rows of every block of rows. Operands come from the same
// panels by ldmatrix; the result is there when the instruction has been issued, so nothing is waited for.
#include "lower/cuda/cuda.h"

// The shared address of what this lane hands to ldmatrix: row and column are expressions of the lane.
static Expr *lane_address(Lowering *lo, const TileInfo *tile, Expr *row, Expr *column)
{
    return call_expr(lo, DTYPE_U32, "shared_address", 1, expr_address(lo->arena, tile->pointer, shared_at(lo, tile, row, column)));
}

static Expr *lane_bits(Lowering *lo, int shift, int mask)
{
    Expr *x = var_of(lo, lo->lane);
    if (shift)
        x = expr_binary(lo->arena, X_SHR, x, i32_const(lo, shift));
    return expr_binary(lo->arena, X_BITAND, x, i32_const(lo, mask));
}

typedef struct Corner { int64_t row, column; } Corner;
static Corner corner_of(const Region *region)
{
    Corner c = { 0, 0 };
    expr_as_int(region->subs[0].start, &c.row);
    expr_as_int(region->subs[1].start, &c.column);
    return c;
}

// Four 8 x 8 matrices: `line` is a row of A (or column of B), k the contraction; the second 8 lines or second 8 k's
// come with lanes 8-15 and 16-31 as `lines_first` says.
void load_four(Lowering *lo, const Operand *x, bool across, Expr *line, int k, bool lines_first, Var *words, Expr *at)
{
    const TileInfo *const tile = tile_info(lo, x->region.buffer);
    const Corner corner = corner_of(&x->region);
    Expr *const low = lane_bits(lo, 0, 7), *const second = lane_bits(lo, 3, 1), *const third = lane_bits(lo, 4, 1);
    Expr *const more_lines = i32_mul(lo, lines_first ? second : third, 8), *const more_k = i32_mul(lo, lines_first ? third : second, 8);
    Expr *l = i32_add(lo, line, more_lines), *c = i32_add(lo, i32_const(lo, k), more_k);
    if (across)
        c = i32_add(lo, c, low);     // a row of memory is one k
    else
        l = i32_add(lo, l, low);
    Expr *const row = i32_add(lo, across ? c : l, i32_const(lo, corner.row));
    Expr *const column = i32_add(lo, across ? l : c, i32_const(lo, corner.column));
    emit_call(lo, across ? "ldmatrix_x4_trans" : "ldmatrix_x4", 2, expr_address(lo->arena, words, at), lane_address(lo, tile, row, column));
}

void emit_mma(Lowering *lo, Product *p)
{
    TileOp *const op = p->op;
    const Operand *const a = &p->left, *const b = &p->right;
    const TileInfo *const acc = tile_info(lo, op->matmul.dst.buffer);
    const int columns = p->n_group / 8, rows = p->row_blocks, steps = p->k / 16;
    const bool by_rows = p->division == DIVIDE_ROWS;
    Nest block, nest;
    begin_block(lo, &block);
    if (!op->matmul.accumulate) {
        Var *const r = loop_new_var(lo->unit, DTYPE_I32, "r");
        begin_for(lo, &nest, r, i32_const(lo, 0), i32_const(lo, layout_registers(&acc->layout)), i32_const(lo, 1), LOOP_UNROLL);
        loop_add(lo->out, (LoopStmt){ .kind = L_STORE, .store = { acc->registers, var_of(lo, r), expr_float(lo->arena, DTYPE_F32, 0) } });
        end_nest(lo, &nest);
    }
    Var *const packed = p->a_in_registers ? pack_left(lo, p) : NULL;
    Var *const words = p->a_in_registers ? packed : emit_array(lo, DTYPE_U32, "a_words", 4 * rows);
    Var *const right = emit_array(lo, DTYPE_U32, "b_words", 4);
    const int step_rows = 16 * lo->crew.warps;
    Expr *first_row = i32_mul(lo, var_of(lo, lo->warp), 16), *first_column = i32_const(lo, 0);
    if (by_rows && lo->crew.groups > 1)
        first_row = i32_add(lo, first_row, i32_mul(lo, var_of(lo, lo->group), step_rows * rows));
    if (!by_rows)
        first_column = i32_mul(lo, var_of(lo, lo->group), p->n_group);
    for (int step = 0; step < steps; step++) {
        if (!p->a_in_registers)
            for (int r = 0; r < rows; r++)
                load_four(lo, a, a->transposed, i32_add(lo, first_row, i32_const(lo, r * step_rows)), 16 * step, true, words, i32_const(lo, 4 * r));
        for (int c = 0; c < columns; c += 2) {             // 16 columns of B at a time
            load_four(lo, b, !b->transposed, i32_add(lo, first_column, i32_const(lo, 8 * c)), 16 * step, false, right, i32_const(lo, 0));
            for (int half = 0; half < 2 && c + half < columns; half++)
                for (int r = 0; r < rows; r++) {
                    const int from = p->a_in_registers ? r * (p->k / 4) + 4 * step : 4 * r;
                    emit_call(lo, arena_printf(lo->arena, "mma_16x8x16_%s", dtype_name(p->type)), 3,
                              expr_address(lo->arena, acc->registers, i32_const(lo, (r * columns + c + half) * 4)),
                              expr_address(lo->arena, words, i32_const(lo, from)), expr_address(lo->arena, right, i32_const(lo, 2 * half)));
                }
        }
    }
    end_nest(lo, &block);
}
