// SPDX-License-Identifier: MIT
// operands.h - operands of products: where their slices lie, and how multiply-adds read them.
#ifndef KILN_LOWER_GPU_FACTS_OPERANDS_H
#define KILN_LOWER_GPU_FACTS_OPERANDS_H

#include "lower/gpu/facts/product.h"

int row_padding(const Buffer *tile);   // elements between its rows: layout(tile) = padded(n)
bool reads_elements(const Product *p); // one by one, of either operand
bool product_region(const Region *region, int64_t *start, int64_t *width); // two ranges at fixed places
const MmaShape *product_mma(const Lowering *lo, const Product *p);         // of one that tensor cores take

// ---- multiply-adds
const char *fma_class(DType type);                       // of the prelude; NULL: there is none
int fma_piece(DType type);                               // elements of the contraction, or lines, that one load brings
bool fma_is_along(const Operand *operand, bool is_left); // the contraction runs along rows of its tile

#endif
