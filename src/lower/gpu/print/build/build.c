// SPDX-License-Identifier: MIT
// build.c - short forms for building Loop IR.
#include "lower/gpu/print/build/build.h"
#include "lower/gpu/facts/elementwise.h"

Expr *i32_const(Printer *pr, int64_t value) { return expr_int(pr->arena, DTYPE_I32, value); }
Expr *u32_const(Printer *pr, int64_t value) { return expr_int(pr->arena, DTYPE_U32, value); }
Expr *i32_add(Printer *pr, Expr *a, Expr *b) { return expr_binary(pr->arena, X_ADD, a, b); }
Expr *i32_sub(Printer *pr, Expr *a, Expr *b) { return expr_binary(pr->arena, X_SUB, a, b); }
Expr *i32_times(Printer *pr, Expr *a, Expr *b) { return expr_binary(pr->arena, X_MUL, a, b); }
Expr *i32_mul(Printer *pr, Expr *a, int64_t b) { return i32_times(pr, a, i32_const(pr, b)); }
Expr *i32_op(Printer *pr, ExprOp op, Expr *a, int64_t b) { return expr_binary(pr->arena, op, a, i32_const(pr, b)); }

Expr *var_of(Printer *pr, Var *var) { return expr_var(pr->arena, var); }
Expr *is_zero(Printer *pr, Var *number) { return i32_op(pr, X_EQ, var_of(pr, number), 0); }
Expr *literal(Printer *pr, DType type, const char *text) { return common_literal(pr->arena, type, text); }

Expr *call_expr(Printer *pr, DType type, const char *name, int n, ...)
{
    va_list list;
    va_start(list, n);
    Expr *const call = common_call(pr->arena, type, name, n, list);
    va_end(list);
    return call;
}

Expr *cast(Printer *pr, DType to, Expr *x)
{
    if (x->type == to) return x;
    int64_t value;
    if (dtype_is_integer(to) && expr_as_int(x, &value) && dtype_bits(to) == 64) return expr_int(pr->arena, to, value);
    return call_expr(pr, to, arena_printf(pr->arena, "(%s)", dtype_info[to].c_name), 1, x);
}

Expr *shared_address(Printer *pr, int offset)
{
    return expr_binary(pr->arena, X_ADD, call_expr(pr, DTYPE_U32, "shared_base", 0), u32_const(pr, offset));
}

Expr *shared_pointer(Printer *pr, DType type, Expr *offset)
{
    return call_expr(pr, type, arena_printf(pr->arena, "shared_pointer<%s>", dtype_info[type].c_name), 1, offset);
}

void emit_call(Printer *pr, const char *name, int n, ...)
{
    va_list list;
    va_start(list, n);
    Expr *const call = common_call(pr->arena, DTYPE_NONE, name, n, list);
    va_end(list);
    common_add_call(pr->out, call);
}

void emit_call_if(Printer *pr, Expr *cond, Expr *call)
{
    Nest nest;
    if (cond) begin_if(pr, &nest, cond);
    common_add_call(pr->out, call);
    if (cond) end_nest(pr, &nest);
}

void emit_definition(Printer *pr, Var *var, Expr *value) { common_declare(pr->out, var, value); }

Var *emit_declare(Printer *pr, DType type, const char *name, Expr *value)
{
    Var *const var = loop_new_var(pr->unit, type, name);
    emit_definition(pr, var, value);
    return var;
}

Expr *emit_i32(Printer *pr, const char *name, Expr *value)
{
    return var_of(pr, emit_declare(pr, DTYPE_I32, name, value));
}

Var *emit_array(Printer *pr, DType type, const char *name, int64_t elements)
{
    Var *const var = loop_new_pointer(pr->unit, type, name);
    loop_add(pr->out, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = var, .elements = elements } });
    return var;
}

void emit_assign(Printer *pr, Var *var, Expr *value) { common_assign(pr->out, var, value); }

void emit_element(Printer *pr, Var *pointer, Expr *at, Expr *value)
{
    loop_add(pr->out, (LoopStmt){ .kind = L_STORE, .store = { pointer, at, value } });
}

void emit_jump(Printer *pr, LoopKind kind) { loop_add(pr->out, (LoopStmt){ .kind = kind }); }

static void begin_nest(Printer *pr, Nest *nest, LoopStmt stmt)
{
    nest->stmt = loop_add(pr->out, stmt);
    nest->outer = pr->out;
    nest->inner = loop_list(pr->arena);
    pr->out = &nest->inner;
}

// Where the finished inner list belongs in the statement.
static void close_inner(Printer *pr, Nest *nest)
{
    LoopStmt *const body = nest->inner.first, *const stmt = nest->stmt;
    switch (stmt->kind) {
    case L_FOR: stmt->for_.body = body; break;
    case L_WHILE: stmt->while_.body = body; break;
    case L_BLOCK: stmt->block.body = body; break;
    case L_IF:
        if (stmt->branch.then) stmt->branch.otherwise = body;
        else stmt->branch.then = body;
        break;
    case L_DECLARE:
    case L_ASSIGN:
    case L_STORE:
    case L_CALL:
    case L_BREAK:
    case L_CONTINUE:
    case L_RETURN:
    case L_LABEL:
    case L_GOTO:
    case L_COMMENT: break;
    }
}

void begin_for(Printer *pr, Nest *nest, Var *var, Expr *from, Expr *to, Expr *step, LoopForm form)
{
    begin_nest(pr, nest,
               (LoopStmt){ .kind = L_FOR, .for_ = { .var = var, .lo = from, .hi = to, .step = step, .form = form } });
}

Var *begin_unrolled(Printer *pr, Nest *nest, const char *name, int n)
{
    Var *const var = loop_new_var(pr->unit, DTYPE_I32, name);
    begin_for(pr, nest, var, i32_const(pr, 0), i32_const(pr, n), i32_const(pr, 1), LOOP_UNROLL);
    return var;
}

void begin_if(Printer *pr, Nest *nest, Expr *cond)
{
    begin_nest(pr, nest, (LoopStmt){ .kind = L_IF, .branch = { .cond = cond } });
}

void begin_else(Printer *pr, Nest *nest)
{
    if (!nest->inner.first) // an empty "then" must stay one
        loop_add(&nest->inner, (LoopStmt){ .kind = L_BLOCK });
    close_inner(pr, nest);
    nest->inner = loop_list(pr->arena);
    pr->out = &nest->inner;
}

void begin_endless(Printer *pr, Nest *nest)
{
    begin_nest(pr, nest, (LoopStmt){ .kind = L_WHILE, .while_ = { .cond = expr_bool(pr->arena, true) } });
}

void begin_block(Printer *pr, Nest *nest) { begin_nest(pr, nest, (LoopStmt){ .kind = L_BLOCK }); }

void end_nest(Printer *pr, Nest *nest)
{
    close_inner(pr, nest);
    pr->out = nest->outer;
}

void end_nests(Printer *pr, Nest *nests, int n)
{
    while (n > 0) end_nest(pr, &nests[--n]);
}
