// SPDX-License-Identifier: MIT
// forward_copies.c - what reads a copy of a tile reads the tile.
//
// A shared tile that is a whole copy of another one of its type costs its memory, the copy, and a barrier; a product of it
// waits for threads where the tile itself came by TMA. A fragment's copy costs registers at most, and may have another
// layout, as the operand of a product.
//
// before: simplified    after: where neither is written while the copy lives, all that comes after reads the tile
// never:  touches what `on` places: the copy may be how one group hands values to another; nor a tile with a layout hint,
//         nor fragments
#include "passes/passes.h"

static bool is_alike(const Buffer *a, const Buffer *b)
{
    return a->kind == BUFFER_SHARED && b->kind == BUFFER_SHARED && a->type == b->type && !a->hint && !b->hint &&
           !a->cluster_shared && !b->cluster_shared;
}

// The copy that makes the tile, which `declaration` declares: the first that touches it.
static TileOp **find_copy(TileOp *declaration)
{
    const Buffer *const tile = declaration->tile.buffer;
    TileOp **link = &declaration->next;
    while (*link && !tile_touches(*link, tile)) link = &(*link)->next;
    TileOp *const op = *link;
    const bool copies = op && op->kind == T_COPY && !op->groups && op->copy.dst.buffer == tile &&
                        op->copy.src.buffer != tile && is_alike(tile, op->copy.src.buffer) &&
                        region_is_whole(&op->copy.dst) && region_is_whole(&op->copy.src);
    return copies ? link : NULL;
}

static bool is_placed(const TileOp *op)
{
    for (; op; op = op->next) {
        TileOp **body;
        if (op->groups) return true;
        for (int i = 0; (body = tile_bodies((TileOp *)op, i)) != NULL; i++)
            if (is_placed(*body)) return true;
    }
    return false;
}

static void forward_in(TileKernel *kernel, TileOp **link)
{
    for (TileOp *op; (op = *link) != NULL;) {
        TileOp **const at = op->kind == T_TILE ? find_copy(op) : NULL, **body;
        const TileOp *const copy = at ? *at : NULL;
        if (copy && !is_placed(op) && !tile_block_writes(copy->next, copy->copy.src.buffer) &&
            !tile_block_writes(copy->next, copy->copy.dst.buffer)) {
            *at = tile_copy_replacing(kernel, copy->next, copy->copy.dst.buffer, copy->copy.src.buffer);
            *link = op->next;
            continue;
        }
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) forward_in(kernel, body);
        link = &op->next;
    }
}

void forward_copies(TileKernel *kernel)
{
    if (!kernel->checked) forward_in(kernel, &kernel->body);
}
