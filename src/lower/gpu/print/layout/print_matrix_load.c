// SPDX-License-Identifier: MIT
// print_matrix_load.c - printing: a part of a shared tile into a fragment by ldmatrix (matrix_load.c).
#include "lower/gpu/print/layout/print_transfer.h"
#include "lower/gpu/print/expressions/expressions.h"
#include "lower/gpu/facts/info.h"

enum { MATRICES = 4 };

// A number that goes by `step` with the loop over a run's instructions.
static Expr *in_run(Printer *pr, int first, Var *c, int step)
{
    return i32_add(pr, i32_mul(pr, var_of(pr, c), step), i32_const(pr, first));
}

// Four matrices to words, and each word to two registers.
static void load_matrices(Printer *pr, const MatrixLoadPlan *plan, int first, Var *c)
{
    const SharedTransfer *const how = &plan->how;
    const PieceAddress *const at = &how->address[first];
    const Corner corner = corner_of(pr, &plan->from.region);
    Expr *const row = i32_add(pr, lanes_part(pr, &how->lanes, 0), in_run(pr, at->row, c, plan->row_step));
    Expr *const column = i32_add(pr, lanes_part(pr, &how->lanes, 2), in_run(pr, at->column, c, plan->column_step));
    Var *const words = emit_array(pr, DTYPE_U32, "words", MATRICES);
    emit_call(pr, how->side.access == BY_MATRICES ? "ldmatrix_x4" : "ldmatrix_x4_trans", 2, var_of(pr, words),
              lane_address(pr, tile_info(pr->lo, plan->from.region.buffer), i32_add(pr, row, corner.row),
                           i32_add(pr, column, corner.column)));
    for (int m = 0; m < MATRICES; m++) {
        Expr *const reg = in_run(pr, transfer_register(how, 0, MATRICES * first + m), c, plan->register_step);
        emit_call(pr, "store_pair", 2, expr_address(pr->arena, tile_vars(pr, plan->to)->registers, reg),
                  expr_index(pr->arena, words, i32_const(pr, m)));
    }
}

void print_matrix_load(Printer *pr, const MatrixLoadPlan *plan)
{
    for (int first = 0; first < plan->how.n; first += plan->run) {
        Nest loop;
        Var *const c = begin_unrolled(pr, &loop, "c", plan->run);
        load_matrices(pr, plan, first, c);
        end_nest(pr, &loop);
    }
}
