// SPDX-License-Identifier: MIT
// rows.h - which statements move rows of tensors to rows of a tile, and how their rows lie among the lanes.
#ifndef KILN_LOWER_GPU_DECIDE_ITERATION_ROWS_H
#define KILN_LOWER_GPU_DECIDE_ITERATION_ROWS_H

#include "lower/gpu/facts/row_pieces.h"

bool fill_is_rows(Lowering *lo, TileOp *op);
bool fill_is_gather(Lowering *lo, TileOp *op); // a plain copy of rows
bool choose_row_pieces(Lowering *lo, TileOp *forall, int piece, int across, Layout *layout);
bool plan_rows(Lowering *lo, TileOp *op, Rows *rows);   // false: it has no such form
bool lay_rows(Lowering *lo, Rows *rows);                // among the lanes; false: they cannot
bool spread_rows(Lowering *lo, TileOp *op, Rows *rows); // both

#endif
