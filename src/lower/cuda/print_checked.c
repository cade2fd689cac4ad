// SPDX-License-Identifier: MIT
// print_checked.c - what --check builds add to accesses of tiles: shadows, cleared, set and tested, and tests of
// subscripts.
//
// before: memory.c has placed the shadows (checked.c)        after: traps stand where an access may be wrong
#include "lower/cuda/checked.h"
#include "lower/cuda/print.h"

void declare_shadow(Lowering *lo, TileInfo *tile)
{
    const char *const name = arena_printf(lo->arena, "%s_written", tile->buffer->name);
    if (!has_shadow(lo, tile)) return;
    if (tile->storage == TILE_IN_REGISTERS) {
        tile->shadow = emit_array(lo, DTYPE_U8, name, layout_registers(&tile->layout));
        return;
    }
    tile->shadow = loop_new_pointer(lo->unit, DTYPE_U8, name);
    emit_definition(lo, tile->shadow,
                    call_expr(lo, DTYPE_U8, "shared_pointer<uint8_t>", 1, i32_const(lo, tile->shadow_offset)));
}

static void store_shadow(Lowering *lo, const TileInfo *tile, Expr *at, int value)
{
    emit_element(lo, tile->shadow, at, expr_int(lo->arena, DTYPE_U8, value));
}

// Where the tile is declared: nothing in it is written any more.
void print_unwritten(Lowering *lo, const TileInfo *tile)
{
    const bool shared = tile->storage == TILE_IN_SHARED;
    Var *const i = loop_new_var(lo->unit, DTYPE_I32, "i");
    Nest nest;
    begin_for(lo, &nest, i, shared ? var_of(lo, lo->thread) : i32_const(lo, 0),
              i32_const(lo, shared ? shadow_bytes(lo, tile) : layout_registers(&tile->layout)),
              i32_const(lo, shared ? all_threads(lo) : 1), shared ? LOOP_NO_UNROLL : LOOP_UNROLL);
    store_shadow(lo, tile, var_of(lo, i), 0);
    end_nest(lo, &nest);
}

void mark_written(Lowering *lo, const Place *place)
{
    const TileInfo *const tile = tile_info(lo, place->root);
    if (has_shadow(lo, tile) && !place->recast) store_shadow(lo, tile, place->at, 1);
}

// `x` read at this place, after a test that it was written.
Expr *test_written(Lowering *lo, const Place *place, Expr *x, Span span)
{
    const TileInfo *const tile = tile_info(lo, place->root);
    if (!has_shadow(lo, tile) || place->recast) return x;
    return call_expr(lo, x->type, "written", 4, x, expr_index(lo->arena, tile->shadow, place->at), fault_record(lo),
                     trap_text(lo, span, common_unwritten_text(lo->arena, tile->buffer)));
}

// The lowered subscript of a tile, tested unless it is proved. i32.
Expr *test_subscript(Lowering *lo, const Buffer *tile, int d, Expr *sub, Expr *lowered, Span span)
{
    int64_t extent;
    if (!lo->kernel->checked || !expr_as_int(tile->shape[d], &extent) || common_is_inside(sub, tile->shape[d]))
        return lowered;
    return call_expr(lo, DTYPE_I32, "inside", 4, lowered, i32_const(lo, extent), fault_record(lo),
                     trap_text(lo, span, common_outside_text(lo->arena, tile)));
}
