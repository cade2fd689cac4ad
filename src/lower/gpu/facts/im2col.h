// SPDX-License-Identifier: MIT
// im2col.h - tiles whose rows are a tensor's rows in the order of a linear index: output pixel p of a convolution,
// p = (n*OH + y)*OW + x, whose row is X[n][y*stride - pad + tap][x*stride - pad + tap].
//
// The tensor memory accelerator walks them itself (its im2col mode): from a first pixel on, dimension after dimension,
// each from its first position on by steps, as often as it is counted. The first position and the step are the tensor
// map's, and so the launch's; how far the tap moves all rows is the copy's.
#ifndef KILN_LOWER_GPU_FACTS_IM2COL_H
#define KILN_LOWER_GPU_FACTS_IM2COL_H

#include "lower/gpu/facts/lowering.h"

enum { IM2COL_WALKED = 3 }; // dimensions at most between the outermost, which is not limited, and the columns

// A dimension that is walked. All but `offset` are functions of launch arguments.
typedef struct Walked {
    Expr *first, *step, *count;
    Expr *offset;       // of the copy; NULL: none
    Expr *least, *most; // of the offset; NULL with it
    Expr *rises;        // what must hold that these are its ends; NULL: proved
} Walked;

typedef struct Im2col {
    int rows, columns, n;         // n: dimensions that are walked
    Walked walked[IM2COL_WALKED]; // the fastest first: a tensor's last but one
    Expr **subs;                  // of the tensor, of the element (row, column) of the tile
    Var *row, *column;
} Im2col;

// What the launch's numbers must be so that there is such a tensor map; NULL: proved.
Expr *im2col_fits(Lowering *lo, const Buffer *tensor, const Im2col *im2col);
// A walked dimension's last position, relative to the tensor's last.
Expr *im2col_last(const Lowering *lo, const Buffer *tensor, const Im2col *im2col, int i);
bool im2col_is_same(const Im2col *a, const Im2col *b); // for a tensor map

#endif
