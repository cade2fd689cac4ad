// SPDX-License-Identifier: MIT
// packed.c - f32 fragments to 16-bit fragments whose values stay in their registers: one instruction for two elements.
#include "layout/convert.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/info.h"

// Registers keep their numbers from one layout to the other, and are whole pairs.
static bool keeps_pairs(const Lowering *lo, const TileInfo *to, const TileInfo *from)
{
    const ConversionTarget target = { .partition = lo->partition, .element_bits = 16, .in_registers = true };
    Conversion how;
    return layout_registers(&to->layout) % 2 == 0 && !layout_convert(&from->layout, &to->layout, &target, &how) &&
           how.kind == CONVERT_SAME;
}

static bool are_packable(const Lowering *lo, const TileInfo *to, const TileInfo *from)
{
    if (!to || !from || to->storage != TILE_IN_REGISTERS || from->storage != TILE_IN_REGISTERS) return false;
    const DType type = to->buffer->type;
    return from->buffer->type == DTYPE_F32 && (type == DTYPE_BF16 || type == DTYPE_F16) && keeps_pairs(lo, to, from);
}

// p[i][j] = s[i][j], of all elements. Checked builds look at each.
bool is_packed_conversion(Lowering *lo, const TileOp *op, TileInfo **to, TileInfo **from)
{
    const TileOp *const store = op->forall.body;
    if (lo->kernel->checked || !store || store->next || store->kind != T_STORE ||
        store->store.value->kind != E_CONVERT || store->store.value->convert.a->kind != E_LOAD)
        return false;
    const Expr *const load = store->store.value->convert.a;
    *to = tile_info(lo, store->store.buffer);
    *from = tile_info(lo, load->load.buffer);
    if (!are_packable(lo, *to, *from)) return false;
    const int rank = (*to)->buffer->rank;
    int which[MAX_RANK], same[MAX_RANK];
    if (!subscripts_are_indices(store->store.subs, rank, op->forall.indices, op->forall.n, which) ||
        !subscripts_are_indices(load->load.subs, rank, op->forall.indices, op->forall.n, same) ||
        memcmp(which, same, sizeof(int) * (size_t)rank) != 0)
        return false;
    for (int d = 0; d < rank; d++) {
        int64_t extent;
        if (!full_extent(&op->forall.indices[which[d]], &extent) || extent != (*to)->layout.extent[d]) return false;
    }
    return true;
}
