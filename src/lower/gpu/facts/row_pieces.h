// SPDX-License-Identifier: MIT
// row_pieces.h - rows of tensors that become rows of a tile.
//
// A lane moves *pieces*, 16 bytes of the tile; of what is converted it loads a *unit* at a time, one piece, two, or of what
// is packed into bytes four. What its warp takes of one row of the tensor, from all lanes, is a *line*.
#ifndef KILN_LOWER_GPU_FACTS_ROW_PIECES_H
#define KILN_LOWER_GPU_FACTS_ROW_PIECES_H

#include "lower/gpu/facts/elementwise.h"

enum {
    PIECE = 8,
    PIECE_BYTES = 16,
    PACKED_UNIT = 32,
    RUNS_MAX = 4,
    EACH_MAX = 4,
    CLUSTER_MAX = 16,
    SETS = 2,
    SET_WORDS = 16,
    SET_UNITS = 8
};

// Where the loads of a line begin, and whether it is inside; a register prefetch's always is, and reads so many bytes.
typedef struct Line {
    Var *pointer, *inside;
    int size, to_a_byte, bytes;
} Line; // size: of an element, in the tensor's own elements, of which several may be in a byte
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
    Expr *value;  // with the loads replaced by their variables
    Expr *factor; // a number of the tile's type by which the one run is multiplied, and rounded to it; NULL: otherwise
    Expr *less;   // an i32 that is subtracted before; NULL: nothing
    bool fits, is_copy, is_bytes; // is_bytes: of i8 from less, pieces of twice as many elements
    bool of_bytes;                // copied into a tile of them
    int unit;                     // elements that a lane loads at a time
    // among the lanes: `across` of them beside each other, each with `units` of every `lines` lines
    Iteration it;
    int across, units, lines, mode; // mode: of the lines; -1: there is one
    Var *away[CLUSTER_MAX], *full_away[CLUSTER_MAX];
    int n_away; // convert.c: from here to the other
} Rows;         // CTAs that get the rows; their barriers

// ---- row_pieces.c
const TileInfo *tile_of_rows(const Lowering *lo, const Rows *rows);
Expr *last_sub(const Expr *load);
Expr *first_column(const Lowering *lo, const Rows *rows, Expr *sub); // of a subscript first + column; NULL: it is none
bool expr_has_division(const Expr *x);                               // by what is no constant
bool row_is_chosen(const Expr *load); // which row it is stands in a list that is not always read
int set_units(const Rows *rows);      // of a set
int place_alignment(const Buffer *buffer, const Expr *sub, int64_t multiple);

#endif
