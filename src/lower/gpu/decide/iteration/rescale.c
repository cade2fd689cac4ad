// SPDX-License-Identifier: MIT
// rescale.c - an accumulator times a factor of its rows, which in a running softmax is 1 in most steps: a warp whose
// factors are all 1 skips it.
//
// That pays where the base of a running softmax is rescaled lazily, so that factors nearly always are 1 (attention
// forward +3.5%, latent attention +3..5%). Where it followed at once attention forward lost 1.5%.
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/info.h"

enum { RESCALE_REGISTERS = 32 }; // fewer multiplications are not worth a vote

// acc[i][d] *= factor[i]
const TileInfo *rescale_factor(Lowering *lo, const TileOp *op)
{
    const TileOp *const update = op->kind == T_FORALL ? op->forall.body : NULL;
    if (!update || !op_info(lo, op)->parent || op_info(lo, op)->parent->kind != T_PIPELINE || update->next ||
        op->forall.n != 2 || update->kind != T_UPDATE || update->update.var || update->update.op != UPDATE_MUL ||
        update->update.reduces || update->update.value->kind != E_LOAD)
        return NULL;
    const TileInfo *const acc = tile_info(lo, update->update.buffer);
    const Expr *const load = update->update.value;
    const TileInfo *const factor = tile_info(lo, load->load.buffer);
    int which[MAX_RANK], row[MAX_RANK];
    if (!acc || !acc->is_accumulator || acc->storage != TILE_IN_REGISTERS ||
        layout_registers(&acc->layout) < RESCALE_REGISTERS || !factor || factor->storage != TILE_IN_REGISTERS ||
        factor->buffer->rank != 1 || factor->buffer->type != DTYPE_F32 ||
        !subscripts_are_indices(update->update.subs, 2, op->forall.indices, 2, which) ||
        !subscripts_are_indices(load->load.subs, 1, op->forall.indices, 2, row) || row[0] != which[0])
        return NULL;
    return factor;
}
