// SPDX-License-Identifier: MIT
// expr_print.c - expressions as readable, C-like text: parentheses only where precedence asks for them.
#include "ir/names.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEVEL_SELECT = 1, LEVEL_ANY = 0, LEVEL_UNARY = 12 };

static const char *const atomic_names[] = {
    [ATOMIC_ADD] = "atomic_add", [ATOMIC_MIN] = "atomic_min", [ATOMIC_MAX] = "atomic_max",
    [ATOMIC_AND] = "atomic_and", [ATOMIC_OR] = "atomic_or",   [ATOMIC_EXCHANGE] = "atomic_exchange",
    [ATOMIC_CAS] = "atomic_cas",
};

// As a .tile literal, read back exactly.
static void float_print(Text *out, DType type, double value)
{
    if (isnan(value)) {
        text_print(out, "NAN");
        return;
    }
    if (isinf(value)) {
        text_print(out, value < 0 ? "-INFINITY" : "INFINITY");
        return;
    }
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        const double back = strtod(text, NULL);
        if (type == DTYPE_F64 ? back == value : (float)back == (float)value) break;
    }
    text_print(out, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

static void print_at(Text *out, const Names *names, const Expr *x, int level);

static void print_list(Text *out, const Names *names, Expr *const *items, int n)
{
    for (int i = 0; i < n; i++) {
        if (i) text_print(out, ", ");
        print_at(out, names, items[i], LEVEL_ANY);
    }
}

static void print_subscripts(Text *out, const Names *names, Expr *const *subs, int n)
{
    for (int i = 0; i < n; i++) {
        text_print(out, "[");
        print_at(out, names, subs[i], LEVEL_ANY);
        text_print(out, "]");
    }
}

static void print_int(Text *out, const Expr *x)
{
    if (x->type == DTYPE_BOOL) text_print(out, x->integer.value ? "true" : "false");
    else if (x->type == DTYPE_U64) text_print(out, "%llu", (unsigned long long)x->integer.value);
    else text_print(out, "%lld", (long long)x->integer.value);
}

static void print_binary(Text *out, const Names *names, const Expr *x)
{
    const ExprOpInfo info = expr_op_info[x->op.op];
    int64_t c;
    print_at(out, names, x->op.a, info.level);
    // The folding builders write x - c as x + -c.
    if (x->op.op == X_ADD && expr_as_int(x->op.b, &c) && c < 0 && c > INT64_MIN && !dtype_is_unsigned(x->type)) {
        text_print(out, " - %lld", (long long)-c);
        return;
    }
    text_print(out, info.level == 11 ? "%s" : " %s ", info.text);
    print_at(out, names, x->op.b, info.level + 1);
}

static void print_atomic(Text *out, const Names *names, const Expr *x)
{
    text_print(out, "%s(", atomic_names[x->atomic.op]);
    names_print_buffer(out, names, x->atomic.buffer);
    print_subscripts(out, names, x->atomic.subs, x->atomic.buffer->rank);
    if (x->atomic.compare) {
        text_print(out, ", ");
        print_at(out, names, x->atomic.compare, LEVEL_ANY);
    }
    if (x->atomic.value) {
        text_print(out, ", ");
        print_at(out, names, x->atomic.value, LEVEL_ANY);
    }
    text_print(out, ")");
}

static int level_of(const Expr *x)
{
    if (x->kind == E_UNARY || x->kind == E_BINARY) return expr_op_info[x->op.op].level;
    if (x->kind == E_SELECT) return LEVEL_SELECT;
    if (x->kind == E_INT && x->integer.value < 0 && x->type != DTYPE_U64) return LEVEL_UNARY;
    if (x->kind == E_FLOAT && signbit(x->real.value)) return LEVEL_UNARY;
    return 20;
}

static void print_at(Text *out, const Names *names, const Expr *x, int level)
{
    const bool parens = level_of(x) < level;
    if (parens) text_print(out, "(");
    switch (x->kind) {
    case E_INT: print_int(out, x); break;
    case E_FLOAT: float_print(out, x->type, x->real.value); break;
    case E_VAR: names_print_var(out, names, x->var.var); break;
    case E_LOAD:
        names_print_buffer(out, names, x->load.buffer);
        print_subscripts(out, names, x->load.subs, x->load.buffer->rank);
        break;
    case E_UNARY:
        text_print(out, "%s", expr_op_info[x->op.op].text);
        print_at(out, names, x->op.a, LEVEL_UNARY + 1);
        break;
    case E_BINARY: print_binary(out, names, x); break;
    case E_SELECT:
        print_at(out, names, x->select.cond, LEVEL_SELECT + 1);
        text_print(out, " ? ");
        print_at(out, names, x->select.a, LEVEL_SELECT);
        text_print(out, " : ");
        print_at(out, names, x->select.b, LEVEL_SELECT);
        break;
    case E_CONVERT:
    case E_BITCAST:
        text_print(out, "%s<%s>(", x->kind == E_CONVERT ? "convert" : "bitcast", dtype_name(x->type));
        print_at(out, names, x->convert.a, LEVEL_ANY);
        text_print(out, ")");
        break;
    case E_MATH:
        text_print(out, "%s(", builtins[x->math.fn].name);
        print_list(out, names, x->math.args, x->math.n);
        text_print(out, ")");
        break;
    case E_ATOMIC: print_atomic(out, names, x); break;
    case E_CALL:
        text_print(out, "%s", x->call.name);
        if (x->call.n < 0) break;
        text_print(out, "(");
        print_list(out, names, x->call.args, x->call.n);
        text_print(out, ")");
        break;
    case E_INDEX:
    case E_ADDRESS:
        if (x->kind == E_ADDRESS) text_print(out, "&");
        names_print_var(out, names, x->index.pointer);
        print_subscripts(out, names, &x->index.at, 1);
        break;
    }
    if (parens) text_print(out, ")");
}

void expr_print_named(Text *out, const Names *names, const Expr *x) { print_at(out, names, x, LEVEL_ANY); }
void expr_print(Text *out, const Expr *x) { print_at(out, NULL, x, LEVEL_ANY); }

const char *expr_text(Arena *a, const Expr *x)
{
    Text text = { .arena = a };
    expr_print(&text, x);
    return text_cstr(&text);
}
