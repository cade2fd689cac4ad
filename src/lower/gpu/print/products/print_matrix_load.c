// SPDX-License-Identifier: MIT
// print_matrix_load.c - printing: a part of a shared tile into a fragment by ldmatrix (matrix_load.c).
#include "lower/gpu/print/build/build.h"
#include "lower/gpu/print/products/print_product.h"

void print_matrix_load(Printer *pr, const MatrixLoadPlan *plan)
{
    const int pieces = plan->columns / 16;
    Expr *row = i32_mul(pr, var_of(pr, pr->warp), 16);
    if (pr->lo->partition.groups > 1) row = i32_add(pr, row, i32_mul(pr, var_of(pr, pr->group), 64 * plan->row_blocks));
    for (int b = 0; b < plan->row_blocks; b++) {
        Nest loop, pairs;
        Var *const c = begin_unrolled(pr, &loop, "c", pieces);
        Var *const words = emit_array(pr, DTYPE_U32, "words", 4);
        load_four(pr, &plan->from, plan->from.transposed, i32_add(pr, row, i32_const(pr, 64 * b)),
                  i32_mul(pr, var_of(pr, c), 16), true, words, i32_const(pr, 0));
        Var *const i = begin_unrolled(pr, &pairs, "i", 4);
        Expr *const at = i32_add(pr, i32_add(pr, i32_mul(pr, var_of(pr, c), 8), i32_mul(pr, var_of(pr, i), 2)),
                                 i32_const(pr, 8 * pieces * b));
        emit_call(pr, "store_pair", 2, expr_address(pr->arena, tile_vars(pr, plan->to)->registers, at),
                  expr_index(pr->arena, words, var_of(pr, i)));
        end_nest(pr, &pairs);
        end_nest(pr, &loop);
    }
}
