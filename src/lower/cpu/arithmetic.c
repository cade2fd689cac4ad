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

// The test of a --check build; NULL: there is nothing to test.
static const char *test_of(const Cpu *cx, ExprOp op, DType type, Span span)
{
    return dtype_is_integer(type) ? common_tested(cx->kernel, op, type == DTYPE_INT, span) : NULL;
}

Expr *cpu_operation(Cpu *cx, ExprOp op, Expr *a, Expr *b, const Expr *right, Span span)
{
    const DType type = a->type;
    const char *const checked = test_of(cx, op, type, span);
    if (checked) return call_checked(cx, checked, a, b, span);
    if (op == X_MOD && dtype_is_float(type))
        return cpu_call(cx, type, type == DTYPE_F64 ? "__builtin_fmod" : "__builtin_fmodf", 2, a, b);
    if (op_divides(op) && dtype_is_integer(type) && !expr_divides(right))
        return call_kind(cx, op == X_DIV ? "any_div" : "any_mod", a, b);
    if (op_shifts(op)) b = common_shift_count(cx->arena, type, b, right);
    return expr_binary(cx->arena, op, a, b);
}

Expr *cpu_negation(Cpu *cx, Expr *a, Span span)
{
    const bool tested = test_of(cx, X_SUB, a->type, span) != NULL;
    return tested ? call_checked(cx, "sub", int_const(cx->arena, 0), a, span) : expr_unary(cx->arena, X_NEG, a);
}

Expr *cpu_magnitude(Cpu *cx, Expr *a, Span span)
{
    if (!test_of(cx, X_SUB, a->type, span))
        return cpu_call(cx, a->type, arena_printf(cx->arena, "kiln_abs_%s", cpu_kind_name(a->type)), 1, a);
    return cpu_call(cx, a->type, "kiln_checked_abs", 3, cpu_of(cx, cx->host), a, cpu_where(cx, span));
}

Expr *cpu_ceildiv(Cpu *cx, Expr *a, Expr *b, const Expr *right, Span span)
{
    if (common_is_positive(right)) return call_kind(cx, "ceildiv", a, b);
    return test_of(cx, X_DIV, a->type, span) ? call_checked(cx, "ceildiv", a, b, span)
                                             : call_kind(cx, "any_ceildiv", a, b);
}
