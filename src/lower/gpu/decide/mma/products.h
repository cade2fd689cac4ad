// SPDX-License-Identifier: MIT
// products.h - choosing how every product is computed, and how shared tiles lie for it.
#ifndef KILN_LOWER_GPU_DECIDE_MMA_PRODUCTS_H
#define KILN_LOWER_GPU_DECIDE_MMA_PRODUCTS_H

#include "lower/gpu/facts/product.h"

void choose_products(Lowering *lo);
bool has_products(Lowering *lo, TileOp *list);
TileOp *product_as_loops(Lowering *lo, TileOp *op); // [fill,] forall; each linked by `next`
bool has_padded_rows(const Product *p);             // of an operand in shared memory
bool product_is_fixed(const Product *p);            // both operands are such ranges

// ---- hints.c: layout(tile) = swizzle(n), padded(n)
void take_layout_hints(Lowering *lo);
// shared_panels() of a tile, or what its hint wants: padded rows have swizzle_bytes 0. False: none for tensor cores.
bool tile_panels(const TileInfo *tile, int rows, int columns, int element_bytes, SharedLayout *layout);

#endif
