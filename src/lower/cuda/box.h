// SPDX-License-Identifier: MIT
// box.h - slices of tensors as boxes, for the files that move them (box.c finds them, tma.c prints the copies).
#ifndef KILN_LOWER_CUDA_BOX_H
#define KILN_LOWER_CUDA_BOX_H

#include "lower/cuda/cuda.h"

enum {
    BOX_RANK = 5, // dimensions, at most
    BOX_ALIGN = 128
}; // bytes, of a box's place in shared memory

// A slice that is fetched, as a box of the tensor under it.
typedef struct Box {
    Buffer *tensor;
    Expr *start[MAX_RANK];
    int64_t width[MAX_RANK]; // 1 for indices
    int cut;                 // the dimension of which only `skip` .. `rows` may be inside the views; -1: none
    Expr *skip, *rows;
} Box;

bool find_box(Lowering *lo, const Region *region, Box *box);
bool box_widths(Lowering *lo, const Region *region,
                int64_t *widths);                        // of a tensor, in any shape; slowest dimension first
bool is_rows_of_tile(const Region *dst, int64_t *first); // all of a tile, or some of its rows, from `first` on
bool is_not_negative(Lowering *lo, const Expr *x);

#endif
