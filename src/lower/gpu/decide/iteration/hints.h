// SPDX-License-Identifier: MIT
// hints.h - layouts that a source asks for, and panels of tiles in shared memory.
#ifndef KILN_LOWER_GPU_DECIDE_ITERATION_HINTS_H
#define KILN_LOWER_GPU_DECIDE_ITERATION_HINTS_H

#include "lower/gpu/facts/lowering.h"

// ---- hints.c: layout(tile) = swizzle(n), padded(n)
void take_layout_hints(Lowering *lo);
// shared_panels() of a tile, or what its hint wants: padded rows have swizzle_bytes 0. False: none for tensor cores.
bool tile_panels(const TileInfo *tile, int rows, int columns, int element_bytes, SharedLayout *layout);

#endif
