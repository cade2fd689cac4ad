// SPDX-License-Identifier: MIT
// product.h - products: what deciding tells printing, and the printing functions of each kind.
#ifndef KILN_LOWER_CUDA_PRODUCT_H
#define KILN_LOWER_CUDA_PRODUCT_H

#include "lower/cuda/cuda.h"

// ---- decide_product.c
void decide_product(Lowering *lo, TileOp *op);

// ---- partial.c: deciding
void act_keep_first(Lowering *lo, const TileInfo *tile); // its value in the first copy, zeros in the others
void act_join_groups(Lowering *lo, const TileInfo *tile);

// ---- print_partial.c
void print_partial(Lowering *lo, const Action *action); // of an ACTION_MAP that is not MAP_ELEMENTS

// ---- print_product.c, wgmma.c, mma.c, fma.c: printing
void print_product(Lowering *lo, const Action *action);
void print_preload(Lowering *lo, const Action *action);
void fence_registers(Lowering *lo, const TileInfo *acc, Var *registers); // they are not accessed before this
void print_register_fence(Lowering *lo, const Action *action);
void emit_wgmma(Lowering *lo, Product *p);
void emit_mma(Lowering *lo, Product *p);
void emit_fma(Lowering *lo, Product *p);
Var *pack_left(Lowering *lo, const Product *p); // the left operand's words, from its fragment

#endif
