// SPDX-License-Identifier: MIT
// tiles.c - printing of the variables that stand for tiles: arrays of registers, and pointers to the buffer in use.
#include "lower/cuda/checked.h"
#include "lower/cuda/print.h"

static void declare_fragment(Lowering *lo, TileInfo *tile)
{
    const int registers = layout_registers(&tile->layout);
    const char *const name = tile->buffer->name;
    tile->registers = tile->is_packed ? emit_array(lo, DTYPE_U32, name, registers / 2)
                                      : emit_array(lo, loop_type(tile->buffer->type), name, registers);
}

static void declare_shared(Lowering *lo, TileInfo *tile)
{
    const DType type = loop_type(tile->buffer->type);
    tile->pointer = loop_new_pointer(lo->unit, type, tile->buffer->name);
    emit_definition(lo, tile->pointer, shared_pointer(lo, type, i32_const(lo, tile->offset)));
    if (tile->alternates) tile->buffer_offset = emit_declare(lo, DTYPE_I32, "buffer_offset", i32_const(lo, 0));
}

// Those of the role that is being printed.
void print_tiles(Lowering *lo)
{
    const bool produces = lo->role == ROLE_PRODUCER;
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        const bool is_of_producer = tile->ring || tile->is_private;
        if (produces ? !is_of_producer : tile->is_private) continue;
        if (tile->storage == TILE_IN_SHARED) declare_shared(lo, tile);
        else if (lo->is_specialised && tile->groups && !(tile->groups >> lo->walk & 1)) continue; // of another group
        else declare_fragment(lo, tile);
        declare_shadow(lo, tile);
    }
}

void print_slot_pointers(Lowering *lo, const Ring *ring)
{
    for (int t = 0; t < ring->n_tiles; t++) {
        const TileInfo *const tile = ring->tiles[t];
        Expr *offset = i32_const(lo, tile->offset);
        if (tile->buffers > 1) {
            Expr *const slot = var_of(lo, ring->ring_state->slot);
            Expr *const bytes = expr_binary(lo->arena, X_MUL, slot, u32_const(lo, tile->shared.bytes));
            offset = i32_add(lo, offset, cast(lo, DTYPE_I32, bytes));
        }
        emit_assign(lo, tile->pointer, shared_pointer(lo, tile->pointer->type, offset));
    }
}

// The tile's other buffer, as this pass through its block begins to fill it.
void print_other_buffer(Lowering *lo, const TileInfo *tile)
{
    emit_assign(lo, tile->buffer_offset, i32_op(lo, X_BITXOR, var_of(lo, tile->buffer_offset), tile->shared.bytes));
    Expr *const offset = i32_add(lo, i32_const(lo, tile->offset), var_of(lo, tile->buffer_offset));
    emit_assign(lo, tile->pointer, shared_pointer(lo, tile->pointer->type, offset));
}
