// SPDX-License-Identifier: MIT
// maker.h - what the maker of programs knows while it writes one: what is visible, and what a forall has touched.
//
// It keeps to what the language allows where that can be seen from the text. What depends on values (overflow of int, a
// division by zero, iterations that depend on each other) the evaluator finds: such a program is thrown away.
#ifndef TESTS_GENERATE_MAKER_H
#define TESTS_GENERATE_MAKER_H

#include "program.h"

enum { MAX_VISIBLE = 96, MAX_TOUCHED = 24, MAX_DIMS = 3 };

// How a forall uses a memory: by one list of subscripts, which tells its iterations apart, or anyhow if it is only read.
typedef struct Touched {
    Memory *memory;
    Var *var;
    Expr *subs[MAX_RANK];
    bool written, reduced, read;
    Op op;
} Touched;

typedef struct Maker {
    uint64_t state;
    Section *section;
    Pool *pool;
    const Grid *grid;
    int64_t dims[MAX_DIMS]; // of this section's tiles
    Var *vars[MAX_VISIBLE];
    int n_vars;
    Memory *memories[MAX_VISIBLE];
    int n_memories;
    Statement **tail; // where the next statement goes
    int budget, names, loops, nesting;
    // of the forall that is being made
    bool in_forall, in_function, staged; // staged: in a pipeline with stages
    Index *indices;
    int n_indices, first_var; // the first variable declared inside
    Touched touched[MAX_TOUCHED];
    int n_touched;
} Maker;

// ---- chance

uint64_t random_bits(Maker *maker);
int below(Maker *maker, int n); // 0 .. n - 1
bool chance(Maker *maker, int percent);
#define PICK(maker, array) ((array)[below((maker), (int)(sizeof(array) / sizeof((array)[0])))])

// ---- building (make.c)

Expr *new_integer(Maker *maker, Type type, int64_t value); // bare
Expr *new_typed(Maker *maker, Type type, int64_t value);   // converted to its type
Expr *new_real(Maker *maker, Type type, double value, bool bare);
Expr *new_var_expr(Maker *maker, Var *var);
Expr *new_op(Maker *maker, Op op, Expr *a, Expr *b, Expr *c); // of as many as there are
Expr *new_element(Maker *maker, Memory *memory, Expr *const *subs);
Expr *new_convert(Maker *maker, Type type, Expr *x);
Var *new_var(Maker *maker, const char *prefix, Type type); // not yet visible
void show_var(Maker *maker, Var *var);
Memory *new_memory(Maker *maker, Storage storage, Type type, int rank, const int64_t *dims, const char *prefix);
void show_memory(Maker *maker, Memory *memory);
Statement *add(Maker *maker, Statement st);
typedef struct Scope {
    int n_vars, n_memories;
    Statement **tail;
} Scope;
Scope open_block(Maker *maker, Statement **list);
void close_block(Maker *maker, Scope scope);

// ---- tensors (make_tensor.c)

typedef enum { SMALL, MIDDLE, WILD, PLACES, PERMUTED } Filling;
// Rows below 8 bits fill whole bytes: what cannot have this type gets another.
Type fitting_type(Type type, int64_t last);
Type any_type(Maker *maker);
Memory *new_tensor(Maker *maker, Storage storage, Type type, int rank, const int64_t *dims, Filling filling,
                   bool symbols);
int tensors_left(const Maker *maker);

// ---- expressions (make_expression.c)

Expr *make_value(Maker *maker, Type wide, int depth); // of a wide type, or bool
Expr *make_condition(Maker *maker, int depth);
bool is_constant(const Expr *x);                // perhaps
Expr *make_literal(Maker *maker, Type type);    // converted, so that it keeps its type
Expr *make_place(Maker *maker, int64_t extent); // 0 .. extent - 1
Expr *make_anywhere(Maker *maker);              // a subscript of a tensor
Expr *make_element(Maker *maker, Type wide);    // NULL: there is none to read

// ---- foralls (make_forall.c)

void make_forall(Maker *maker);
Touched *find_touched(Maker *maker, const Memory *memory, const Var *var);
Touched *touch(Maker *maker, Memory *memory, Var *var);

Expr *make_bounded(Maker *maker);            // a variable times something: where a slice starts
const Memory *root_of(const Memory *memory); // through views

// ---- statements (make_statement.c)

void make_statements(Maker *maker, int n);
Memory *make_tile(Maker *maker);
Slice whole_of(Memory *memory);
Slice slice_of_new_tensor(Maker *maker, const Memory *tile, Filling filling);
Var *make_index(Maker *maker, int64_t n); // fixed, 0 .. n - 1

// ---- more of them, by topic

void make_pipeline(Maker *maker); // make_pipeline.c
void make_product(Maker *maker);
void make_view(Maker *maker); // make_view.c
void make_scan(Maker *maker);
void make_gather(Maker *maker);
void make_parts(Maker *maker);
void make_atomic_tensor(Maker *maker); // make_atomic.c
void make_atomic(Maker *maker);        // in a forall
void make_atomic_tile(Maker *maker);
void make_value_before(Maker *maker);
void make_own_tensor(Maker *maker);
void make_function(Maker *maker); // make_function.c

#endif
