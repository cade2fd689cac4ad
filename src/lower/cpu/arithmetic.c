// SPDX-License-Identifier: MIT
// arithmetic.c - integer operations where C has no answer: division by what may be 0 or -1, shifts by what may be no
// count. The language has one (docs/language.md, 3), and --check builds stop there, and where `int` overflows.
//
// Operands are Loop IR; `right` is the right operand as its range is best known, in Tile IR.
#include "lower/cpu/cpu.h"

static Expr *call_kind(Cpu *cx, const char *name, Expr *a, Expr *b)
{
    const char *const function = arena_printf(cx->arena, "kiln_%s_%s", name, cpu_kind_name(a->type));
    return expr_call(cx->arena, a->type, function, 2, (Expr *[]){ a, b });
}

static Expr *call_checked(Cpu *cx, const char *name, Expr *a, Expr *b, Span span)
{
    Expr *args[] = { cpu_of(cx, cx->host), a, b, cpu_where(cx, span) };
    const char *const function = arena_printf(cx->arena, "kiln_checked_%s_%s", name, dtype_name(a->type));
    return expr_call(cx->arena, a->type, function, 4, args);
}

static bool divides(ExprOp op) { return op == X_DIV || op == X_MOD; }

// The test of a --check build; NULL: there is nothing to test.
static const char *checked_name(const Cpu *cx, ExprOp op, DType type, Span span)
{
    static const char *const names[X_OP_COUNT] = {
        [X_ADD] = "add", [X_SUB] = "sub", [X_MUL] = "mul", [X_DIV] = "div",
        [X_MOD] = "mod", [X_SHL] = "shl", [X_SHR] = "shr",
    };
    if (!cpu_is_checked(cx) || !span.source) return NULL;
    return type == DTYPE_INT || (divides(op) && dtype_is_integer(type)) ? names[op] : NULL;
}

Expr *cpu_operation(Cpu *cx, ExprOp op, Expr *a, Expr *b, const Expr *right, Span span)
{
    const DType type = a->type;
    const char *const checked = checked_name(cx, op, type, span);
    if (checked) return call_checked(cx, checked, a, b, span);
    if (op == X_MOD && dtype_is_float(type))
        return cpu_call(cx, type, type == DTYPE_F64 ? "__builtin_fmod" : "__builtin_fmodf", 2, a, b);
    if (divides(op) && dtype_is_integer(type) && !expr_divides(right))
        return call_kind(cx, op == X_DIV ? "any_div" : "any_mod", a, b);
    if ((op == X_SHL || op == X_SHR) && !expr_is_count(right, type))
        b = expr_binary(cx->arena, X_BITAND, b, expr_int(cx->arena, b->type, dtype_bits(type) - 1));
    return expr_binary(cx->arena, op, a, b);
}

Expr *cpu_negation(Cpu *cx, Expr *a, Span span)
{
    const bool tested = checked_name(cx, X_SUB, a->type, span) != NULL;
    return tested ? call_checked(cx, "sub", int_const(cx->arena, 0), a, span) : expr_unary(cx->arena, X_NEG, a);
}

Expr *cpu_magnitude(Cpu *cx, Expr *a, Span span)
{
    if (!checked_name(cx, X_SUB, a->type, span))
        return cpu_call(cx, a->type, arena_printf(cx->arena, "kiln_abs_%s", cpu_kind_name(a->type)), 1, a);
    return cpu_call(cx, a->type, "kiln_checked_abs", 3, cpu_of(cx, cx->host), a, cpu_where(cx, span));
}

Expr *cpu_ceildiv(Cpu *cx, Expr *a, Expr *b, const Expr *right, Span span)
{
    const Range r = expr_range(right);
    if (r.has_lo && r.lo > 0) return call_kind(cx, "ceildiv", a, b);
    return checked_name(cx, X_DIV, a->type, span) ? call_checked(cx, "ceildiv", a, b, span)
                                                  : call_kind(cx, "any_ceildiv", a, b);
}
