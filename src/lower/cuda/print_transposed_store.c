// SPDX-License-Identifier: MIT
// print_transposed_store.c - f32 sums that were computed transposed, added to a tensor by whole groups.
//
// before: the store is planned (store.c, transposed_store.c) and its staging has a place
// after:  the boxes are on their way; that they have been read is waited for by the next store, or at the end
#include "lower/cuda/print_action.h"
#include "lower/cuda/box.h"
#include "lower/cuda/print.h"
#include "lower/cuda/store.h"

// Registers: pair (next row), half (8 columns on), blocks of 8 rows.
static void fill_boxes(Lowering *lo, const TileInfo *tile, Var *stage)
{
    const int rows = tile->layout.extent[0];
    Nest loops[2];
    Var *const r = begin_unrolled(lo, &loops[0], "r", 4);
    Expr *const first = call_expr(lo, DTYPE_U32, arena_printf(lo->arena, "transposed_at<%d>", rows), 4,
                                  var_of(lo, stage), var_of(lo, lo->warp), var_of(lo, lo->lane), var_of(lo, r));
    Var *const at = emit_declare(lo, DTYPE_U32, "at", first);
    Var *const u = begin_unrolled(lo, &loops[1], "u", rows / 8);
    Expr *const value =
        expr_index(lo->arena, tile->registers, i32_add(lo, i32_mul(lo, var_of(lo, u), 4), var_of(lo, r)));
    Expr *const offset = cast(lo, DTYPE_U32, i32_mul(lo, var_of(lo, u), 1024));
    emit_call(lo, "stage_transposed", 2, expr_binary(lo->arena, X_ADD, var_of(lo, at), offset), value);
    end_nests(lo, loops, 2);
}

void print_transposed_add(Lowering *lo, const StorePlan *plan)
{
    const TileOp *const op = plan->op;
    const TileInfo *const tile = tile_info(lo, op->copy.src.buffer);
    const int box_bytes = tile->layout.extent[0] * BOX_ROW_BYTES;
    Expr *const group = var_of(lo, lo->group);
    Nest block, one;
    begin_block(lo, &block);
    Var *const stage = emit_declare(lo, DTYPE_U32, "stage", staging_address(lo, NULL));
    if (plan->frees_staging) print_group_done(lo);
    fill_boxes(lo, tile, stage);
    if (plan->issues_early) print_part(lo, ACTION_SCOPE);
    emit_call(lo, "fence_async", 0);
    emit_call(lo, "bar_sync", 2, i32_op(lo, X_ADD, group, BAR_GROUPS), i32_const(lo, WARPGROUP_THREADS));
    begin_if(lo, &one, i32_op(lo, X_EQ, i32_op(lo, X_MOD, var_of(lo, lo->thread), WARPGROUP_THREADS), 0));
    for (int box = 0; box < GROUP_BOXES; box++) {
        Expr *coordinates[5];
        Expr *const column = i32_op(lo, X_ADD, i32_mul(lo, group, GROUP_BOXES * BOX_COLUMNS), BOX_COLUMNS * box);
        slice_coordinates(lo, &op->copy.dst, coordinates, 0, NULL, column);
        emit_box_store(lo, op, plan->map,
                       expr_binary(lo->arena, X_ADD, var_of(lo, stage), u32_const(lo, box * box_bytes)), coordinates);
    }
    emit_call(lo, "tma_commit", 0);
    end_nest(lo, &one);
    end_nest(lo, &block);
}
