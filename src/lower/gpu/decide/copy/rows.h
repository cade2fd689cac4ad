// SPDX-License-Identifier: MIT
// rows.h - rows of tensors that become rows of a tile, tile[r][d] = f(tensor[..r..][d]): for the files that move them.
//
//   iteration/rows.c           which statements have this form, and how their rows lie among the lanes
//   decide_rows.c              how each is done
//   gather.c                   rows that are copied
//   register_prefetch.c        rows that pass through registers, which the step before has loaded
//   row_index_loop.c           the loop of a pipeline that knows its rows a step ahead
//   stepped_rows.c             rows that are walked by the launch's numbers, or copied by threads that step through them
//   shifted_rows.c             rows that begin anywhere, which threads shift where they are copied to
//   print_gather.c, convert.c, print_register_prefetch.c, print_row_index_loop.c, print_stepped_rows.c,
//   print_shifted_rows.c, next_step.c, lines.c
//                              printing (print_rows.h); lines.c: where a lane stands in a row of the tensor and of the tile
#ifndef KILN_LOWER_GPU_DECIDE_COPY_ROWS_H
#define KILN_LOWER_GPU_DECIDE_COPY_ROWS_H

#include "lower/gpu/decide/iteration/rows.h"
#include "lower/gpu/plans/rows.h"
#include "lower/gpu/decide/actions/actions.h"

// ---- decide_rows.c
bool fill_divides(Lowering *lo, TileOp *op, int n, bool *converts); // among n CTAs
bool can_send(Lowering *lo, const Rows *rows);                      // eight rows of every panel as one piece
const RowsPlan *decide_move(Lowering *lo, TileOp *op);              // NULL: it has no such form
void act_move(Lowering *lo, const RowsPlan *plan, Action action);   // the action of such a statement

// ---- gather.c
void look_up_rows(Lowering *lo, TileOp *op); // of a gather, before its tile is waited for

// ---- register_prefetch.c
TileOp *tail_of(Lowering *lo, TileOp *op, Rows *tail);                    // of a conversion; NULL: it has none
const PrefetchedRows *prefetched_rows_of(Lowering *lo, TileOp *pipeline); // NULL: none

// ---- stepped_rows.c
const SteppedRows *find_stepped_rows(Lowering *lo, const TileOp *pipeline); // of the producer without boxes; NULL: none
const SteppedCopy *plan_stepped_copy(Lowering *lo, const SteppedRows *rows);
bool is_made_inside(const Expr *x, void *pipeline); // the step before does not know it
bool is_whole_group(const Lowering *lo);            // the producer's threads, and they do nothing else

// ---- shifted_rows.c
const ShiftedRows *find_shifted_rows(Lowering *lo, const TileOp *pipeline); // of the producer without boxes; NULL: none
const ShiftedCopy *shifted_copy_of(const Lowering *lo, const TileOp *op);   // NULL: it is none

// ---- row_index_loop.c
void decide_row_index_loop(Lowering *lo, TileOp *pipeline, void rows(Lowering *, TileOp *));

#endif
