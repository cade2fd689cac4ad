// SPDX-License-Identifier: MIT
// print_partial.c - printing: tiles in registers of which several threads or warp groups hold parts.
//
// before: the tile is declared; scratch in shared memory is reserved
// after:  MAP_KEEP_FIRST: one copy of each element has its value, the others are zero
//         MAP_JOIN_GROUPS: every copy has the sum of all
#include "lower/cuda/actions.h"
#include "lower/cuda/map.h"
#include "lower/cuda/print.h"
#include "lower/cuda/print_action.h"
#include "lower/cuda/product.h"
#include "lower/cuda/reduce.h"

static Var *begin_registers(Lowering *lo, Nest *nest, const TileInfo *tile)
{
    return begin_unrolled(lo, nest, "r", layout_registers(&tile->layout));
}

static void print_keep_first(Lowering *lo, const TileInfo *tile)
{
    Nest nest;
    Expr *const at = var_of(lo, begin_registers(lo, &nest, tile));
    Expr *const value = expr_index(lo->arena, tile->registers, at);
    Expr *const first = replica_is_first(lo, &tile->layout);
    emit_element(lo, tile->registers, at, expr_select(lo->arena, first, value, expr_float(lo->arena, value->type, 0)));
    end_nest(lo, &nest);
}

// ---- parts of warp groups

// Where this thread's register r of the part of `group` is: neighbouring lanes in neighbouring words.
static Expr *part_at(Lowering *lo, Expr *r, Expr *group)
{
    const int threads = 32 * lo->partition.warps;
    Expr *const mine = i32_add(lo, i32_mul(lo, var_of(lo, lo->warp), 32), var_of(lo, lo->lane));
    return i32_add(lo, i32_mul(lo, i32_add(lo, i32_mul(lo, r, lo->partition.groups), group), threads), mine);
}

static void store_parts(Lowering *lo, const TileInfo *tile, Var *scratch)
{
    Nest nest;
    Var *const r = begin_registers(lo, &nest, tile);
    emit_element(lo, scratch, part_at(lo, var_of(lo, r), var_of(lo, lo->group)),
                 expr_index(lo->arena, tile->registers, var_of(lo, r)));
    end_nest(lo, &nest);
}

static void add_parts(Lowering *lo, const TileInfo *tile, Var *scratch)
{
    Nest nest;
    Var *const r = begin_registers(lo, &nest, tile);
    Expr *sum = expr_index(lo->arena, scratch, part_at(lo, var_of(lo, r), i32_const(lo, 0)));
    for (int g = 1; g < lo->partition.groups; g++)
        sum = expr_binary(lo->arena, X_ADD, sum,
                          expr_index(lo->arena, scratch, part_at(lo, var_of(lo, r), i32_const(lo, g))));
    emit_element(lo, tile->registers, var_of(lo, r), sum);
    end_nest(lo, &nest);
}

// All groups add the parts in one order, so that their copies have the same bits.
static void print_join_groups(Lowering *lo, const TileInfo *tile)
{
    Nest block;
    begin_block(lo, &block);
    Var *const scratch = loop_new_pointer(lo->unit, DTYPE_F32, "parts");
    emit_definition(lo, scratch,
                    call_expr(lo, DTYPE_F32, "shared_pointer<float>", 1, i32_const(lo, lo->scratch_offset)));
    print_parts_through(lo, ACTION_BARRIER_SYNC);
    store_parts(lo, tile, scratch);
    print_parts_through(lo, ACTION_BARRIER_SYNC);
    add_parts(lo, tile, scratch);
    end_nest(lo, &block);
}

void print_partial(Lowering *lo, const Action *action)
{
    const TileInfo *const tile = lo->declared.items[action->map.tile];
    switch (action->map.how) {
    case MAP_KEEP_FIRST: print_keep_first(lo, tile); return;
    case MAP_JOIN_GROUPS: print_join_groups(lo, tile); return;
    case MAP_JOIN_THREADS: print_join_sums(lo, action->print); return;
    case MAP_ELEMENTS:
    case MAP_CONVERT: return;
    }
}
