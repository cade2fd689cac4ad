// SPDX-License-Identifier: MIT
// build.c - short forms for building Loop IR.
#include "lower/cuda/print.h"

Expr *i32_const(Lowering *lo, int64_t value) { return expr_int(lo->arena, DTYPE_I32, value); }
Expr *u32_const(Lowering *lo, int64_t value) { return expr_int(lo->arena, DTYPE_U32, value); }
Expr *i32_add(Lowering *lo, Expr *a, Expr *b) { return expr_binary(lo->arena, X_ADD, a, b); }
Expr *i32_sub(Lowering *lo, Expr *a, Expr *b) { return expr_binary(lo->arena, X_SUB, a, b); }
Expr *i32_times(Lowering *lo, Expr *a, Expr *b) { return expr_binary(lo->arena, X_MUL, a, b); }
Expr *i32_mul(Lowering *lo, Expr *a, int64_t b) { return i32_times(lo, a, i32_const(lo, b)); }
Expr *i32_op(Lowering *lo, ExprOp op, Expr *a, int64_t b) { return expr_binary(lo->arena, op, a, i32_const(lo, b)); }

Expr *var_of(Lowering *lo, Var *var) { return expr_var(lo->arena, var); }
Expr *is_zero(Lowering *lo, Var *number) { return i32_op(lo, X_EQ, var_of(lo, number), 0); }
Expr *literal(Lowering *lo, DType type, const char *text) { return common_literal(lo->arena, type, text); }

Expr *call_expr(Lowering *lo, DType type, const char *name, int n, ...)
{
    va_list list;
    va_start(list, n);
    Expr *const call = common_call(lo->arena, type, name, n, list);
    va_end(list);
    return call;
}

Expr *cast(Lowering *lo, DType to, Expr *x)
{
    if (x->type == to) return x;
    int64_t value;
    if (dtype_is_integer(to) && expr_as_int(x, &value) && dtype_bits(to) == 64) return expr_int(lo->arena, to, value);
    return call_expr(lo, to, arena_printf(lo->arena, "(%s)", dtype_info[to].c_name), 1, x);
}

Expr *shared_address(Lowering *lo, int offset)
{
    return expr_binary(lo->arena, X_ADD, call_expr(lo, DTYPE_U32, "shared_base", 0), u32_const(lo, offset));
}

Expr *shared_pointer(Lowering *lo, DType type, Expr *offset)
{
    return call_expr(lo, type, arena_printf(lo->arena, "shared_pointer<%s>", dtype_info[type].c_name), 1, offset);
}

void emit_call(Lowering *lo, const char *name, int n, ...)
{
    va_list list;
    va_start(list, n);
    Expr *const call = common_call(lo->arena, DTYPE_NONE, name, n, list);
    va_end(list);
    common_add_call(lo->out, call);
}

void emit_call_if(Lowering *lo, Expr *cond, Expr *call)
{
    Nest nest;
    if (cond) begin_if(lo, &nest, cond);
    common_add_call(lo->out, call);
    if (cond) end_nest(lo, &nest);
}

void emit_definition(Lowering *lo, Var *var, Expr *value) { common_declare(lo->out, var, value); }

Var *emit_declare(Lowering *lo, DType type, const char *name, Expr *value)
{
    Var *const var = loop_new_var(lo->unit, type, name);
    emit_definition(lo, var, value);
    return var;
}

Expr *emit_i32(Lowering *lo, const char *name, Expr *value)
{
    return var_of(lo, emit_declare(lo, DTYPE_I32, name, value));
}

Var *emit_array(Lowering *lo, DType type, const char *name, int64_t elements)
{
    Var *const var = loop_new_pointer(lo->unit, type, name);
    loop_add(lo->out, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = var, .elements = elements } });
    return var;
}

void emit_assign(Lowering *lo, Var *var, Expr *value) { common_assign(lo->out, var, value); }

void emit_element(Lowering *lo, Var *pointer, Expr *at, Expr *value)
{
    loop_add(lo->out, (LoopStmt){ .kind = L_STORE, .store = { pointer, at, value } });
}

void emit_jump(Lowering *lo, LoopKind kind) { loop_add(lo->out, (LoopStmt){ .kind = kind }); }

static void begin_nest(Lowering *lo, Nest *nest, LoopStmt stmt)
{
    nest->stmt = loop_add(lo->out, stmt);
    nest->outer = lo->out;
    nest->inner = loop_list(lo->arena);
    lo->out = &nest->inner;
}

// Where the finished inner list belongs in the statement.
static void close_inner(Lowering *lo, Nest *nest)
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

void begin_for(Lowering *lo, Nest *nest, Var *var, Expr *from, Expr *to, Expr *step, LoopForm form)
{
    begin_nest(lo, nest,
               (LoopStmt){ .kind = L_FOR, .for_ = { .var = var, .lo = from, .hi = to, .step = step, .form = form } });
}

Var *begin_unrolled(Lowering *lo, Nest *nest, const char *name, int n)
{
    Var *const var = loop_new_var(lo->unit, DTYPE_I32, name);
    begin_for(lo, nest, var, i32_const(lo, 0), i32_const(lo, n), i32_const(lo, 1), LOOP_UNROLL);
    return var;
}

void begin_if(Lowering *lo, Nest *nest, Expr *cond)
{
    begin_nest(lo, nest, (LoopStmt){ .kind = L_IF, .branch = { .cond = cond } });
}

void begin_else(Lowering *lo, Nest *nest)
{
    if (!nest->inner.first) // an empty "then" must stay one
        loop_add(&nest->inner, (LoopStmt){ .kind = L_BLOCK });
    close_inner(lo, nest);
    nest->inner = loop_list(lo->arena);
    lo->out = &nest->inner;
}

void begin_block(Lowering *lo, Nest *nest) { begin_nest(lo, nest, (LoopStmt){ .kind = L_BLOCK }); }

void end_nest(Lowering *lo, Nest *nest)
{
    close_inner(lo, nest);
    lo->out = nest->outer;
}

void end_nests(Lowering *lo, Nest *nests, int n)
{
    while (n > 0) end_nest(lo, &nests[--n]);
}

void begin_while(Lowering *lo, Nest *nest, Expr *cond, const Iteration *it)
{
    Nest leave;
    begin_nest(lo, nest, (LoopStmt){ .kind = L_WHILE, .while_ = { .cond = expr_bool(lo->arena, true) } });
    if (expr_is_const(cond) && cond->integer.value) return;
    begin_if(lo, &leave, expr_unary(lo->arena, X_NOT, lower_expr(lo, cond, it)));
    emit_jump(lo, L_BREAK);
    end_nest(lo, &leave);
}
