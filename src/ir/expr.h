// SPDX-License-Identifier: MIT
// expr.h - scalar expressions, used by both representations: Tile IR computes indices, conditions and elements
// with them, Loop IR is made of them.
//
// An expression has one element type and no side effects, except where it says so (E_ATOMIC, and E_CALL of an
// extern function or a target intrinsic). Expressions are trees that may share subtrees: never change one in
// place, build another. The builders below fold constants and apply identities that are exact for the type, so
// that what a specialisation decides costs nothing.
#ifndef KILN_IR_EXPR_H
#define KILN_IR_EXPR_H

#include "base/source.h"
#include "base/text.h"
#include "ir/builtin.h"

typedef struct Expr Expr;
typedef struct Var Var;
typedef struct Buffer Buffer;

enum { MAX_RANK = 8, EXPR_SLOTS_MAX = 64 }; // operands at most, of a call

typedef enum {
    E_INT,   // integer or bool constant
    E_FLOAT, // floating constant
    E_VAR,
    E_LOAD, // one element of a buffer, by one subscript per dimension (Tile IR)
    E_UNARY,
    E_BINARY,
    E_SELECT,  // cond ? a : b; only the chosen side's accesses are made
    E_CONVERT, // the language's conversion (saturating, round to nearest even)
    E_BITCAST,
    E_MATH,    // a function of the language: exp2, min, fma, popcount ...
    E_ATOMIC,  // old = atomic_add(x, y) ...: the value before (Tile IR; side effect)
    E_CALL,    // Loop IR: a target intrinsic or extern function by name (may have effects)
    E_INDEX,   // Loop IR: pointer[a]
    E_ADDRESS, // Loop IR: pointer + a, counted in elements of the pointer's type
} ExprKind;

typedef enum { ATOMIC_ADD, ATOMIC_MIN, ATOMIC_MAX, ATOMIC_AND, ATOMIC_OR, ATOMIC_EXCHANGE, ATOMIC_CAS } AtomicOp;

struct Expr {
    ExprKind kind;
    DType type;
    Span span;
    union {
        struct {
            int64_t value;
        } integer;
        struct {
            double value;
        } real;
        struct {
            Var *var;
        } var;
        struct {
            Buffer *buffer;
            Expr **subs;
        } load; // buffer->rank subscripts
        struct {
            ExprOp op;
            Expr *a, *b;
        } op; // UNARY (b NULL) and BINARY
        struct {
            Expr *cond, *a, *b;
        } select;
        struct {
            Expr *a;
        } convert; // also BITCAST
        struct {
            MathFn fn;
            int n;
            Expr **args;
        } math;
        struct {
            AtomicOp op;
            Buffer *buffer;
            Expr **subs;
            Expr *value, *compare;
        } atomic;
        struct {
            const char *name;
            int n;
            Expr **args;
        } call; // n -1: `name` as it stands, a literal or macro
        struct {
            Var *pointer;
            Expr *at;
        } index; // also ADDRESS
    };
};

typedef enum {
    VAR_LOCAL,    // a scalar variable; assigned by statements
    VAR_INDEX,    // of forall, for-over-range, pipeline; never assigned in the body
    VAR_GRID,     // a grid coordinate
    VAR_SYMBOL,   // a shape symbol bound at launch
    VAR_ARGUMENT, // a scalar argument of the kernel
    VAR_THREAD,   // Loop IR: thread numbers and the like
} VarKind;

struct Var {
    const char *name; // in the source; printers add `id` where names repeat
    int id;           // unique within a kernel
    VarKind kind;
    DType type;
    Span span;
    Expr *lo, *hi;    // inclusive bounds where known (index: lo .. hi-1 as given), else NULL
    int64_t multiple; // the value is a multiple of this (from require and the like); 0 and 1: unknown
    int pointer;      // Loop IR: 1 = pointer to `type`
    int lanes;        // Loop IR: n > 1 = vector of n
    bool restricted;  // Loop IR: a pointer that no other pointer in use overlaps
    bool assigned;    // VAR_LOCAL: set after its declaration
};

// ---- building (folding). All take the span of what they stand for through their operands.
Expr *expr_int(Arena *a, DType type, int64_t value);
Expr *expr_bool(Arena *a, bool value);
Expr *expr_float(Arena *a, DType type, double value);
Expr *expr_var(Arena *a, Var *var);
Expr *expr_load(Arena *a, Buffer *buffer, Expr **subs); // subs are copied
Expr *expr_unary(Arena *a, ExprOp op, Expr *x);
Expr *expr_binary(Arena *a, ExprOp op, Expr *x, Expr *y); // same types (after usual conversions), asserted
Expr *expr_select(Arena *a, Expr *cond, Expr *x, Expr *y);
Expr *expr_convert(Arena *a, DType to, Expr *x); // x itself if it has the type
Expr *expr_bitcast(Arena *a, DType to, Expr *x);
Expr *expr_math(Arena *a, DType type, MathFn fn, int n, Expr **args);
Expr *expr_call(Arena *a, DType type, const char *name, int n, Expr **args);
Expr *expr_index(Arena *a, Var *pointer, Expr *at);
Expr *expr_address(Arena *a, Var *pointer, Expr *at);
// Short forms for DTYPE_INT arithmetic, the most common.
Expr *int_const(Arena *a, int64_t value);
Expr *int_add(Arena *a, Expr *x, Expr *y);
Expr *int_sub(Arena *a, Expr *x, Expr *y);
Expr *int_mul(Arena *a, Expr *x, Expr *y);
Expr *int_min(Arena *a, Expr *x, Expr *y);
Expr *int_max(Arena *a, Expr *x, Expr *y);
Expr *int_ceildiv(Arena *a, Expr *x, Expr *y);

// ---- asking
bool expr_is_const(const Expr *x);               // integer, bool or floating constant
bool expr_as_int(const Expr *x, int64_t *value); // true for integer and bool constants
bool expr_is_int(const Expr *x, int64_t value);  // this constant
bool expr_equal(const Expr *x, const Expr *y);   // the same computation, structurally
bool expr_uses(const Expr *x, const Var *var);
bool expr_loads(const Expr *x); // any E_LOAD or E_ATOMIC in it
bool expr_has_atomic(const Expr *x);
bool expr_is_pure(const Expr *x);                              // no E_ATOMIC, no call: may be dropped or repeated
bool expr_larger(const Expr *x, int most);                     // has more than `most` nodes, counted as a tree
typedef bool ExprVisit(const Expr *x, void *context);          // true: stop
bool expr_any(const Expr *x, ExprVisit *visit, void *context); // pre-order; true if a visit stopped it
int expr_children(Expr *x, Expr ***slots, int max);            // the operand slots, for rewriting copies

// ---- rewriting: copies what changes, shares the rest
Expr *expr_replace(Arena *a, Expr *x, const Var *var, Expr *by);
typedef Expr *ExprMap(Expr *x, void *context);                  // post-order; returns x or its replacement
Expr *expr_map(Arena *a, Expr *x, ExprMap *map, void *context); // rebuilt through the folding builders
Expr *expr_folded(Arena *a, Expr *x);                           // what was kept as written (check/written.c) folds

// ---- ranges and multiples (int only; conservative)
Range expr_range(const Expr *x);
bool expr_fits(const Expr *x, int64_t lo, int64_t hi); // provably lo <= x <= hi
bool expr_divides(const Expr *x);                      // provably neither 0 nor -1: any number over it is one
bool expr_is_count(const Expr *x, DType type);         // provably a count that `type` can be shifted by
bool expr_is_exact(const Expr *x);                     // arithmetic of integers that provably does not wrap
// Provably x >= y, also where bounds of variables are symbolic: k*64 + 64 <= K for k < K / 64.
bool expr_at_least(const Expr *x, const Expr *y);
int64_t gcd(int64_t a, int64_t b);    // of 0 and b: the magnitude of b
int64_t expr_multiple(const Expr *x); // largest known divisor, at least 1; 0 for the constant 0
// x as c0 + sum c_i * v_i over the given variables, c_i constant; the rest (free of them) in c0. False if it is not.
bool expr_affine(Arena *a, Expr *x, Var *const *vars, int n, int64_t *coefficients, Expr **rest);

ExprOp expr_mirrored(ExprOp op);           // a < b as b > a; others as they are
void expr_print(Text *out, const Expr *x); // C-like, fully parenthesised where needed
const char *expr_text(Arena *a, const Expr *x);

#endif
