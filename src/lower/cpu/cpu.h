// SPDX-License-Identifier: MIT
// cpu.h - what the files of the CPU lowering share.
//
// Tile IR variables are used in Loop IR as they are; a unit's ids go on where the kernel's end. Expressions of Tile
// IR become Loop IR through lower_expr alone; the `int` builders work on both.
#ifndef KILN_LOWER_CPU_CPU_H
#define KILN_LOWER_CPU_CPU_H

#include "lower/common/common.h"
#include "lower/cpu/lower.h"

// ---- where elements lie (access.c)

// base + sum of coef[a] * (number of axis a); NULL coefficients are 0. Tile IR expressions.
typedef struct Linear {
    Expr *base, *coef[MAX_RANK];
} Linear;

// 0 <= at < extent, or the access is outside. `extent` in the units of `at`.
typedef struct PlaceCheck {
    Linear at;
    Expr *extent;
} PlaceCheck;

// A slice (or, without axes, an element) seen through all views.
typedef struct Place {
    Buffer *buffer, *root; // as named, and the tensor or tile under it
    DType type;            // of an element, as named
    Var *pointer;
    Linear at;            // in elements of `type`, or in bytes
    bool bytes;           // a view to a wider type: `at` counts bytes, nothing is aligned
    bool packed;          // elements are bits inside bytes; `at` counts elements
    bool by_elements;     // not linear in the axes: `region` has the elements, `at` and `checks` mean nothing
    const Region *region; // of a slice
    int n_axes;
    Expr *widths[MAX_RANK];
    VEC(PlaceCheck) checks;
    Span span;
} Place;

// ---- tiles (scratch.c)

static inline int64_t round_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

typedef struct TileInfo {
    Var *pointer;            // to the elements
    Expr *strides[MAX_RANK]; // in elements
    Var *shadow;             // --check: a byte per element, 1 once written
    int64_t elements, offset, bytes;
    int first, last; // places in the order of ops between which it lives
    bool declared;
    bool borrowed; // filled by whole copies only: may point into a tensor (copy.c)
    bool counts;   // cut.c: of rank 2, read by products alone; beyond `there` it is zero, and not in memory if borrowed
    Expr *begin[2], *extent[2]; // where each axis begins in the tensor, and where that ends; NULL: always inside
    Var *there[2];              // how many of the axis are inside; NULL: all
    int uses;
    LoopList *home; // the statements that its life begins in
    Var *ahead;     // ahead.c: where the next step's contents lie in their tensor, until somebody fetches
    Expr *ahead_strides[MAX_RANK];
    DType ahead_type;
} TileInfo;

// ---- the loop nest of a forall (forall.c)

typedef struct Hoist {
    Expr *expr;
    Var *var;
    int depth;
} Hoist;

typedef struct Nest {
    struct Nest *outer;
    TileOp *op;
    int n;                          // levels; level 0 is before the nest
    int order[MAX_RANK + 8];        // order[l - 1]: the index at level l
    LoopList *before[MAX_RANK + 9]; // level l's statements, then its loop over level l + 1, then `after`
    LoopList *after[MAX_RANK + 9];
    Var *inner; // the innermost index if it is a 32-bit loop variable, else NULL
    Var *inner32;
    VEC(Hoist) hoists, rows;     // rows: looked up (table.c)
    VEC(const Buffer *) written; // roots that the body writes
    int8_t *depth;               // by variable id: the level that defines it
    int n_depths;
    LoopReduction *reductions, **last_reduction; // of the innermost loop
    Var *block, *lane;                           // the innermost loop takes n_lanes at a time (reduce.c); NULL: one
    int n_lanes;
    LoopList *before_lanes;
    bool plain;          // may be vectorised
    TileKind in_the_way; // of a statement in it that says it may not
    Expr *guard;         // the innermost loop does something only if this holds; NULL: always
    int conditional;     // inside a branch that may not be taken
    bool may_be_empty;   // no iteration at all, so that nothing of one may fault before it
} Nest;

enum { CPU_SCRATCH_MAX = 1 << 28 }; // bytes of all tiles that live at the same time

typedef struct Cpu {
    Arena *arena;
    Diags *diags;
    TileKernel *kernel;
    const CpuTarget *target;
    LaunchPlan *plan;
    LoopUnit *unit;
    LoopList *out;              // where statements go
    Expr **var_map;             // by variable id: what stands for it, NULL: itself
    TileInfo *tiles;            // by buffer id
    Var **tensors;              // by buffer id: the data pointer
    Expr *(*strides)[MAX_RANK]; // by buffer id, of tensors: in elements
    Var *host, *temp;           // scratch's header; room for one op
    int64_t temp_bytes;
    Nest *nest;
    int n_sums;                 // names of table.c
    const char *continue_label; // where `continue` of the innermost loop goes; NULL: C's own
    const char *return_label;
    bool sequential;
    bool atomics, failed;
    VEC(const char *) uses; // KILN_USE_... that the prelude is asked for
    int n_labels;
    bool may_stream;     // stream.c
    const Var *step_var; // ahead.c: what counts the steps of the innermost loop (or the instances), by step_by
    Expr *step_by;
    Expr **lets;                // ahead.c: by variable id, the value of a scalar that is set once
    Var **streams;              // by buffer id, of tensors: whether rows written to it go past the caches
    struct CpuWeights *weights; // notes.c
    const char *isa;            // macros that name the instruction set; NULL: the compiler's own
} Cpu;

// ---- building Loop IR (build.c)
Expr *cpu_literal(Cpu *cx, const char *text);
Expr *cpu_call(Cpu *cx, DType type, const char *name, int n, ...); // n arguments: Expr *
void cpu_add_call(Cpu *cx, Expr *call);
Var *cpu_declare(Cpu *cx, DType type, const char *name, Expr *value); // value NULL: not initialised
Var *cpu_declare_pointer(Cpu *cx, DType type, const char *name, Expr *value);
void cpu_assign(Cpu *cx, Var *var, Expr *value);
Expr *cpu_of(Cpu *cx, Var *var);
Expr *cpu_quoted(Cpu *cx, const char *text);
Expr *cpu_both(Cpu *cx, Expr *a, Expr *b); // a & b of bool; either may be NULL
LoopStmt *cpu_add(Cpu *cx, LoopStmt stmt);
void cpu_add_if(Cpu *cx, Expr *cond, const LoopList *body);                     // cond NULL: always, as a block
void cpu_add_loop(Cpu *cx, Var *var, Expr *lo, Expr *hi, const LoopList *body); // an `int` counts lo .. hi - 1
LoopList *cpu_enter(Cpu *cx, LoopList *list); // statements go to `list`; returns where they went
void cpu_use_prelude(Cpu *cx, const char *macro);
bool cpu_has_use(const Cpu *cx, const char *macro);
bool cpu_unsupported(Cpu *cx, Span span, const char *format, ...) __attribute__((format(printf, 3, 4))); // false
const char *cpu_fresh_label(Cpu *cx, const char *stem);

// ---- expressions (expr.c, math.c)
Expr *cpu_expr(Cpu *cx, Expr *x);
Expr *cpu_convert(Cpu *cx, DType to, Expr *x); // x is Loop IR
Expr *cpu_bitcast(Cpu *cx, DType to, Expr *x);
Expr *cpu_math(Cpu *cx, Expr *x, Expr **args); // args are Loop IR
const char *cpu_kind_name(DType type);         // the kind of number as the prelude names it
Expr *cpu_operation(Cpu *cx, ExprOp op, Expr *a, Expr *b, const Expr *right, Span span); // arithmetic.c
Expr *cpu_negation(Cpu *cx, Expr *a, Span span);
Expr *cpu_magnitude(Cpu *cx, Expr *a, Span span); // abs, of signed integers
Expr *cpu_ceildiv(Cpu *cx, Expr *a, Expr *b, const Expr *right, Span span);
int cpu_expr_depth(Cpu *cx, const Expr *x); // level of the nest that it needs
Expr *cpu_zero_of(Cpu *cx, DType type);

// ---- access.c
bool cpu_place_element(Cpu *cx, Place *p, Buffer *buffer, Expr **subs, Span span);
bool cpu_place_region(Cpu *cx, Place *p, const Region *region);
Expr *cpu_linear_at(Cpu *cx, const Linear *l, Expr **axes); // Loop IR; axes may hold NULL for 0
Expr *cpu_place_condition(Cpu *cx, const Place *p);         // of an element: Loop IR, NULL if always inside
Expr *cpu_place_load(Cpu *cx, const Place *p, Expr *at);    // `at` in Loop IR; no check
void cpu_place_store(Cpu *cx, const Place *p, Expr *at, Expr *value);
Expr *cpu_place_address(Cpu *cx, const Place *p, Expr *at);
int64_t cpu_place_stride(const Place *p, int axis); // in elements if constant, else 0
DType cpu_array_type(DType t);                      // of a tile's array: packed types have a byte each

// ---- elements.c: slices that are no linear form
void cpu_each_element(Cpu *cx, const Place *p, void (*visit)(Cpu *cx, Expr **axes, void *context), void *context);
bool cpu_place_nth(Cpu *cx, Place *element, const Place *p, Expr **axes); // of a region's place
void cpu_copy_elements(Cpu *cx, const Place *dst, const Place *src);
void cpu_fill_elements(Cpu *cx, const Place *dst, Expr *value);     // value is Loop IR in dst's type
void cpu_add_elements(Cpu *cx, const Place *dst, const Place *src); // atomically

// ---- lower.c: what both kinds of kernels begin and end with
Cpu *cpu_new(TileKernel *kernel, const CpuTarget *target, LaunchPlan *plan);
Var **cpu_entry_params(Cpu *cx); // words, first, last, scratch
void cpu_declare_arguments(Cpu *cx, Var *words);
void cpu_declare_coordinates(Cpu *cx, Var *words, Var *number);
LoopUnit *cpu_finish(Cpu *cx, Var **params, LoopStmt *body);
void cpu_choose_preludes(Cpu *cx); // prelude.c

// ---- statements
void cpu_op(Cpu *cx, TileOp *op);
void cpu_block(Cpu *cx, TileOp *op);                   // lower.c
void cpu_forall(Cpu *cx, TileOp *op);                  // forall.c
int cpu_row_index(Cpu *cx, TileOp *op, int64_t *rows); // forall.c, for rows.c
int cpu_column_index(Cpu *cx, TileOp *op, int64_t *columns);
TileOp *cpu_rows(Cpu *cx, TileOp *op); // rows.c: the last op it took, NULL: none
bool cpu_may_share_rows(const TileOp *op);
bool cpu_can_copy_rows(const Cpu *cx, const TileOp *op, bool columns, int64_t *extent); // copy.c
void cpu_update(Cpu *cx, TileOp *op);                                                   // reduce.c
bool cpu_reduces_in_lanes(Cpu *cx, const Nest *nest);
void cpu_copy(Cpu *cx, TileOp *op);    // copy.c: COPY, FILL, ATOMIC_TILE
void cpu_scan(Cpu *cx, TileOp *op);    // scan.c
Expr *cpu_looked_up(Cpu *cx, Expr *x); // table.c
Expr *cpu_dot_looked_up(Cpu *cx, const TileOp *op, int depth);
void cpu_matmul(Cpu *cx, TileOp *op); // matmul.c
bool cpu_product_may_cut(Cpu *cx, TileOp *op, const Operand *side);
void cpu_atomic(Cpu *cx, TileOp *op); // atomic.c
Expr *cpu_atomic_expr(Cpu *cx, Expr *x);
Expr *cpu_atomic_on_tensor(Cpu *cx, AtomicOp op, const Place *p, Expr *at, Expr *value, Expr *compare);
Expr *cpu_update_value(Cpu *cx, UpdateOp op, DType type, Expr *old, Expr *value,
                       Span span); // reduce.c: old op value, Loop IR
void cpu_copy_places(Cpu *cx, const Place *dst, const Place *src, Span span);

// ---- sequential.c
void cpu_sequential_array(Cpu *cx, Buffer *array);
void cpu_sequential_forall(Cpu *cx, TileOp *op, int at);

// ---- scratch.c
void cpu_plan_scratch(Cpu *cx);
void cpu_find_borrowed(Cpu *cx); // copy.c
bool cpu_can_lend(Cpu *cx, TileOp *op);
void cpu_find_cut(Cpu *cx); // cut.c
Expr *cpu_count_there(Cpu *cx, const TileInfo *t, const Place *src);
bool cpu_hides_sums(Cpu *cx, const TileOp *product, int axis, const TileInfo *side, int side_axis);
void cpu_declare_tile(Cpu *cx, Buffer *buffer);
int64_t cpu_temp_room(Cpu *cx, int64_t offset, int64_t bytes); // asks for temp[offset, offset + bytes)
Place cpu_own_array(Cpu *cx, DType type, const int64_t *extents, int n, int64_t *room); // dense, after the tiles

// ---- stream.c
void cpu_find_streamed(Cpu *cx);
Expr *cpu_streams(Cpu *cx, const Place *dst);
void cpu_declare_streams(Cpu *cx);

// ---- ahead.c
void cpu_note_ahead(Cpu *cx, TileOp *op, const Place *src);
void cpu_note_let(Cpu *cx, TileOp *op);
void cpu_fetch_ahead(Cpu *cx, const TileOp *forall, const Nest *nest, LoopList *list, Expr *lo, Expr *hi);
Expr *cpu_take_ahead(Cpu *cx, const Operand *o);
Expr *cpu_take_ahead_bits(Cpu *cx, const Expr *load);

// ---- notes.c: performance notes (ir/note.h)
void cpu_weigh(Cpu *cx); // before anything is lowered
// A statement takes a form that is so many times slower than the usual one; a note, if that matters.
void cpu_note(Cpu *cx, NoteKind kind, Span span, double slower, const char *instead, const char *why);
void cpu_note_nest(Cpu *cx, const Nest *nest);

// ---- check.c (--check builds)
bool cpu_is_checked(const Cpu *cx);
Expr *cpu_check_sub(Cpu *cx, Expr *sub, Expr *extent, const Buffer *buffer, Span span);
void cpu_mark_region(Cpu *cx, const Place *p, bool read); // written, or must have been
Expr *cpu_where(Cpu *cx, Span span);                      // "softmax.tile:12:5"
void cpu_emit_trap(Cpu *cx, Span span, const char *message);

#endif
