// SPDX-License-Identifier: MIT
// register_limits.h - what threads must hold at one time: decided by live.c and register_limits.c.
#ifndef KILN_LOWER_GPU_DECIDE_MEMORY_REGISTER_LIMITS_H
#define KILN_LOWER_GPU_DECIDE_MEMORY_REGISTER_LIMITS_H

#include "lower/gpu/facts/lowering.h"

// The registers of a thread that hold values of fragments, where they are most.
typedef struct LiveWords {
    int words;
    const TileOp *at; // NULL: there are none
    int product_words;
    const TileOp *product;     // the same, among products
    const struct Interval *of; // of each buffer: from where to where it is live
} LiveWords;

// ---- live.c
LiveWords live_words(Lowering *lo, int group, bool sums_only); // sums_only: of products' results alone
bool is_live(Lowering *lo, const LiveWords *live, const TileInfo *tile, const TileOp *op); // then

// ---- register_limits.c
void narrow_products(Lowering *lo);   // to what an instruction can name
bool registers_suffice(Lowering *lo); // for what products must hold at one time; else it is refused
void explain_registers(Lowering *lo);

#endif
