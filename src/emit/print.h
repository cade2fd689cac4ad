// SPDX-License-Identifier: MIT
// print.h - what the files of emit/ share: the dialect and the spelling of names, types and expressions.
#ifndef KILN_EMIT_PRINT_H
#define KILN_EMIT_PRINT_H

#include "emit/emit.h"
#include "ir/names.h"

typedef struct Emitter {
    Text *out;
    EmitDialect dialect;
    const Names *names;
} Emitter;

void emit_name(const Emitter *e, const Var *var);
void emit_type(const Emitter *e, const Var *var, bool in_memory); // of one element; in memory a bool is a byte
void emit_expr(const Emitter *e, const Expr *x);                  // where any expression may stand
void emit_subscript(const Emitter *e, const Expr *x);             // between [ ]
void emit_value(const Emitter *e, const Expr *x);                 // where the target's type converts it

#endif
