// SPDX-License-Identifier: MIT
// build.c - short forms for building Loop IR, used all over the CPU lowering.
#include "lower/cpu/cpu.h"

Expr *cpu_literal(Cpu *cx, const char *text) { return common_literal(cx->arena, DTYPE_INT, text); }
Expr *cpu_quoted(Cpu *cx, const char *text) { return common_quoted(cx->arena, text); }

Expr *cpu_call(Cpu *cx, DType type, const char *name, int n, ...)
{
    va_list list;
    va_start(list, n);
    Expr *const call = common_call(cx->arena, type, name, n, list);
    va_end(list);
    return call;
}

LoopStmt *cpu_add(Cpu *cx, LoopStmt stmt) { return loop_add(cx->out, stmt); }

LoopList *cpu_enter(Cpu *cx, LoopList *list)
{
    LoopList *const before = cx->out;
    cx->out = list;
    return before;
}

void cpu_add_if(Cpu *cx, Expr *cond, const LoopList *body)
{
    if (cond) cpu_add(cx, (LoopStmt){ .kind = L_IF, .branch = { cond, body->first, NULL } });
    else cpu_add(cx, (LoopStmt){ .kind = L_BLOCK, .block = { body->first } });
}

void cpu_add_loop(Cpu *cx, Var *var, Expr *lo, Expr *hi, const LoopList *body)
{
    cpu_add(cx, (LoopStmt){
                    .kind = L_FOR,
                    .for_ = { .var = var, .lo = lo, .hi = hi, .step = int_const(cx->arena, 1), .body = body->first } });
}

void cpu_add_call(Cpu *cx, Expr *call) { common_add_call(cx->out, call); }

Var *cpu_declare(Cpu *cx, DType type, const char *name, Expr *value)
{
    Var *const var = loop_new_var(cx->unit, type, name);
    common_declare(cx->out, var, value);
    return var;
}

Var *cpu_declare_pointer(Cpu *cx, DType type, const char *name, Expr *value)
{
    Var *const var = loop_new_pointer(cx->unit, type, name);
    common_declare(cx->out, var, value);
    return var;
}

void cpu_assign(Cpu *cx, Var *var, Expr *value) { common_assign(cx->out, var, value); }

Expr *cpu_of(Cpu *cx, Var *var) { return expr_var(cx->arena, var); }

// & and not &&: no branch, so that loops vectorise.
Expr *cpu_both(Cpu *cx, Expr *a, Expr *b)
{
    if (!a || !b) return a ? a : b;
    return expr_binary(cx->arena, X_BITAND, a, b);
}

void cpu_use_prelude(Cpu *cx, const char *macro)
{
    for (int i = 0; i < cx->uses.count; i++)
        if (strcmp(cx->uses.items[i], macro) == 0) return;
    VEC_PUSH(cx->arena, &cx->uses, macro);
}

bool cpu_unsupported(Cpu *cx, Span span, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    common_unsupported(cx->kernel, span, format, list);
    va_end(list);
    cx->failed = true;
    return false;
}

const char *cpu_fresh_label(Cpu *cx, const char *stem)
{
    return arena_printf(cx->arena, "%s_%d", stem, cx->n_labels++);
}
