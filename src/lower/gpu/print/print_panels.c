// SPDX-License-Identifier: MIT
// print_panels.c - printing: an accumulator into a shared tile that products read (panels.c).
#include "lower/gpu/decide/panels.h"
#include "lower/gpu/print/print.h"

void print_panels(Printer *pr, const PanelsPlan *plan)
{
    Arena *const a = pr->arena;
    const SharedLayout *const s = &plan->to->shared;
    const int pieces = plan->columns / 16, per_panel = s->panel_columns / 16;
    Expr *row = i32_mul(pr, var_of(pr, pr->warp), 16), *first = i32_const(pr, 0); // of the group: rows, pieces
    if (pr->lo->partition.groups > 1 && plan->division == DIVIDE_COLUMNS)
        first = i32_mul(pr, var_of(pr, pr->group), pieces);
    else if (pr->lo->partition.groups > 1)
        row = i32_add(pr, row, i32_mul(pr, var_of(pr, pr->group), 64 * plan->row_blocks));
    Nest block, loop;
    begin_block(pr, &block);
    Var *const at = emit_declare(
        pr, DTYPE_U32, "at",
        call_expr(pr, DTYPE_U32, "panel_at", 3,
                  call_expr(pr, DTYPE_U32, "shared_address", 1, var_of(pr, tile_vars(pr, plan->to)->pointer)), row,
                  var_of(pr, pr->lane)));
    for (int b = 0; b < plan->row_blocks; b++) {
        Var *const c = begin_unrolled(pr, &loop, "c", pieces);
        Expr *const piece = i32_add(pr, first, var_of(pr, c));
        Expr *const panel = i32_add(pr, i32_const(pr, b * 64 * s->pitch_bytes),
                                    i32_mul(pr, i32_op(pr, X_DIV, piece, per_panel), s->panel_bytes));
        Expr *const column = i32_mul(pr, i32_op(pr, X_MOD, piece, per_panel), 32);
        Expr *words[4];
        for (int i = 0; i < 4; i++) {
            Expr *const word = i32_add(pr, i32_add(pr, i32_mul(pr, var_of(pr, c), 4), i32_const(pr, i)),
                                       i32_const(pr, b * 4 * pieces));
            words[i] = plan->from->is_packed
                           ? expr_index(a, tile_vars(pr, plan->from)->registers, word)
                           : call_expr(pr, DTYPE_U32,
                                       plan->from->buffer->type != DTYPE_F32
                                           ? "pack_bits"
                                           : arena_printf(a, "pack_%s", dtype_name(plan->to->buffer->type)),
                                       2, expr_index(a, tile_vars(pr, plan->from)->registers, i32_mul(pr, word, 2)),
                                       expr_index(a, tile_vars(pr, plan->from)->registers,
                                                  i32_add(pr, i32_mul(pr, word, 2), i32_const(pr, 1))));
        }
        emit_call(pr, "store_panel", 7, var_of(pr, at), panel, column, words[0], words[1], words[2], words[3]);
        end_nest(pr, &loop);
    }
    end_nest(pr, &block);
}
