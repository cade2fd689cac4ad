// SPDX-License-Identifier: MIT
// build.c - short forms for building Loop IR.
#include "lower/common/common.h"
#include "emit/escape.h"

Expr *common_call(Arena *arena, DType type, const char *name, int n, va_list list)
{
    Expr *args[EXPR_SLOTS_MAX];
    for (int i = 0; i < n; i++) args[i] = va_arg(list, Expr *);
    return expr_call(arena, type, name, n, args);
}

Expr *common_literal(Arena *arena, DType type, const char *text) { return expr_call(arena, type, text, -1, NULL); }

Expr *common_quoted(Arena *arena, const char *text)
{
    Text out = { .arena = arena };
    escape_string(&out, text, strlen(text));
    return common_literal(arena, DTYPE_NONE, text_cstr(&out));
}

void common_add_call(LoopList *list, Expr *call) { loop_add(list, (LoopStmt){ .kind = L_CALL, .call = { call } }); }

void common_declare(LoopList *list, Var *var, Expr *value)
{
    loop_add(list, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = var, .value = value } });
}

void common_assign(LoopList *list, Var *var, Expr *value)
{
    loop_add(list, (LoopStmt){ .kind = L_ASSIGN, .assign = { var, value } });
}
