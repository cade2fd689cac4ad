// SPDX-License-Identifier: MIT
// checked.h - what --check builds add.
#ifndef KILN_LOWER_GPU_FACTS_CHECKED_H
#define KILN_LOWER_GPU_FACTS_CHECKED_H

#include "lower/gpu/facts/lowering.h"

// ---- checked.c: deciding
bool has_shadow(const Lowering *lo, const TileInfo *tile);
int shadow_bytes(const Lowering *lo, const TileInfo *tile); // of shared memory
bool drop_shadow(Lowering *lo);

#endif
