// SPDX-License-Identifier: MIT
// checked.h - what --check builds add.
#ifndef KILN_LOWER_CUDA_CHECKED_H
#define KILN_LOWER_CUDA_CHECKED_H

#include "lower/cuda/cuda.h"

// ---- checked.c: deciding
bool has_shadow(const Lowering *lo, const TileInfo *tile);
int shadow_bytes(const Lowering *lo, const TileInfo *tile); // of shared memory
bool drop_shadow(Lowering *lo);

// ---- print_checked.c
void declare_shadow(Lowering *lo, TileInfo *tile);
void print_unwritten(Lowering *lo, const TileInfo *tile);
void mark_written(Lowering *lo, const Place *place);
Expr *test_written(Lowering *lo, const Place *place, Expr *x, Span span);
Expr *test_subscript(Lowering *lo, const Buffer *tile, int d, Expr *sub, Expr *lowered, Span span);

#endif
