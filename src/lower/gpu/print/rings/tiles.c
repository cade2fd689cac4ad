// SPDX-License-Identifier: MIT
// tiles.c - printing of the variables that stand for tiles: arrays of registers, and pointers to the buffer in use.
#include "lower/gpu/print/expressions/expressions.h"
#include "lower/gpu/print/rings/print_rings.h"
#include "lower/gpu/facts/values.h"

static void declare_fragment(Printer *pr, TileInfo *tile)
{
    const int registers = layout_registers(&tile->layout);
    const char *const name = tile->buffer->name;
    tile_vars(pr, tile)->registers = tile->is_packed ? emit_array(pr, DTYPE_U32, name, registers / 2)
                                                     : emit_array(pr, loop_type(tile->buffer->type), name, registers);
}

static void declare_shared(Printer *pr, TileInfo *tile)
{
    const DType type = loop_type(tile->buffer->type);
    tile_vars(pr, tile)->pointer = loop_new_pointer(pr->unit, type, tile->buffer->name);
    emit_definition(pr, tile_vars(pr, tile)->pointer, shared_pointer(pr, type, i32_const(pr, tile->offset)));
    if (tile->alternates)
        tile_vars(pr, tile)->buffer_offset = emit_declare(pr, DTYPE_I32, "buffer_offset", i32_const(pr, 0));
}

// Those of the role that is being printed.
void print_tiles(Printer *pr)
{
    const bool produces = pr->lo->role == ROLE_PRODUCER;
    for (int i = 0; i < pr->lo->n_declared; i++) {
        TileInfo *const tile = pr->lo->declared.items[i];
        const bool is_of_producer = tile->ring || tile->is_private;
        if (produces ? !is_of_producer : tile->is_private) continue;
        if (tile->storage == TILE_IN_SHARED) declare_shared(pr, tile);
        else if (!tile->is_of_lanes && pr->lo->is_specialised && tile->groups && !(tile->groups >> pr->lo->walk & 1))
            continue; // of another group
        else declare_fragment(pr, tile);
        declare_shadow(pr, tile);
    }
}

void print_slot_pointers(Printer *pr, const Ring *ring)
{
    for (int t = 0; t < ring->n_tiles; t++) {
        const TileInfo *const tile = ring->tiles[t];
        Expr *offset = i32_const(pr, tile->offset);
        if (tile->buffers > 1) {
            Expr *const slot = var_of(pr, ring_vars(pr, ring->ring_state)->slot);
            Expr *const bytes = expr_binary(pr->arena, X_MUL, slot, u32_const(pr, tile->shared.bytes));
            offset = i32_add(pr, offset, cast(pr, DTYPE_I32, bytes));
        }
        emit_assign(pr, tile_vars(pr, tile)->pointer, shared_pointer(pr, tile_vars(pr, tile)->pointer->type, offset));
    }
}

// The tile's other buffer, as this pass through its block begins to fill it.
void print_other_buffer(Printer *pr, const TileInfo *tile)
{
    emit_assign(pr, tile_vars(pr, tile)->buffer_offset,
                i32_op(pr, X_BITXOR, var_of(pr, tile_vars(pr, tile)->buffer_offset), tile->shared.bytes));
    Expr *const offset = i32_add(pr, i32_const(pr, tile->offset), var_of(pr, tile_vars(pr, tile)->buffer_offset));
    emit_assign(pr, tile_vars(pr, tile)->pointer, shared_pointer(pr, tile_vars(pr, tile)->pointer->type, offset));
}
