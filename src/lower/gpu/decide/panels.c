// SPDX-License-Identifier: MIT
// panels.c - deciding: an accumulator into a shared tile that products read: 16 columns of a warp's rows by one stmatrix.
//
// The general path stores pairs, each with an address of its own. Here a lane has one address for a block of 64 rows;
// columns 16 further are an XOR of 32 within the swizzled panel.
#include "lower/gpu/decide/panels.h"
#include "lower/gpu/facts/info.h"

static bool find_panels(Lowering *lo, const TileOp *op, PanelsPlan *plan)
{
    const TileInfo *const from = tile_info(lo, op->copy.src.buffer), *const to = tile_info(lo, op->copy.dst.buffer);
    if (op->kind != T_COPY || !lo->gpu->stmatrix || lo->partition.warps != 4 || !from || !to ||
        from->storage != TILE_IN_REGISTERS || to->storage != TILE_IN_SHARED || !to->wants_panels ||
        to->shared.swizzle_bytes != 128 || from->buffer->rank != 2 || !region_is_whole(&op->copy.src) ||
        !region_is_whole(&op->copy.dst) || dtype_bits(to->buffer->type) != 16 || !dtype_is_float(to->buffer->type) ||
        (from->buffer->type != DTYPE_F32 && from->buffer->type != to->buffer->type))
        return false;
    Division division;
    if (!layout_is_accumulator(&from->layout, lo->partition, &division)) return false;
    const int rows = from->layout.extent[0], columns = from->layout.extent[1], groups = lo->partition.groups;
    const int step = 64 * (division == DIVIDE_ROWS ? groups : 1), parts = division == DIVIDE_ROWS ? 1 : groups;
    if (rows % step != 0 || columns % (16 * parts) != 0) return false;
    *plan = (PanelsPlan){ PLAN_PANELS, from, to, division, rows / step, columns / parts };
    return true;
}

bool copy_is_panels(Lowering *lo, const TileOp *op)
{
    PanelsPlan plan;
    return find_panels(lo, op, &plan);
}

const PanelsPlan *plan_panels(Lowering *lo, const TileOp *op)
{
    PanelsPlan found;
    if (!find_panels(lo, op, &found)) return NULL;
    PanelsPlan *const plan = NEW(lo->arena, PanelsPlan);
    *plan = found;
    return plan;
}
