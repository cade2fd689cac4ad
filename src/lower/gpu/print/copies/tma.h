// SPDX-License-Identifier: MIT
// tma.h - printing copies of boxes by TMA, and the addresses and coordinates that they need.
#ifndef KILN_LOWER_GPU_PRINT_COPIES_TMA_H
#define KILN_LOWER_GPU_PRINT_COPIES_TMA_H

#include "lower/gpu/print/build/printer.h"
#include "lower/gpu/facts/box.h"

Expr *map_address(Printer *pr, int map);
// Of the first box of a slice, fastest first. `row` and `column` lead from there to the box at hand; row_dim as there.
// rows: what is added to each, the fastest dimension first; NULL: nothing, in all or one
void slice_coordinates(Printer *pr, const Region *region, Expr **coordinates, Expr *const *rows, Expr *column);
void print_box_copy(Printer *pr, const BoxCopy *copy);

#endif
