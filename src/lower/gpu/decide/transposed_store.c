// SPDX-License-Identifier: MIT
// transposed_store.c - accumulators that were computed transposed, rows as they are: f32 sums that are added to a
// tensor, and values of 16 bits that are stored.
//
// A whole group has 64 columns. It fills boxes of 128 bytes of columns by all rows, synchronises, and one thread sends
// them (print_transposed_store.c): a warp alone has 16 columns, whose rows of 32 bytes the copy engine takes slowly.
// Staging belongs to the group.
#include "lower/gpu/decide/store.h"
#include "lower/gpu/facts/box.h"
#include "lower/gpu/facts/info.h"

static bool converts(const TileOp *op, DType from, DType to)
{
    if (op->kind == T_ATOMIC_TILE) return from == DTYPE_F32 && to == DTYPE_F32;
    return dtype_bits(to) == 16 && (from == to || (from == DTYPE_F32 && dtype_is_float(to)));
}

bool store_is_transposed(Lowering *lo, TileOp *op)
{
    const TileInfo *const tile = lo->kernel->checked ? NULL : staged_fragment(lo, op);
    if (!tile || !converts(op, tile->buffer->type, op->copy.dst.buffer->type)) return false;
    const int rows = tile->layout.extent[0], columns = tile->layout.extent[1];
    Layout layout = layout_accumulator(columns, rows, lo->partition, DIVIDE_ROWS);
    layout = layout_project(&layout, 2, (int[]){ 1, 0 });
    return layout_equal(&layout, &tile->layout) && columns == GROUP_COLUMNS * lo->partition.groups && rows <= 256 &&
           rows % (op->kind == T_COPY ? 16 : 8) == 0 &&
           slice_is_box(lo, &op->copy.dst, rows, transposed_columns(op));
}

int transposed_store_bytes(const Lowering *lo, const TileOp *op)
{
    const int boxes = GROUP_COLUMNS / transposed_columns(op);
    return boxes * tile_info(lo, op->copy.src.buffer)->layout.extent[0] * BOX_ROW_BYTES * lo->all.groups;
}
