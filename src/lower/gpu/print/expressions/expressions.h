// SPDX-License-Identifier: MIT
// expressions.h - expressions of Tile IR, and the elements of tensors and tiles that they read, as Loop IR.
#ifndef KILN_LOWER_GPU_PRINT_EXPRESSIONS_EXPRESSIONS_H
#define KILN_LOWER_GPU_PRINT_EXPRESSIONS_EXPRESSIONS_H

#include "lower/gpu/print/build/build.h"

// ---- scalar.c
Expr *lower_expr(Printer *pr, Expr *x, const Iteration *it);         // `int` comes back as i32 or i64
bool computes_both(Printer *pr, const Expr *x, const Iteration *it); // of a choice (choice.c)
Expr *lower_int64(Printer *pr, Expr *x, const Iteration *it);
Expr *lower_as(Printer *pr, DType type, Expr *x, const Iteration *it); // converted to a stored type
Expr *to_dtype(Printer *pr, DType to, DType from, Expr *x);            // x is lowered already
Var *loop_var(Printer *pr, Var *var);        // the variable that stands for a Tile IR variable
Var **var_slot(Printer *pr, const Var *var); // where that is noted
typedef struct KnownVars {
    Var **vars;
    int n;
} KnownVars;
KnownVars known_vars(Printer *pr);               // of this step, while another's take their places,
void restore_vars(Printer *pr, KnownVars known); // until they are restored

// ---- loaded.c: elements of vectors that were loaded before
Expr *batch_number(Printer *pr, const Iteration *it); // of this iteration among those whose loads are made together
Expr *loaded_element(Printer *pr, const Iteration *it, int i);
bool is_unpacked(const Iteration *it, const Expr *x);                    // it is converted before the vector's loop
Expr *unpacked_element(Printer *pr, const Iteration *it, const Expr *x); // NULL: it is not

// ---- place.c
// One element of a tensor or tile, through views: where it is and what must hold for it to be inside.
typedef struct Place {
    Buffer *root;
    DType recast; // the element is read and written as this type; DTYPE_NONE: as the root's
    Expr *bytes;  // from the element below to that of the view, where several stand in it; NULL: none
    Var *pointer; // NULL: in registers
    Expr *at;     // i32 or i64, elements from the pointer; or the register number
    Expr *inside; // NULL: always
    // for vectors along the last dimension of a tensor: all but the last dimension's test, and that one's parts
    Expr *rows_inside, *column, *columns;
    Expr *extent; // Tile IR: of that dimension
} Place;
// A row's place, of a store to merged rows; between enter_row() and leave_row() all of its elements are in that row.
Var *declare_row_at(Printer *pr, const TileOp *store, const Iteration *it);
void enter_row(Printer *pr, const TileOp *store, Var *at);
void leave_row(Printer *pr);
void place_element(Printer *pr, Buffer *buffer, Expr **subs, const Iteration *it, Place *place, Span span);
bool is_packed_place(const Place *place);
Expr *recast_address(Printer *pr, const Place *place);           // of an element that is read as another type
Expr *element_at(Printer *pr, const Place *place, DType stored); // what stands there
Expr *shared_at(Printer *pr, const TileInfo *tile, Expr *row, Expr *column); // element index from the pointer

// ---- arithmetic.c: x with its operands lowered and brought to one type
Expr *integer_operation(Printer *pr, const Expr *x, Expr *a, Expr *b); // of floating types too
Expr *integer_negation(Printer *pr, const Expr *x, Expr *a);
Expr *integer_magnitude(Printer *pr, const Expr *x, Expr *a);
Expr *integer_ceildiv(Printer *pr, const Expr *x, Expr *a, Expr *b);
Expr *combine(Printer *pr, const TileOp *update, UpdateOp op, DType type, Expr *a, Expr *b);

// ---- trap.c
Expr *fault_record(Printer *pr);
Expr *trap_text(Printer *pr, Span span, const char *message);
void emit_trap(Printer *pr, Span span, const char *message);

// ---- print_checked.c
void declare_shadow(Printer *pr, TileInfo *tile);
void print_unwritten(Printer *pr, const TileInfo *tile);
void mark_written(Printer *pr, const Place *place);
Expr *test_written(Printer *pr, const Place *place, Expr *x, Span span);
Expr *test_subscript(Printer *pr, const Buffer *tile, int d, Expr *sub, Expr *lowered, Span span);

#endif
