// SPDX-License-Identifier: MIT
// print_transposed_store.c - accumulators that were computed transposed, added to a tensor or stored by whole groups.
//
// before: the store is planned (store.c, transposed_store.c) and its staging has a place
// after:  the boxes are on their way; that they have been read is waited for by the next store, or at the end
#include "lower/gpu/print/print_action.h"
#include "lower/gpu/print/print.h"
#include "lower/gpu/decide/store.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/print/tma.h"

static Expr *value(Printer *pr, const TileInfo *tile, Expr *at)
{
    return expr_index(pr->arena, tile_vars(pr, tile)->registers, at);
}

// Registers: pair (next row), half (8 columns on), blocks of 8 rows.
static void fill_with_f32(Printer *pr, const TileInfo *tile, Var *stage)
{
    const int rows = tile->layout.extent[0];
    Nest loops[2];
    Var *const r = begin_unrolled(pr, &loops[0], "r", 4);
    Expr *const first = call_expr(pr, DTYPE_U32, arena_printf(pr->arena, "transposed_at<%d>", rows), 4,
                                  var_of(pr, stage), var_of(pr, pr->warp), var_of(pr, pr->lane), var_of(pr, r));
    Var *const at = emit_declare(pr, DTYPE_U32, "at", first);
    Var *const u = begin_unrolled(pr, &loops[1], "u", rows / 8);
    Expr *const offset = cast(pr, DTYPE_U32, i32_mul(pr, var_of(pr, u), 1024));
    emit_call(pr, "stage_transposed", 2, expr_binary(pr->arena, X_ADD, var_of(pr, at), offset),
              value(pr, tile, i32_add(pr, i32_mul(pr, var_of(pr, u), 4), var_of(pr, r))));
    end_nests(pr, loops, 2);
}

// The same, 16 rows by 16 columns at a time.
static void fill_with_16_bits(Printer *pr, const TileInfo *tile, DType type, Var *stage)
{
    const char *const pack = dtype_bits(tile->buffer->type) == 16 ? "pack_bits"
                                                                  : arena_printf(pr->arena, "pack_%s", dtype_name(type));
    Expr *const first = call_expr(pr, DTYPE_U32, "turned_at", 3, var_of(pr, stage), var_of(pr, pr->warp),
                                  var_of(pr, pr->lane));
    Var *const at = emit_declare(pr, DTYPE_U32, "at", first);
    for (int u = 0; u < tile->layout.extent[0] / 16; u++) {
        Expr *args[5] = { expr_binary(pr->arena, X_ADD, var_of(pr, at), u32_const(pr, u * 16 * BOX_ROW_BYTES)) };
        for (int i = 0; i < 4; i++)
            args[1 + i] = call_expr(pr, DTYPE_U32, pack, 2, value(pr, tile, i32_const(pr, 8 * u + 2 * i)),
                                    value(pr, tile, i32_const(pr, 8 * u + 2 * i + 1)));
        emit_call(pr, "stage_turned", 5, args[0], args[1], args[2], args[3], args[4]);
    }
}

static void send_boxes(Printer *pr, const StorePlan *plan, Var *stage)
{
    const TileOp *const op = plan->op;
    const int columns = transposed_columns(op);
    const int box_bytes = tile_info(pr->lo, op->copy.src.buffer)->layout.extent[0] * BOX_ROW_BYTES;
    for (int box = 0; box < GROUP_COLUMNS / columns; box++) {
        Expr *coordinates[5];
        Expr *const column =
            i32_op(pr, X_ADD, i32_mul(pr, var_of(pr, pr->group), GROUP_COLUMNS), columns * box);
        slice_coordinates(pr, &op->copy.dst, coordinates, NULL, column);
        emit_box_store(pr, op, plan->map,
                       expr_binary(pr->arena, X_ADD, var_of(pr, stage), u32_const(pr, box * box_bytes)), coordinates);
    }
    emit_call(pr, "tma_commit", 0);
}

void print_transposed(Printer *pr, const StorePlan *plan)
{
    const DType type = plan->op->copy.dst.buffer->type;
    const TileInfo *const tile = tile_info(pr->lo, plan->op->copy.src.buffer);
    Nest block, one;
    begin_block(pr, &block);
    Var *const stage = emit_declare(pr, DTYPE_U32, "stage", staging_address(pr, NULL));
    if (plan->frees_staging) print_group_done(pr);
    if (dtype_bits(type) == 16) fill_with_16_bits(pr, tile, type, stage);
    else fill_with_f32(pr, tile, stage);
    if (plan->issues_early) print_part(pr, ACTION_SCOPE);
    emit_call(pr, "fence_async", 0);
    emit_call(pr, "bar_sync", 2, i32_op(pr, X_ADD, var_of(pr, pr->group), BAR_GROUPS),
              i32_const(pr, WARPGROUP_THREADS));
    begin_if(pr, &one, i32_op(pr, X_EQ, i32_op(pr, X_MOD, var_of(pr, pr->thread), WARPGROUP_THREADS), 0));
    send_boxes(pr, plan, stage);
    end_nest(pr, &one);
    end_nest(pr, &block);
}
