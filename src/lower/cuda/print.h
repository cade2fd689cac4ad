// SPDX-License-Identifier: MIT
// print.h - printing: Loop IR, made from expressions and elements of Tile IR. Files that decide do not include it.
#ifndef KILN_LOWER_CUDA_PRINT_H
#define KILN_LOWER_CUDA_PRINT_H

#include "lower/cuda/cuda.h"

// A statement whose inside is being printed.
struct Nest {
    LoopList *outer;
    LoopList inner;
    LoopStmt *stmt;
};

// ---- build.c: statements and expressions of Loop IR
Expr *i32_const(Lowering *lo, int64_t value);
Expr *u32_const(Lowering *lo, int64_t value);
Expr *i32_add(Lowering *lo, Expr *a, Expr *b);
Expr *i32_sub(Lowering *lo, Expr *a, Expr *b);
Expr *i32_times(Lowering *lo, Expr *a, Expr *b);
Expr *i32_mul(Lowering *lo, Expr *a, int64_t b);
Expr *i32_op(Lowering *lo, ExprOp op, Expr *a, int64_t b);
Expr *var_of(Lowering *lo, Var *var); // E_VAR of a Loop IR variable
Expr *is_zero(Lowering *lo, Var *number);
Expr *literal(Lowering *lo, DType type, const char *text);               // as it stands
Expr *call_expr(Lowering *lo, DType type, const char *name, int n, ...); // arguments: Expr *
Expr *cast(Lowering *lo, DType to, Expr *x);                             // by C's rules
Expr *shared_address(Lowering *lo, int offset);                          // u32
Expr *shared_pointer(Lowering *lo, DType type, Expr *offset);
void emit_call(Lowering *lo, const char *name, int n, ...);
void emit_call_if(Lowering *lo, Expr *cond, Expr *call); // cond NULL: always
Var *emit_declare(Lowering *lo, DType type, const char *name, Expr *value);
Expr *emit_i32(Lowering *lo, const char *name, Expr *value); // a new variable's value
void emit_definition(Lowering *lo, Var *var, Expr *value);   // of a variable that is there; NULL: no value
Var *emit_array(Lowering *lo, DType type, const char *name, int64_t elements);
void emit_assign(Lowering *lo, Var *var, Expr *value);
void emit_element(Lowering *lo, Var *pointer, Expr *at, Expr *value); // pointer[at] = value
void emit_jump(Lowering *lo, LoopKind kind);
void begin_for(Lowering *lo, Nest *nest, Var *var, Expr *from, Expr *to, Expr *step, LoopForm form);
Var *begin_unrolled(Lowering *lo, Nest *nest, const char *name, int n); // its variable, 0 .. n - 1
void begin_if(Lowering *lo, Nest *nest, Expr *cond);
void begin_else(Lowering *lo, Nest *nest);
void begin_while(Lowering *lo, Nest *nest, Expr *cond, const Iteration *it); // cond: of Tile IR
void begin_block(Lowering *lo, Nest *nest);
void end_nest(Lowering *lo, Nest *nest);
void end_nests(Lowering *lo, Nest *nests, int n); // the last first

// ---- scalar.c
Expr *lower_expr(Lowering *lo, Expr *x, const Iteration *it); // `int` comes back as i32 or i64
Expr *lower_int64(Lowering *lo, Expr *x, const Iteration *it);
Expr *lower_as(Lowering *lo, DType type, Expr *x, const Iteration *it); // converted to a stored type
Expr *to_dtype(Lowering *lo, DType to, DType from, Expr *x);            // x is lowered already
Var *loop_var(Lowering *lo, Var *var);        // the variable that stands for a Tile IR variable
Var **var_slot(Lowering *lo, const Var *var); // where that is noted
typedef struct KnownVars {
    Var **vars;
    int n;
} KnownVars;
KnownVars known_vars(Lowering *lo);               // of this step, while another's take their places,
void restore_vars(Lowering *lo, KnownVars known); // until they are restored

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
bool place_element(Lowering *lo, Buffer *buffer, Expr **subs, const Iteration *it, Place *place, Span span);
bool is_packed_place(const Place *place);
Expr *element_at(Lowering *lo, const Place *place, DType stored);             // what stands there
Expr *shared_at(Lowering *lo, const TileInfo *tile, Expr *row, Expr *column); // element index from the pointer

// ---- arithmetic.c: x with its operands lowered and brought to one type
Expr *integer_operation(Lowering *lo, const Expr *x, Expr *a, Expr *b); // of floating types too
Expr *integer_negation(Lowering *lo, const Expr *x, Expr *a);
Expr *integer_magnitude(Lowering *lo, const Expr *x, Expr *a);
Expr *integer_ceildiv(Lowering *lo, const Expr *x, Expr *a, Expr *b);
Expr *combine(Lowering *lo, const TileOp *update, UpdateOp op, DType type, Expr *a, Expr *b);

// ---- thread.c: the statements of one iteration
void apply_update(Lowering *lo, TileOp *update, Expr *value, DType type, const Iteration *it); // buffer target
void index_bounds(Lowering *lo, const LoopIndex *index, const Iteration *it, Expr **from, Expr **to);
void begin_index_loop(Lowering *lo, Nest *nest, const LoopIndex *index, LoopForm form, const Iteration *it);
void begin_counted_loop(Lowering *lo, Nest *nest, const TileOp *op, LoopForm form, const Iteration *it); // of a T_FOR
Expr *let_value(Lowering *lo, const TileOp *op, const Iteration *it); // of a T_LET; NULL: none
void emit_thread_op(Lowering *lo, TileOp *op, Iteration *it);
void emit_thread_block(Lowering *lo, TileOp *block, Iteration *it);

// ---- moves.c
int first_of_mode(const Lowering *lo, const Iteration *it, int mode); // of the loop over it
int end_of_mode(const Lowering *lo, const Iteration *it, int mode);
// Loops over the register modes but the vector's, all loads from tensors of several iterations before the first
// that uses one; every nest that it opens goes to `nests`. Returns how many.
int begin_register_loops(Lowering *lo, Iteration *it, Nest *nests);
void emit_batch(Lowering *lo, Iteration *it);
void emit_vector_loads(Lowering *lo, Iteration *it);
bool waits_in_f32(Lowering *lo, const TileOp *store, bool rounds); // a stored vector's values
Expr *loaded_element(Lowering *lo, const Iteration *it, int i);
void emit_vector_stores(Lowering *lo, Iteration *it);

// ---- masks.c
Expr *mask_test(Lowering *lo, TileOp *forall, const Iteration *it); // uniform in a warp; NULL: no test would help

// ---- print_map.c
// Declares the index variables of the dimensions in `dims` (bits of the layout's) for the current register modes;
// returns the condition under which they are iterations at all, NULL: always.
Expr *declare_indices(Lowering *lo, const Iteration *it, uint32_t dims);
Expr *mode_value(Lowering *lo, const Layout *layout, int i);    // of a lane, warp or group mode: i32
Expr *thread_part(Lowering *lo, const Layout *layout, int dim); // i32
Expr *replica_is_first(Lowering *lo, const Layout *layout);     // NULL: nothing is replicated

// ---- tiles.c, print_rings.c
void print_tiles(Lowering *lo);
void print_slot_pointers(Lowering *lo, const Ring *ring); // its tiles' pointers to the current slot
void print_other_buffer(Lowering *lo, const TileInfo *tile);
void init_barriers(Lowering *lo);
Expr *other_phase(Lowering *lo, const RingState *ring_state);
Expr *full_barrier(Lowering *lo, const Ring *ring); // address of the current buffer's
Expr *empty_barrier(Lowering *lo, const Ring *ring);

// ---- print_statements.c, print_row_index_loop.c
void declare_value(Lowering *lo, const TileOp *op);
void print_value(Lowering *lo, const TileOp *op);
void begin_row(Lowering *lo, const LoopIndex *index, Nest *nest);

// ---- debug.c
void emit_assert(Lowering *lo, TileOp *op, const Iteration *it);
Expr *fault_record(Lowering *lo);
Expr *trap_text(Lowering *lo, Span span, const char *message);
void emit_trap(Lowering *lo, Span span, const char *message);
void emit_print(Lowering *lo, TileOp *op, const Iteration *it);
void emit_external(Lowering *lo, TileOp *op, const Iteration *it);

// ---- print_checked.c
void declare_shadow(Lowering *lo, TileInfo *tile);
void print_unwritten(Lowering *lo, const TileInfo *tile);
void mark_written(Lowering *lo, const Place *place);
Expr *test_written(Lowering *lo, const Place *place, Expr *x, Span span);
Expr *test_subscript(Lowering *lo, const Buffer *tile, int d, Expr *sub, Expr *lowered, Span span);

#endif
