// SPDX-License-Identifier: MIT
// checked.c - what --check builds add: subscripts of tiles inside, elements written before they are read. What they ask
// of arithmetic is in arithmetic.c.
//
// Such a build takes the general path everywhere (no producer, no groups of their own, products as loops), so that
// every access to a tile goes through scalar.c and map.c, element by element, and a trap stands in nobody's pipeline.
// Each tile has a shadow, a byte per element: in shared memory after the tiles, or registers beside its registers. The
// tile's declaration clears it, a store sets, a load tests (print_checked.c).
#include "lower/gpu/facts/checked.h"
#include "lower/gpu/facts/info.h"

bool has_shadow(const Lowering *lo, const TileInfo *tile)
{
    return lo->kernel->checked && tile && !tile->is_unwatched && !dtype_is_packed(tile->buffer->type);
}

int shadow_bytes(const Lowering *lo, const TileInfo *tile)
{
    return has_shadow(lo, tile) && tile->storage == TILE_IN_SHARED ? tile->shared.bytes / tile->shared.element_bytes
                                                                   : 0;
}

// Where memory does not suffice, the largest tile goes unwatched. False: none is left.
bool drop_shadow(Lowering *lo)
{
    TileInfo *largest = NULL;
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        if (shadow_bytes(lo, tile) > (largest ? shadow_bytes(lo, largest) : 0)) largest = tile;
    }
    if (!largest) return false;
    largest->is_unwatched = true;
    note(lo, "no room to watch for reads of '%s' before it is written", largest->buffer->name);
    return true;
}
