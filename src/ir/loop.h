// SPDX-License-Identifier: MIT
// loop.h - Loop IR: what a C programmer would write. Scalar expressions, variables, arrays, loops, calls to a fixed
// set of target intrinsics. Both lowerings produce it; emit/ prints it as C (CUDA C is C with other intrinsics).
//
// An expression here is what it is in C: E_CONVERT is a cast, so that what C's cast does not do (narrow floats,
// saturation) is a call of the prelude; narrow floats are their bits. Two things are not C's: sized integers wrap, and
// min, max and ceildiv of integers are left as E_MATH, because ranges and folds know them.
#ifndef KILN_IR_LOOP_H
#define KILN_IR_LOOP_H

#include "ir/expr.h"

typedef struct LoopStmt LoopStmt;

typedef enum {
    L_BLOCK,   // { body }
    L_DECLARE, // var, maybe array, maybe initialised
    L_ASSIGN,  // var = value
    L_STORE,   // pointer[at] = value
    L_CALL,    // an intrinsic for its effect: E_CALL
    L_FOR,     // for (var = lo; var < hi; var += step)
    L_WHILE,   // while (cond)
    L_IF,
    L_BREAK,
    L_CONTINUE,
    L_RETURN,
    L_LABEL,
    L_GOTO,
    L_COMMENT, // // text: where the code came from
} LoopKind;

typedef enum { SPACE_AUTO, SPACE_SHARED, SPACE_CONST } LoopSpace;
// A variable that a vectorised loop reduces into; `clause` is OpenMP's operator.
typedef struct LoopReduction {
    const char *clause;
    Var *var;
    struct LoopReduction *next;
} LoopReduction;

// LOOP_VECTORISE_SHORT is for printing alone: one of few steps (emit.c).
typedef enum { LOOP_PLAIN, LOOP_UNROLL, LOOP_VECTORISE, LOOP_VECTORISE_SHORT, LOOP_NO_UNROLL } LoopForm;

struct LoopStmt {
    LoopKind kind;
    LoopStmt *next;
    union {
        struct {
            LoopStmt *body;
        } block;
        struct {
            Var *var;
            Expr *value;
            int64_t elements;
            LoopSpace space;
            int align;
        } declare; // elements 0: scalar
        struct {
            Var *var;
            Expr *value;
        } assign;
        struct {
            Var *pointer;
            Expr *at, *value;
        } store;
        struct {
            Expr *call;
        } call;
        struct {
            Var *var;
            Expr *lo, *hi, *step;
            LoopForm form;
            LoopStmt *body;
            const LoopReduction *reductions;
        } for_; // NULL: none
        struct {
            Expr *cond;
            LoopStmt *body;
        } while_;
        struct {
            Expr *cond;
            LoopStmt *then, *otherwise;
        } branch;
        struct {
            const char *name;
        } label; // also GOTO
        struct {
            const char *text;
        } comment;
    };
};

typedef struct LoopFunction {
    const char *name;
    Var **params;
    int n_params;
    const char *attributes; // printed before the name: __launch_bounds__ and the like; NULL: none
    const char *signature;  // CUDA: printed instead of attributes, name and parameters; NULL: none
    LoopStmt *body;
} LoopFunction;

// A unit of emitted source: what it needs of a prelude, helper functions, the kernel.
typedef struct LoopUnit {
    Arena *arena;
    const char *head; // text before everything else, such as macros that choose prelude parts; NULL: none
    const char **preludes;
    int n_preludes;      // names of prelude parts, in order, each once; none for CUDA (emit/prelude.h)
    const char *helpers; // target text printed after the prelude (instruction wrappers); NULL: none
    VEC(LoopFunction *) functions;
    int n_vars;                      // ids given so far
    const struct Schedule *schedule; // of a GPU's kernel: lower/gpu/schedule/schedule.h; else NULL
    const struct Cost *cost; // the same: what it is expected to cost, lower/gpu/cost/cost.h; NULL: there is no model
    double expected_seconds; // of a launch as the target has it, by the cost model; 0: not known
} LoopUnit;

// Before the name of each variable where it is printed as C: then none that the source chose is a word, a macro or a
// function of C, CUDA, their headers or the preludes.
#define LOOP_VAR_PREFIX "v_"

// ---- building: a list under construction
typedef struct LoopList {
    LoopStmt *first, **last;
    Arena *arena;
} LoopList;
LoopList loop_list(Arena *arena);
LoopStmt *loop_add(LoopList *list, LoopStmt stmt); // appends a copy
Var *loop_new_var(LoopUnit *unit, DType type, const char *name);
Var *loop_new_pointer(LoopUnit *unit, DType type, const char *name);

bool loop_has_math(const Expr *x); // an E_MATH that Loop IR may hold

void loop_print(Text *out, const LoopUnit *unit); // readable, not compiled
// Checks: variables are declared before use and in scope, types agree, pointers are pointers, loops surround break.
bool loop_verify(const LoopUnit *unit, Text *why);

#endif
