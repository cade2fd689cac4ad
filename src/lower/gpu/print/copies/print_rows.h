// SPDX-License-Identifier: MIT
// print_rows.h - printing of what moves rows (rows.h).
#ifndef KILN_LOWER_GPU_PRINT_COPIES_PRINT_ROWS_H
#define KILN_LOWER_GPU_PRINT_COPIES_PRINT_ROWS_H

#include "lower/gpu/print/build/build.h"
#include "lower/gpu/plans/rows.h"

// ---- lines.c
Line begin_line(Printer *pr, const Expr *load, const Iteration *it);
void begin_lines(Printer *pr, Rows *rows); // of all loads, at the line last declared
int n_lines(const Rows *rows);             // all loads', runs first
const Line *nth_line(const Rows *rows, int i);
Expr *in_line(Printer *pr, const Line *line, Expr *elements); // its address, so many elements on
void declare_line(Printer *pr, Rows *rows, Var *line);        // the lane's place in it, in variables of its own
void declare_line_at(Printer *pr, Rows *rows, const char *name, Expr *line);
typedef struct Columns {
    Nest nest;
    Var *first;
} Columns; // a block in which the column's variable stands further on
void begin_columns(Printer *pr, const Rows *rows, Columns *block, int columns);
void end_columns(Printer *pr, const Rows *rows, Columns *block);
Expr *column_of(Printer *pr, const Rows *rows);     // where it stands
Expr *piece_address(Printer *pr, const Rows *rows); // there, in the tile

// ---- print_row_index_loop.c
void begin_row_index_loop(Printer *pr);
void begin_row(Printer *pr, const LoopIndex *index, Nest *nest);
void end_row_index_loop(Printer *pr);
void print_first_lists(Printer *pr, const RowIndexLoop *loop); // and the variables of the loop
void print_first_indices(Printer *pr, const RowIndexLoop *loop);
void print_next_indices(Printer *pr, const RowIndexLoop *loop);
void print_row_elements(Printer *pr, const RowElements *plan);
void load_lists(Printer *pr);                           // elements of lists, two steps ahead
void point_lane_row(Printer *pr, int line, bool first); // of the next step, or the first: its indices, and where it is
Expr *await_lists(Printer *pr,
                  const TileOp *pipeline); // 0, known when those are there: blockIdx.z is, which ptxas does
                                           // not know

// ---- next_step.c: the loop's indices have variables of their own, which are a step ahead
void declare_next_step(Printer *pr, const TileOp *pipeline, Var **next); // before the loop: at its first step
void advance_next_step(Printer *pr, const TileOp *pipeline, Var *const *next);
void use_next_step(Printer *pr, const TileOp *pipeline, Var *const *next); // until restore_vars()
Expr *i64_add(Printer *pr, Expr *a, Expr *b);                              // NULL: 0
Expr *place_in_tensor(Printer *pr, const Buffer *tensor,
                      Expr *const *subs); // elements from its start; of subs NULL is 0
Expr *is_below(Printer *pr, const Buffer *tensor, int d, Expr *sub);

// ---- print_stepped_rows.c
void begin_stepped_rows(Printer *pr, const Action *action);
void end_stepped_rows(Printer *pr, const Action *action);
void print_stepped_copy(Printer *pr, const SteppedCopy *plan);

// ---- print_shifted_rows.c
void begin_shifted_rows(Printer *pr, const Action *action);
void end_shifted_rows(Printer *pr, const Action *action);
void print_shifted_copy(Printer *pr, const ShiftedCopy *copy);

// ---- print_gather.c
void print_look_ups(Printer *pr, const LookUps *all);
void print_rows(Printer *pr, const RowsPlan *plan);
void prefetch_rows(Printer *pr, const StepRows *step); // into the L2 cache

// ---- convert.c
typedef struct Set {
    Var *raw[SET_UNITS][RUNS_MAX], *each[SET_UNITS][EACH_MAX];
} Set; // consecutive units of a line
void declare_set(Printer *pr, const Rows *rows, Set *set, int units);
void load_set(Printer *pr, const Rows *rows, const Set *set, int from, int units, Expr *column); // units `from` ..
void convert_set(Printer *pr, const Rows *rows, const Set *set, int from, int units);
void begin_exchange(Printer *pr, Rows *rows);                // of a tile that is; else nothing
int lines_here(Printer *pr, const Rows *rows, Expr **begin); // that this CTA converts: from `begin` on
void send_line(Printer *pr, const Rows *rows, int columns);  // that the warp has stored, to the others
void convert_rows(Printer *pr, Rows *rows);

// ---- print_register_prefetch.c
void declare_register_prefetch(Printer *pr, const PrefetchedRows *plan);
void point_register_prefetch(Printer *pr, const StepRows *step); // at those rows, if they are converted
void load_register_prefetch(Printer *pr);                        // with the first step's rows
void load_lane_row(Printer *pr, int line, bool first);           // of the next step, or the first
void load_next_line(Printer *pr);                                // with the next step's, where that is early enough
void convert_register_prefetch(Printer *pr, const RowsPlan *plan);

#endif
