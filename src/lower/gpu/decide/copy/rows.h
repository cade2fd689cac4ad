// SPDX-License-Identifier: MIT
// rows.h - rows of tensors that become rows of a tile, tile[r][d] = f(tensor[..r..][d]): for the files that move them.
//
//   rows.c                     which statements have this form, and how their rows lie among the lanes
//   decide_rows.c              how each is done
//   gather.c                   rows that are copied
//   register_prefetch.c        rows that pass through registers, which the step before has loaded
//   row_index_loop.c           the loop of a pipeline that knows its rows a step ahead
//   print_gather.c, convert.c, print_register_prefetch.c, print_row_index_loop.c, lines.c
//                              printing (print_rows.h); lines.c: where a lane stands in a row of the tensor and of the tile
#ifndef KILN_LOWER_GPU_DECIDE_COPY_ROWS_H
#define KILN_LOWER_GPU_DECIDE_COPY_ROWS_H

#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/facts/row_pieces.h"

// ---- what printing must know

// How a statement's rows are moved.
typedef struct RowsPlan {
    PlanForm form; // PLAN_ROWS
    const TileOp *op;
    enum {
        ROWS_COPIED,
        ROWS_CONVERTED,
        ROWS_FROM_REGISTERS, // converted, of a register prefetch
        ROWS_WENT_BEFORE,    // a tail, which went with the conversion before it
    } how;
    Rows rows, tail;
    bool has_tail;
} RowsPlan;

// Elements of a one-dimensional tile, each by the thread to whose warp its row belongs.
typedef struct RowElements {
    PlanForm form; // PLAN_ROW_ELEMENTS
    TileOp *map;
} RowElements;

// Rows whose places are worked out before their tile is waited for.
typedef struct LookUp {
    TileOp *op, *same; // same: one whose places these are, but for `shift` columns; NULL: none
    Rows rows;
    int64_t shift;
    bool is_shared; // a row's place is one lane's to work out: it takes divisions
} LookUp;
typedef VEC(LookUp *) LookUps;

// What a pipeline has in registers before the step that converts it: so many lines, each chunks of so many units;
// tail.units 0: no tail. alternates: a step converts one line, and the other held is the next step's.
enum { LINES_HELD = 2 };
typedef struct PrefetchedRows {
    TileOp *pipeline;
    Rows rows, tail;
    int units, chunks, held;
    int tail_bytes; // from where a lane loads of a row to where it loads of its tail; 0: it is not known
    bool alternates;
} PrefetchedRows;

// Rows of one statement of a pipeline with row indices.
typedef struct StepRows {
    const TileOp *op;
    Rows rows, tail;
    bool is_rows, is_spread, has_tail;
} StepRows;

// The loop of a pipeline with row indices, and what is made before each step.
typedef struct RowIndexLoop {
    StepsForm form; // STEPS_OF_ROW_INDICES
    TileOp *op;
    const PrefetchedRows *prefetched; // NULL: there is no register prefetch
    VEC(StepRows *) rows;
} RowIndexLoop;

// ---- rows.c
bool fill_is_rows(Lowering *lo, TileOp *op);
bool fill_is_gather(Lowering *lo, TileOp *op); // a plain copy of rows
bool choose_row_pieces(Lowering *lo, TileOp *forall, int piece, int across, Layout *layout);
bool plan_rows(Lowering *lo, TileOp *op, Rows *rows);   // false: it has no such form
bool lay_rows(Lowering *lo, Rows *rows);                // among the lanes; false: they cannot
bool spread_rows(Lowering *lo, TileOp *op, Rows *rows); // both

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

// ---- row_index_loop.c
void decide_row_index_loop(Lowering *lo, TileOp *pipeline, void rows(Lowering *, TileOp *));

#endif
