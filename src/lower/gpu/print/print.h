// SPDX-License-Identifier: MIT
// print.h - printing Loop IR: statements and expressions are built, expressions and elements of Tile IR are lowered, and each
// kind of statement of the source is printed. Files that decide do not include it.
#ifndef KILN_LOWER_GPU_PRINT_PRINT_H
#define KILN_LOWER_GPU_PRINT_PRINT_H

#include "lower/gpu/print/printer.h"

// ---- launch.c
void fill_unit(Printer *pr, LoopStmt *body, int words, int threads);
void fill_plan(Printer *pr, int threads);

// ---- build.c: statements and expressions of Loop IR
Expr *i32_const(Printer *pr, int64_t value);
Expr *u32_const(Printer *pr, int64_t value);
Expr *i32_add(Printer *pr, Expr *a, Expr *b);
Expr *i32_sub(Printer *pr, Expr *a, Expr *b);
Expr *i32_times(Printer *pr, Expr *a, Expr *b);
Expr *i32_mul(Printer *pr, Expr *a, int64_t b);
Expr *i32_op(Printer *pr, ExprOp op, Expr *a, int64_t b);
Expr *var_of(Printer *pr, Var *var); // E_VAR of a Loop IR variable
Expr *is_zero(Printer *pr, Var *number);
Expr *literal(Printer *pr, DType type, const char *text);               // as it stands
Expr *call_expr(Printer *pr, DType type, const char *name, int n, ...); // arguments: Expr *
Expr *cast(Printer *pr, DType to, Expr *x);                             // by C's rules
Expr *shared_address(Printer *pr, int offset);                          // u32
Expr *shared_pointer(Printer *pr, DType type, Expr *offset);
void emit_call(Printer *pr, const char *name, int n, ...);
void emit_call_if(Printer *pr, Expr *cond, Expr *call); // cond NULL: always
Var *emit_declare(Printer *pr, DType type, const char *name, Expr *value);
Expr *emit_i32(Printer *pr, const char *name, Expr *value); // a new variable's value
void emit_definition(Printer *pr, Var *var, Expr *value);   // of a variable that is there; NULL: no value
Var *emit_array(Printer *pr, DType type, const char *name, int64_t elements);
void emit_assign(Printer *pr, Var *var, Expr *value);
void emit_element(Printer *pr, Var *pointer, Expr *at, Expr *value); // pointer[at] = value
void emit_jump(Printer *pr, LoopKind kind);
void begin_for(Printer *pr, Nest *nest, Var *var, Expr *from, Expr *to, Expr *step, LoopForm form);
Var *begin_unrolled(Printer *pr, Nest *nest, const char *name, int n); // its variable, 0 .. n - 1
void begin_if(Printer *pr, Nest *nest, Expr *cond);
void begin_else(Printer *pr, Nest *nest);
void begin_while(Printer *pr, Nest *nest, Expr *cond, const Iteration *it); // cond: of Tile IR
void begin_block(Printer *pr, Nest *nest);
void end_nest(Printer *pr, Nest *nest);
void end_nests(Printer *pr, Nest *nests, int n); // the last first

// ---- scalar.c
Expr *lower_expr(Printer *pr, Expr *x, const Iteration *it); // `int` comes back as i32 or i64
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
} Place;
// A row's place, of a store to merged rows; between enter_row() and leave_row() all of its elements are in that row.
Var *declare_row_at(Printer *pr, const TileOp *store, const Iteration *it);
void enter_row(Printer *pr, const TileOp *store, Var *at);
void leave_row(Printer *pr);
void place_element(Printer *pr, Buffer *buffer, Expr **subs, const Iteration *it, Place *place, Span span);
bool is_packed_place(const Place *place);
Expr *element_at(Printer *pr, const Place *place, DType stored);             // what stands there
Expr *shared_at(Printer *pr, const TileInfo *tile, Expr *row, Expr *column); // element index from the pointer

// ---- arithmetic.c: x with its operands lowered and brought to one type
Expr *integer_operation(Printer *pr, const Expr *x, Expr *a, Expr *b); // of floating types too
Expr *integer_negation(Printer *pr, const Expr *x, Expr *a);
Expr *integer_magnitude(Printer *pr, const Expr *x, Expr *a);
Expr *integer_ceildiv(Printer *pr, const Expr *x, Expr *a, Expr *b);
Expr *combine(Printer *pr, const TileOp *update, UpdateOp op, DType type, Expr *a, Expr *b);

// ---- thread.c: the statements of one iteration
void apply_update(Printer *pr, TileOp *update, Expr *value, DType type, const Iteration *it); // buffer target
void index_bounds(Printer *pr, const LoopIndex *index, const Iteration *it, Expr **from, Expr **to);
void begin_index_loop(Printer *pr, Nest *nest, const LoopIndex *index, LoopForm form, const Iteration *it);
void begin_counted_loop(Printer *pr, Nest *nest, const TileOp *op, LoopForm form, const Iteration *it); // of a T_FOR
Expr *let_value(Printer *pr, const TileOp *op, const Iteration *it); // of a T_LET; NULL: none
void emit_thread_op(Printer *pr, TileOp *op, Iteration *it);
void emit_thread_block(Printer *pr, TileOp *block, Iteration *it);

// ---- moves.c
int first_of_mode(Printer *pr, const Iteration *it, int mode); // of the loop over it
int end_of_mode(Printer *pr, const Iteration *it, int mode);
// Loops over the register modes but the vector's, all loads from tensors of several iterations before the first
// that uses one; every nest that it opens goes to `nests`. Returns how many.
int begin_register_loops(Printer *pr, Iteration *it, Nest *nests);
int begin_mode_loops(Printer *pr, Iteration *it, int first, int end, Nest *nests); // over it->order[first .. end)
void emit_batch(Printer *pr, Iteration *it);
void emit_vector_loads(Printer *pr, Iteration *it);
bool waits_in_f32(Printer *pr, const TileOp *store, bool rounds); // a stored vector's values
Expr *loaded_element(Printer *pr, const Iteration *it, int i);
void store_quad(Printer *pr, const TileOp *store, Var *words, const Iteration *it);
void emit_vector_stores(Printer *pr, Iteration *it);

// ---- masks.c
Expr *mask_test(Printer *pr, TileOp *forall, const Iteration *it); // uniform in a warp; NULL: no test would help

// ---- print_map.c
// Declares the index variables of the dimensions in `dims` (bits of the layout's) for the current register modes;
// returns the condition under which they are iterations at all, NULL: always.
Expr *declare_indices(Printer *pr, const Iteration *it, uint32_t dims);
Expr *mode_value(Printer *pr, const Layout *layout, int i);    // of a lane, warp or group mode: i32
Expr *thread_part(Printer *pr, const Layout *layout, int dim); // i32
Expr *replica_is_first(Printer *pr, const Layout *layout);     // NULL: nothing is replicated

// ---- tiles.c, print_rings.c
void print_tiles(Printer *pr);
void print_slot_pointers(Printer *pr, const Ring *ring); // its tiles' pointers to the current slot
void print_other_buffer(Printer *pr, const TileInfo *tile);
void init_barriers(Printer *pr);
Expr *other_phase(Printer *pr, const RingState *ring_state);
Expr *full_barrier(Printer *pr, const Ring *ring); // address of the current buffer's
Expr *empty_barrier(Printer *pr, const Ring *ring);

// ---- print_statements.c, print_row_index_loop.c
void declare_value(Printer *pr, const TileOp *op);
void print_value(Printer *pr, const TileOp *op);
void begin_row(Printer *pr, const LoopIndex *index, Nest *nest);

// ---- debug.c
void emit_assert(Printer *pr, TileOp *op, const Iteration *it);
Expr *fault_record(Printer *pr);
Expr *trap_text(Printer *pr, Span span, const char *message);
void emit_trap(Printer *pr, Span span, const char *message);
void emit_print(Printer *pr, TileOp *op, const Iteration *it);
void emit_external(Printer *pr, TileOp *op, const Iteration *it);

// ---- print_checked.c
void declare_shadow(Printer *pr, TileInfo *tile);
void print_unwritten(Printer *pr, const TileInfo *tile);
void mark_written(Printer *pr, const Place *place);
Expr *test_written(Printer *pr, const Place *place, Expr *x, Span span);
Expr *test_subscript(Printer *pr, const Buffer *tile, int d, Expr *sub, Expr *lowered, Span span);

#endif
