// SPDX-License-Identifier: MIT
// grid.h - the instances of the grid and the CTAs of a cluster.
#ifndef KILN_LOWER_GPU_PRINT_CONTROL_GRID_H
#define KILN_LOWER_GPU_PRINT_CONTROL_GRID_H

#include "lower/gpu/print/build/printer.h"

// ---- grid.c: printing
bool is_clustered(Printer *pr, int coordinate);
Expr *cluster_rank(Printer *pr); // of this CTA, worked out where it is used
void declare_rank(Printer *pr);
void begin_grid(Printer *pr, Nest *nest); // coordinates of the instance

#endif
