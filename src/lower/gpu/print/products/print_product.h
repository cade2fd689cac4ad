// SPDX-License-Identifier: MIT
// print_product.h - printing products: wgmma, mma.sync and multiply-adds, and what stands around them.
#ifndef KILN_LOWER_GPU_PRINT_PRODUCTS_PRINT_PRODUCT_H
#define KILN_LOWER_GPU_PRINT_PRODUCTS_PRINT_PRODUCT_H

#include "lower/gpu/print/build/printer.h"
#include "lower/gpu/facts/product.h"

// ---- print_product.c
void print_product(Printer *pr, const Action *action);
void print_preload(Printer *pr, const Action *action);
void print_register_fence(Printer *pr, const Action *action);
void fence_registers(Printer *pr, const TileInfo *acc, Var *registers); // they are not accessed before this

// ---- wgmma.c, mma.c, print_fma.c, print_sparse.c
void emit_wgmma(Printer *pr, Product *p);
void emit_mma(Printer *pr, Product *p);
void emit_fma(Printer *pr, Product *p);
void emit_zeros(Printer *pr, const TileInfo *acc); // unless the product accumulates
Var *pack_left(Printer *pr, const Product *p);     // the left operand's words, from its fragment
Var *load_places(Printer *pr, const Product *p);   // each lane's words, step after step for each block of rows
// 16 lines (rows of A, columns of B) from `line` on, 32 bytes of the contraction from k on: four words from at on.
void load_words(Printer *pr, const Operand *x, const OperandLoad *load, Expr *line, Expr *k, Var *words, Expr *at);
Expr *lane_bits(Printer *pr, int shift, int mask); // of the lane's number

#endif
