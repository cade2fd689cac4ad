// SPDX-License-Identifier: MIT
// program.h - generated programs as trees, which the printer writes down and the evaluator runs.
//
// A kernel is made of sections: independent programs, one after the other in the kernel's body, each with tensors,
// tiles, functions and control flow of its own. All have the kernel's grid. Names end in the section's number.
#ifndef TESTS_GENERATE_PROGRAM_H
#define TESTS_GENERATE_PROGRAM_H

#include "number.h"

#include <stddef.h>

enum { MAX_RANK = 4, MAX_ARGS = 4, NAME_BYTES = 16, MAX_TENSORS = 8, MAX_FUNCTIONS = 4, MAX_SCALARS = 4 };

typedef struct Expr Expr;
typedef struct Statement Statement;
typedef struct Memory Memory;
typedef struct Function Function;

// ---- scalars

typedef struct Var {
    char name[NAME_BYTES];
    Type type;
    Value value;    // now, in the evaluator
    int64_t lo, hi; // what the maker knows: lo <= value < hi; nothing if hi <= lo
    bool fixed;     // not to be assigned: indices, launch arguments, constants
    bool constant;  // when built, perhaps: the index of an unrolled loop, a scalar whose value is constant
    Total *total;   // of a reduction that goes on
} Var;

// ---- memory: tensors, tiles and views

typedef enum { TENSOR_IN, TENSOR_OUT, TENSOR_INOUT, SHARED, FRAGMENT, LOCAL, VIEW } Storage;
typedef enum { WINDOW, RESHAPED, RETYPED } ViewKind;

typedef struct Cell {
    uint64_t bits;
    uint32_t epoch;         // the forall that `writer` and `reader` are iterations of
    int32_t writer, reader; // NOBODY, MANY (readers)
    int32_t owner, user;    // the same of the grid's instances, in tensors
    bool defined, vague;
    Total *total; // of a reduction or of atomics
} Cell;

struct Memory {
    char name[NAME_BYTES];
    Storage storage;
    Type type;
    int rank;
    int64_t dims[MAX_RANK];             // a window's: when it is declared
    char extents[MAX_RANK][NAME_BYTES]; // a symbol of the section; empty: the number
    int64_t n;                          // elements
    Cell *cells;                        // views have none
    uint64_t *given;                    // of tensors: what they start with
    bool strided;
    int padding;   // elements after each row of a strided tensor
    int atomic_op; // an Op + 1: only atomics of this operation touch it
    bool own;      // the first extent is a multiple of the instances: each has a part of it
    ViewKind view;
    struct Slice *window; // of which it is a view
    Memory *parent;
    int64_t starts[MAX_RANK]; // of a window, when it is declared
};

typedef struct Subscript {
    enum { AT, RANGE, WHOLE } kind;
    Expr *start;
    int64_t width, step;
    Expr *extent; // of a window with a run-time extent, instead of the width
} Subscript;
typedef struct Slice {
    Memory *memory;
    Subscript subs[MAX_RANK];
} Slice;

// ---- expressions

typedef enum { X_INTEGER, X_REAL, X_VAR, X_ELEMENT, X_OP, X_CONVERT, X_BITCAST, X_CALL, X_ATOMIC } ExprKind;

struct Expr {
    ExprKind kind;
    Type type; // narrow for elements, variables, conversions
    Op op;
    int n;
    Expr *args[MAX_ARGS]; // of operations and calls, and subscripts
    Var *var;
    Memory *memory;
    Function *function;
    int64_t integer;
    double real;
    bool bare; // a literal that takes its type from its neighbour
};

// ---- statements

typedef enum {
    S_BLOCK,
    S_LET,
    S_SET,
    S_STORE,
    S_ATOMIC,
    S_IF,
    S_FOR,
    S_WHILE,
    S_FORALL,
    S_PIPELINE,
    S_STAGE,
    S_BREAK,
    S_CONTINUE,
    S_RETURN,
    S_TILE,
    S_COPY,
    S_FILL,
    S_SCAN,
    S_PRODUCT,
    S_VIEW,
    S_ATOMIC_TILE,
    S_CALL,
    S_CHECK
} StatementKind;

typedef struct Index {
    Var *var;
    Expr *lo, *hi;
    int64_t step;
} Index;

struct Statement {
    StatementKind kind;
    bool dropped; // by who shrinks it
    bool updates; // of S_SET, S_STORE, S_ATOMIC: `op=`
    bool reduces;
    bool unrolled, constant;
    bool transposed[2];
    Type as[2]; // operands are converted to it, if it is not the tile's type
    Op op;
    int n, axis, stages;
    Index indices[MAX_RANK];
    Var *var;
    Expr *target, *value; // an element; the condition of S_IF and S_WHILE
    Slice dst, src, other;
    bool copies;                 // a tile's initialiser is `src`, not `value`
    Statement *body, *otherwise; // the first of a list
    Statement *next;
    Expr *call;
};

struct Function {
    char name[NAME_BYTES];
    Type type;
    int n;
    Var *params[MAX_ARGS];
    Statement *body;
};

// ---- sections and kernels

typedef struct Section {
    uint64_t seed;
    int number;
    Memory *tensors[MAX_TENSORS];
    int n_tensors;
    Var *scalars[MAX_SCALARS]; // launch arguments
    int n_scalars;
    Function *functions[MAX_FUNCTIONS];
    int n_functions;
    Var *place; // `int p = y*GX + x`
    Var *symbols[MAX_RANK];
    int n_symbols;
    Statement *body;
    int statements;
    struct Pool *pool;
} Section;

typedef struct Grid {
    int x, y, warps, cluster, occupancy, rasterize;
    bool persistent, blocks;
} Grid; // blocks: a section stands in braces

// ---- memory of a section: freed as a whole (pool.c)

typedef struct Pool Pool;
Pool *pool_new(void);
void pool_free(Pool *pool);                // takes NULL
void *pool_take(Pool *pool, size_t bytes); // zeroed; never NULL: the program ends without memory
#define TAKE(pool, Type, ...) ((Type *)memcpy(pool_take((pool), sizeof(Type)), &(Type){ __VA_ARGS__ }, sizeof(Type)))

typedef struct Writer {
    char *text;
    size_t n, room;
} Writer;
__attribute__((format(printf, 2, 3))) void write_text(Writer *writer, const char *format, ...);

// ---- what is done with them

// make.c: a program from a seed, of which nothing is evaluated yet.
Section *make_section(uint64_t seed, int number, const Grid *grid);
Grid make_grid(uint64_t seed);

// evaluate.c: what its tensors hold at the end. False: the rules do not define it, for the reason given.
bool evaluate_section(Section *section, const Grid *grid, const char **reason);

// print.c: a kernel `generated` of all sections.
void print_kernel(Writer *out, Section *const *sections, int n, const Grid *grid);

#endif
