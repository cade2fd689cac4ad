// SPDX-License-Identifier: MIT
// build.h - statements and expressions of Loop IR.
#ifndef KILN_LOWER_GPU_PRINT_BUILD_BUILD_H
#define KILN_LOWER_GPU_PRINT_BUILD_BUILD_H

#include "lower/gpu/print/build/printer.h"

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
void begin_endless(Printer *pr, Nest *nest); // until a jump leaves it
void begin_block(Printer *pr, Nest *nest);
void end_nest(Printer *pr, Nest *nest);
void end_nests(Printer *pr, Nest *nests, int n); // the last first

// ---- threads.c: what a layout says of the thread at hand
Expr *mode_value(Printer *pr, const Layout *layout, int i);    // of a lane, warp or group mode: i32
Expr *thread_part(Printer *pr, const Layout *layout, int dim); // i32
Expr *replica_is_first(Printer *pr, const Layout *layout);     // NULL: nothing is replicated

#endif
