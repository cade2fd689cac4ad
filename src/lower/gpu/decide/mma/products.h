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

#endif
