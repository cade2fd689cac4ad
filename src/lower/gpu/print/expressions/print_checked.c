// SPDX-License-Identifier: MIT
// print_checked.c - what --check builds add to accesses of tiles: shadows, cleared, set and tested, and tests of
// subscripts.
//
// before: memory.c has placed the shadows (checked.c)        after: traps stand where an access may be wrong
#include "lower/gpu/print/expressions/expressions.h"
#include "lower/gpu/facts/checked.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/partition.h"

void declare_shadow(Printer *pr, TileInfo *tile)
{
    const char *const name = arena_printf(pr->arena, "%s_written", tile->buffer->name);
    if (!has_shadow(pr->lo, tile)) return;
    if (tile->storage == TILE_IN_REGISTERS) {
        tile_vars(pr, tile)->shadow = emit_array(pr, DTYPE_U8, name, layout_registers(&tile->layout));
        return;
    }
    tile_vars(pr, tile)->shadow = loop_new_pointer(pr->unit, DTYPE_U8, name);
    emit_definition(pr, tile_vars(pr, tile)->shadow,
                    call_expr(pr, DTYPE_U8, "shared_pointer<uint8_t>", 1, i32_const(pr, tile->shadow_offset)));
}

static void store_shadow(Printer *pr, const TileInfo *tile, Expr *at, int value)
{
    emit_element(pr, tile_vars(pr, tile)->shadow, at, expr_int(pr->arena, DTYPE_U8, value));
}

// Where the tile is declared: nothing in it is written any more.
void print_unwritten(Printer *pr, const TileInfo *tile)
{
    const bool shared = tile->storage == TILE_IN_SHARED;
    Var *const i = loop_new_var(pr->unit, DTYPE_I32, "i");
    Nest nest;
    begin_for(pr, &nest, i, shared ? var_of(pr, pr->thread) : i32_const(pr, 0),
              i32_const(pr, shared ? shadow_bytes(pr->lo, tile) : layout_registers(&tile->layout)),
              i32_const(pr, shared ? all_threads(pr->lo) : 1), shared ? LOOP_NO_UNROLL : LOOP_UNROLL);
    store_shadow(pr, tile, var_of(pr, i), 0);
    end_nest(pr, &nest);
}

void mark_written(Printer *pr, const Place *place)
{
    const TileInfo *const tile = tile_info(pr->lo, place->root);
    if (has_shadow(pr->lo, tile) && !place->recast) store_shadow(pr, tile, place->at, 1);
}

// `x` read at this place, after a test that it was written.
Expr *test_written(Printer *pr, const Place *place, Expr *x, Span span)
{
    const TileInfo *const tile = tile_info(pr->lo, place->root);
    if (!has_shadow(pr->lo, tile) || place->recast) return x;
    return call_expr(pr, x->type, "written", 4, x, expr_index(pr->arena, tile_vars(pr, tile)->shadow, place->at),
                     fault_record(pr), trap_text(pr, span, common_unwritten_text(pr->arena, tile->buffer)));
}

// The lowered subscript of a tile, tested unless it is proved. i32.
Expr *test_subscript(Printer *pr, const Buffer *tile, int d, Expr *sub, Expr *lowered, Span span)
{
    int64_t extent;
    if (!pr->lo->kernel->checked || !expr_as_int(tile->shape[d], &extent) || common_is_inside(sub, tile->shape[d]))
        return lowered;
    return call_expr(pr, DTYPE_I32, "inside", 4, lowered, i32_const(pr, extent), fault_record(pr),
                     trap_text(pr, span, common_outside_text(pr->arena, tile)));
}
