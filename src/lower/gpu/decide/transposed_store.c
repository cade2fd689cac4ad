// SPDX-License-Identifier: MIT
// transposed_store.c - f32 sums that were computed transposed (products.c), added to a tensor: a group's 64 columns,
// rows as they are.
//
// A whole group fills two boxes of 32 columns by all rows, synchronises, and one thread adds both
// (print_transposed_store.c). Staging belongs to the group.
#include "lower/gpu/decide/store.h"
#include "lower/gpu/facts/box.h"
#include "lower/gpu/facts/info.h"

bool store_is_transposed(Lowering *lo, TileOp *op)
{
    const TileInfo *const tile = op->kind == T_ATOMIC_TILE && !lo->kernel->checked ? staged_fragment(lo, op) : NULL;
    if (!tile || tile->buffer->type != DTYPE_F32 || op->copy.dst.buffer->type != DTYPE_F32) return false;
    const int rows = tile->layout.extent[0], columns = tile->layout.extent[1];
    Layout layout = layout_accumulator(columns, rows, lo->partition, DIVIDE_ROWS);
    layout = layout_project(&layout, 2, (int[]){ 1, 0 });
    return layout_equal(&layout, &tile->layout) && columns == GROUP_BOXES * BOX_COLUMNS * lo->partition.groups &&
           rows <= 256 && rows % 8 == 0 && slice_is_box(lo, &op->copy.dst, rows, BOX_COLUMNS);
}

int transposed_store_bytes(const Lowering *lo, const TileOp *op)
{
    return GROUP_BOXES * tile_info(lo, op->copy.src.buffer)->layout.extent[0] * BOX_ROW_BYTES * lo->all.groups;
}
