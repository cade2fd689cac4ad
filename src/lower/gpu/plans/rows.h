// SPDX-License-Identifier: MIT
// rows.h - rows of tensors that become rows of a tile.
#ifndef KILN_LOWER_GPU_PLANS_ROWS_H
#define KILN_LOWER_GPU_PLANS_ROWS_H

#include "lower/gpu/plans/forms.h"
#include "lower/gpu/facts/row_pieces.h"
#include "lower/gpu/schedule/action.h"

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

// Rows whose indices are computed before their tile is waited for.
typedef struct LookUp {
    TileOp *op, *same; // same: one whose indices these are, but for `shift` columns; NULL: none
    Rows rows;
    int64_t shift;
    bool is_shared; // a row's place is one lane's to work out: it takes divisions, or a list that is not always read
} LookUp;
typedef VEC(LookUp *) LookUps;

// What a pipeline has in registers before the step that converts it: so many lines, each chunks of so many units;
// tail.units 0: no tail. alternates: a step converts one line, and the other held is the next step's.
enum { LINES_HELD = 2, LANE_ROWS_HELD = 8 * 4 * LINES_HELD }; // the latter by four warps
typedef struct PrefetchedRows {
    TileOp *pipeline;
    Rows rows, tail;
    int units, chunks, held;
    int tail_bytes; // from where a lane loads of a row to where it loads of its tail; 0: it is not known
    bool alternates;
    bool in_lanes; // the row indices of both lines are in registers of the lanes that gather them
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

// Rows whose addresses are computed once before a pipeline: a step moves all of them alike. A thread has `lines` rows, and of each
// every `across`-th piece of so many elements; `units` of them are all.
typedef struct SteppedRows {
    StepsForm form; // STEPS_OF_STEPPED_ROWS
    const TileOp *pipeline, *op;
    const TileInfo *tile;
    Buffer *tensor;
    Var *row, *column;                          // of the tile
    Expr *of_row[MAX_RANK], *of_step[MAX_RANK]; // the tensor's subscripts are their sums; NULL: 0
    int rows, columns, lines, across, units, piece;
} SteppedRows;
typedef struct SteppedCopy {
    PlanForm form; // PLAN_STEPPED_ROWS
    const SteppedRows *rows;
} SteppedCopy;

// Rows of a tile that begin at any element, so many of each warp, but that the last ones may have fewer. `shares` lanes shift a
// row; each lane has so many words of what comes after its rows.
enum { SHIFTED_MAX = 4 };
typedef struct ShiftedCopy {
    PlanForm form; // PLAN_SHIFTED_ROWS
    const TileOp *op;
    const TileInfo *tile;
    Buffer *tensor;
    Expr *start[MAX_RANK];
    Expr *aligned; // then it is a box
    int along;     // the tensor's dimension of rows
    int rows, columns, of_warp, shares, tail_words;
    int index; // among those of its pipeline
} ShiftedCopy;
typedef struct ShiftedRows {
    StepsForm form; // STEPS_OF_SHIFTED_ROWS
    const TileOp *pipeline;
    bool ahead; // copied, and what comes after them loaded, a step before they are shifted
    int n;
    ShiftedCopy copies[SHIFTED_MAX];
} ShiftedRows;
static inline bool is_printed_with_loop(const Action *action) // all that is in it
{
    return action->kind == ACTION_SCOPE && action->print && *(const StepsForm *)action->print == STEPS_WITH_THE_LOOP;
}
static inline bool is_first_of_ring(const ShiftedRows *rows, int i)
{
    for (int j = 0; j < i; j++)
        if (rows->copies[j].tile->ring == rows->copies[i].tile->ring) return false;
    return true;
}

enum {
    STEPPED_ELEMENTS = 8, // of a piece, at most; those that are loaded ahead have a register each
    STEPPED_LINES = 4     // rows of a thread, at most
};
static inline int stepped_registers(const SteppedRows *rows) { return rows->lines * rows->piece; }

#endif
