// SPDX-License-Identifier: MIT
// print_partial.c - printing: tiles in registers of which several threads or warp groups hold parts.
//
// before: the tile is declared; scratch in shared memory is reserved
// after:  MAP_BEGIN_PARTIALS: one copy of each element has its value, the others are zero
//         MAP_COMBINE_GROUPS: every copy has the sum of all
#include "lower/gpu/print/build/parts.h"
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/print/elements/print_reduce.h"

static Var *begin_registers(Printer *pr, Nest *nest, const TileInfo *tile)
{
    return begin_unrolled(pr, nest, "r", layout_registers(&tile->layout));
}

static void print_begin_partials(Printer *pr, const TileInfo *tile)
{
    Nest nest;
    Expr *const at = var_of(pr, begin_registers(pr, &nest, tile));
    Expr *const value = expr_index(pr->arena, tile_vars(pr, tile)->registers, at);
    Expr *const first = replica_is_first(pr, &tile->layout);
    emit_element(pr, tile_vars(pr, tile)->registers, at,
                 expr_select(pr->arena, first, value, expr_float(pr->arena, value->type, 0)));
    end_nest(pr, &nest);
}

// ---- parts of warp groups

// Where this thread's register r of the part of `group` is: neighbouring lanes in neighbouring words.
static Expr *part_at(Printer *pr, Expr *r, Expr *group)
{
    const int threads = 32 * pr->lo->partition.warps;
    Expr *const mine = i32_add(pr, i32_mul(pr, var_of(pr, pr->warp), 32), var_of(pr, pr->lane));
    return i32_add(pr, i32_mul(pr, i32_add(pr, i32_mul(pr, r, pr->lo->partition.groups), group), threads), mine);
}

static void store_parts(Printer *pr, const TileInfo *tile, Var *scratch)
{
    Nest nest;
    Var *const r = begin_registers(pr, &nest, tile);
    emit_element(pr, scratch, part_at(pr, var_of(pr, r), var_of(pr, pr->group)),
                 expr_index(pr->arena, tile_vars(pr, tile)->registers, var_of(pr, r)));
    end_nest(pr, &nest);
}

static void add_parts(Printer *pr, const TileInfo *tile, Var *scratch)
{
    Nest nest;
    Var *const r = begin_registers(pr, &nest, tile);
    Expr *sum = expr_index(pr->arena, scratch, part_at(pr, var_of(pr, r), i32_const(pr, 0)));
    for (int g = 1; g < pr->lo->partition.groups; g++)
        sum = expr_binary(pr->arena, X_ADD, sum,
                          expr_index(pr->arena, scratch, part_at(pr, var_of(pr, r), i32_const(pr, g))));
    emit_element(pr, tile_vars(pr, tile)->registers, var_of(pr, r), sum);
    end_nest(pr, &nest);
}

// All groups add the parts in one order, so that their copies have the same bits.
static void print_combine_groups(Printer *pr, const TileInfo *tile)
{
    Nest block;
    begin_block(pr, &block);
    Var *const scratch = loop_new_pointer(pr->unit, DTYPE_F32, "parts");
    emit_definition(pr, scratch,
                    call_expr(pr, DTYPE_F32, "shared_pointer<float>", 1, i32_const(pr, pr->lo->scratch_offset)));
    print_parts_through(pr, ACTION_BARRIER_SYNC);
    store_parts(pr, tile, scratch);
    print_parts_through(pr, ACTION_BARRIER_SYNC);
    add_parts(pr, tile, scratch);
    end_nest(pr, &block);
}

void print_partial(Printer *pr, const Action *action)
{
    const TileInfo *const tile = pr->lo->declared.items[action->map.tile];
    switch (action->map.how) {
    case MAP_BEGIN_PARTIALS: print_begin_partials(pr, tile); return;
    case MAP_COMBINE_GROUPS: print_combine_groups(pr, tile); return;
    case MAP_COMBINE_THREADS: print_combine_threads(pr, action->print); return;
    case MAP_ELEMENTS:
    case MAP_CONVERT:
    case MAP_STAGE: return;
    }
}
