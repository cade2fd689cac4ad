// SPDX-License-Identifier: MIT
// print_panels.c - printing: an accumulator into a shared tile that products read (panels.c).
#include "lower/cuda/panels.h"
#include "lower/cuda/print.h"

void print_panels(Lowering *lo, const PanelsPlan *plan)
{
    Arena *const a = lo->arena;
    const SharedLayout *const s = &plan->to->shared;
    const int pieces = plan->columns / 16, per_panel = s->panel_columns / 16;
    Expr *row = i32_mul(lo, var_of(lo, lo->warp), 16), *first = i32_const(lo, 0); // of the group: rows, pieces
    if (lo->partition.groups > 1 && plan->division == DIVIDE_COLUMNS)
        first = i32_mul(lo, var_of(lo, lo->group), pieces);
    else if (lo->partition.groups > 1)
        row = i32_add(lo, row, i32_mul(lo, var_of(lo, lo->group), 64 * plan->row_blocks));
    Nest block, loop;
    begin_block(lo, &block);
    Var *const at = emit_declare(lo, DTYPE_U32, "at",
                                 call_expr(lo, DTYPE_U32, "panel_at", 3,
                                           call_expr(lo, DTYPE_U32, "shared_address", 1, var_of(lo, plan->to->pointer)),
                                           row, var_of(lo, lo->lane)));
    for (int b = 0; b < plan->row_blocks; b++) {
        Var *const c = begin_unrolled(lo, &loop, "c", pieces);
        Expr *const piece = i32_add(lo, first, var_of(lo, c));
        Expr *const panel = i32_add(lo, i32_const(lo, b * 64 * s->pitch_bytes),
                                    i32_mul(lo, i32_op(lo, X_DIV, piece, per_panel), s->panel_bytes));
        Expr *const column = i32_mul(lo, i32_op(lo, X_MOD, piece, per_panel), 32);
        Expr *words[4];
        for (int i = 0; i < 4; i++) {
            Expr *const word = i32_add(lo, i32_add(lo, i32_mul(lo, var_of(lo, c), 4), i32_const(lo, i)),
                                       i32_const(lo, b * 4 * pieces));
            words[i] = plan->from->is_packed
                           ? expr_index(a, plan->from->registers, word)
                           : call_expr(lo, DTYPE_U32,
                                       plan->from->buffer->type != DTYPE_F32
                                           ? "pack_bits"
                                           : arena_printf(a, "pack_%s", dtype_name(plan->to->buffer->type)),
                                       2, expr_index(a, plan->from->registers, i32_mul(lo, word, 2)),
                                       expr_index(a, plan->from->registers,
                                                  i32_add(lo, i32_mul(lo, word, 2), i32_const(lo, 1))));
        }
        emit_call(lo, "store_panel", 7, var_of(lo, at), panel, column, words[0], words[1], words[2], words[3]);
        end_nest(lo, &loop);
    }
    end_nest(lo, &block);
}
