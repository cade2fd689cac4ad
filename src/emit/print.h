// SPDX-License-Identifier: MIT
// print.h - what the files of emit/ share: the dialect and the spelling of names, types and expressions.
#ifndef KILN_EMIT_PRINT_H
#define KILN_EMIT_PRINT_H

#include "emit/emit.h"
#include "ir/names.h"

// How a language spells what C and its relatives spell differently; rows of dialect.c.
struct Dialect {
    const char *restrict_word, *align, *bool_name;
    const char *spaces[SPACE_CONST + 1];   // of a declaration
    const char *loops[LOOP_NO_UNROLL + 1]; // the line before a loop; NULL: none
    const char *vectors[DTYPE_COUNT];      // "float": of it and lanes a vector's type is made; NULL: by an attribute
    const char *f64_bits, *f32_bits;       // functions that make what has no literal; NULL: C's builtins do
    const struct Prelude *prelude; // of which a unit has what it uses (prelude.h); NULL: the parts that it names
    bool overloads;                // functions of integers: math_min; else each type has its own
    // Signed arithmetic is computed unsigned, and a quotient of i32 as one of i64, as the language defines them.
    bool wraps_unsigned;
};

typedef struct Emitter {
    Text *out;
    const Dialect *dialect;
    const Names *names;
} Emitter;

void emit_name(const Emitter *e, const Var *var);
void emit_type(const Emitter *e, const Var *var, bool in_memory); // of one element; in memory a bool is a byte
void emit_expr(const Emitter *e, const Expr *x);                  // where any expression may stand
void emit_subscript(const Emitter *e, const Expr *x);             // between [ ]
void emit_value(const Emitter *e, const Expr *x);                 // where the target's type converts it

#endif
