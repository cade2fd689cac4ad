// SPDX-License-Identifier: MIT
// rows.h - rows of tensors that become rows of a tile, tile[r][d] = f(tensor[..r..][d]): for the files that move them.
//
//   rows.c       which statements have this form, and how their rows lie among the lanes
//   lines.c      where a lane stands in a row of the tensor and of the tile
//   gather.c     rows that are copied
//   convert.c    rows that pass through registers
//   register_prefetch.c      the same, with the next step's in registers already
//
// A lane moves *pieces*, 16 bytes of the tile; of what is converted it loads a *unit* at a time, one piece or two. What
// its warp takes of one row of the tensor, from all lanes, is a *line*.
#ifndef KILN_LOWER_CUDA_ROWS_H
#define KILN_LOWER_CUDA_ROWS_H

#include "lower/cuda/cuda.h"

enum {
    PIECE = 8,
    PIECE_BYTES = 16,
    RUNS_MAX = 4,
    EACH_MAX = 4,
    CLUSTER_MAX = 16,
    SETS = 2,
    SET_WORDS = 16,
    SET_UNITS = 8
};

// Where the loads of a line begin, and whether it is inside; a register prefetch's always is, and reads so many bytes.
struct Line {
    Var *pointer, *inside;
    int size, bytes;
}; // size: of an element, in the tensor's own elements
typedef struct Run {
    Expr *load;
    Var *element, *wide;
    Line line;
} Run; // consecutive along the columns
typedef struct Each {
    Expr *load;
    Var *value;
    int64_t by;
    Line line;
} Each; // one for `by` columns; 0: for all

typedef struct Rows {
    TileOp *forall, *store; // the store in it
    Var *column;
    int64_t n_rows, n_columns;
    Run runs[RUNS_MAX];
    int n_runs;
    Each each[EACH_MAX];
    int n_each;
    Expr *value; // with the loads replaced by their variables
    bool fits, is_copy;
    int unit; // elements that a lane loads at a time
    // among the lanes: `across` of them beside each other, each with `units` of every `lines` lines
    Iteration it;
    int across, units, lines, mode; // mode: of the lines; -1: there is one
    Var *away[CLUSTER_MAX], *full_away[CLUSTER_MAX];
    int n_away; // convert.c: from here to the other
} Rows;         // CTAs that get the rows; their barriers

// ---- rows.c
bool plan_rows(Lowering *lo, TileOp *op, Rows *rows);          // false: it has no such form
bool lay_rows(Lowering *lo, Rows *rows);                       // among the lanes; false: they cannot
bool spread_rows(Lowering *lo, TileOp *op, Rows *rows);        // both
Expr *first_column(Lowering *lo, const Rows *rows, Expr *sub); // of a subscript first + column; NULL: it is none
Expr *last_sub(const Expr *load);
int place_alignment(const Buffer *buffer, const Expr *sub, int64_t multiple);
const TileInfo *tile_of_rows(const Lowering *lo, const Rows *rows);

// ---- lines.c
Line begin_line(Lowering *lo, const Expr *load, const Iteration *it);
void begin_lines(Lowering *lo, Rows *rows); // of all loads, at the line last declared
int n_lines(const Rows *rows);              // all loads', runs first
const Line *nth_line(const Rows *rows, int i);
Expr *in_line(Lowering *lo, const Line *line, Expr *elements); // its address, so many elements on
void declare_line(Lowering *lo, Rows *rows, Var *line);        // the lane's place in it, in variables of its own
void declare_line_at(Lowering *lo, Rows *rows, const char *name, Expr *line);
typedef struct Columns {
    Nest nest;
    Var *first;
} Columns; // a block in which the column's variable stands further on
void begin_columns(Lowering *lo, const Rows *rows, Columns *block, int columns);
void end_columns(Lowering *lo, const Rows *rows, Columns *block);
Expr *column_of(Lowering *lo, const Rows *rows);     // where it stands
Expr *piece_address(Lowering *lo, const Rows *rows); // there, in the tile

// ---- gather.c
void copy_rows(Lowering *lo, TileOp *op, Rows *rows);

// ---- convert.c
typedef struct Set {
    Var *raw[SET_UNITS][RUNS_MAX], *each[SET_UNITS][EACH_MAX];
} Set;                           // consecutive units of a line
int set_units(const Rows *rows); // of a set
void declare_set(Lowering *lo, const Rows *rows, Set *set, int units);
void load_set(Lowering *lo, const Rows *rows, const Set *set, int from, int units, Expr *column); // units `from` ..
void convert_set(Lowering *lo, const Rows *rows, const Set *set, int from, int units);
bool can_send(Lowering *lo, const Rows *rows);                // eight rows of every panel as one piece
void begin_exchange(Lowering *lo, Rows *rows, int columns);   // of a tile that is; else nothing
int lines_here(Lowering *lo, const Rows *rows, Expr **begin); // that this CTA converts: from `begin` on
void send_line(Lowering *lo, const Rows *rows, int columns);  // that the warp has stored, to the others
void convert_rows(Lowering *lo, Rows *rows);

// ---- register_prefetch.c
void convert_register_prefetch(Lowering *lo, TileOp *op, Rows *rows);

#endif
