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

// ---- fma.c
const char *fma_class(DType type); // of the prelude; NULL: there is none
int fma_piece(DType type);         // elements of the contraction, or lines, that one load brings
bool fma_is_along(const Operand *operand,
                  bool is_left); // its lines are rows of its tile, the contraction runs along them

// ---- print_product.c, wgmma.c, mma.c, print_fma.c, print_sparse.c: printing
void print_product(Lowering *lo, const Action *action);
void print_preload(Lowering *lo, const Action *action);
void fence_registers(Lowering *lo, const TileInfo *acc, Var *registers); // they are not accessed before this
void print_register_fence(Lowering *lo, const Action *action);
void emit_wgmma(Lowering *lo, Product *p);
void emit_mma(Lowering *lo, Product *p);
void emit_fma(Lowering *lo, Product *p);
void emit_zeros(Lowering *lo, const TileInfo *acc); // unless the product accumulates
void load_four(Lowering *lo, const Operand *x, bool across, Expr *line, Expr *k, bool lines_first, Var *words,
               Expr *at);
Var *load_places(Lowering *lo, const Product *p); // each lane's words, step after step for each block of rows
Var *pack_left(Lowering *lo, const Product *p);   // the left operand's words, from its fragment

#endif
