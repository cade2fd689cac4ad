// SPDX-License-Identifier: MIT
// types.c - element types of values: literals, widening, the usual arithmetic conversions, assignment.
//
// Operands narrower than 32 bits are widened before they are used. Of two operands: a literal takes the other's
// type; a floating type wins over integers (f64 over f32); `int` wins over sized integers up to 32 bits; of two sized
// integers the wider wins, of equal width the unsigned one; a 64-bit sized integer wins over `int`, so that what
// wraps on purpose goes on wrapping. In sequential code (references) floating arithmetic is f64.
#include "check/context.h"
#include "ir/constant.h"

#include <math.h>

DType default_float(const Checker *cx) { return cx->sequential ? DTYPE_F64 : DTYPE_F32; }

DType widened(DType type) { return type == DTYPE_BOOL ? DTYPE_I32 : dtype_info[type].wide; }

Value scalar_value(Expr *expr, Span span) { return (Value){ .kind = VALUE_SCALAR, .span = span, .expr = expr }; }

static bool is_poison(const Value *v) { return v->kind == VALUE_POISON; }

// The conversion goes into the arms of a choice between constants, which then are constants of the right type.
static Expr *convert_arms(Checker *cx, DType to, Expr *x)
{
    if (x->kind != E_SELECT || x->type == to || (!expr_is_const(x->select.a) && !expr_is_const(x->select.b)))
        return expr_convert(cx->arena, to, x);
    Expr *const made =
        written_select(cx, x->select.cond, convert_arms(cx, to, x->select.a), convert_arms(cx, to, x->select.b));
    if (made->kind == E_SELECT) made->span = x->span;
    return made;
}

Value settle(Checker *cx, Value v)
{
    if (v.kind != VALUE_SCALAR || !v.flexible) return v;
    if (dtype_is_float(v.expr->type)) v.expr = convert_arms(cx, default_float(cx), v.expr);
    v.flexible = false;
    return v;
}

// ---- constants: what a type can hold of them

static const char *number_text(Checker *cx, const Expr *x)
{
    if (x->kind == E_FLOAT) return arena_printf(cx->arena, "%g", x->real.value);
    return arena_printf(cx->arena, x->type == DTYPE_U64 ? "%llu" : "%lld", (unsigned long long)x->integer.value);
}

static bool report_misfit(Checker *cx, Span span, const Expr *x, DType to)
{
    int64_t lo, hi;
    const char *range = "0 .. 18446744073709551615";
    if (to == DTYPE_E8M0) range = arena_printf(cx->arena, "%g .. %g", 0x1p-127, dtype_most(to));
    else if (dtype_is_float(to)) range = arena_printf(cx->arena, "%g .. %g", -dtype_most(to), dtype_most(to));
    else if (dtype_limits(to, &lo, &hi)) range = arena_printf(cx->arena, "%lld .. %lld", (long long)lo, (long long)hi);
    return check_error(cx, span, "%s does not fit into %s (%s)", number_text(cx, x), dtype_name(to), range);
}

static bool integer_fits(const Expr *x, DType to, bool is_bits)
{
    int64_t lo, hi;
    const int64_t value = x->integer.value;
    const bool is_huge = x->type == DTYPE_U64 && value < 0; // it is above all of int64_t
    const int bits = dtype_bits(to);
    if (bits == 64) return is_bits || (to == DTYPE_U64 ? is_huge || value >= 0 : !is_huge);
    if (is_huge) return false;
    if (is_bits) return value >= -(INT64_C(1) << (bits - 1)) && value < INT64_C(1) << bits;
    return dtype_limits(to, &lo, &hi) && value >= lo && value <= hi;
}

static double real_of(const Expr *x)
{
    if (x->kind == E_FLOAT) return x->real.value;
    return x->type == DTYPE_U64 ? (double)(uint64_t)x->integer.value : (double)x->integer.value;
}

// A fraction is no integer; one that is whole is held to the range as an integer is.
static bool whole_fits(Checker *cx, Span span, const Expr *x, DType to)
{
    const double value = x->real.value;
    if (value != floor(value) || isinf(value))
        return check_error(cx, span, "%s is no value of %s", number_text(cx, x), dtype_name(to));
    const bool fits = to == DTYPE_U64 ? value >= 0 && value < 0x1p64
                                      : value < 0x1p63 && (double)constant_truncate(to, value) == value;
    return fits || report_misfit(cx, span, x, to);
}

// Whether a constant is a number of type `to`; reports.
static bool constant_fits(Checker *cx, Span span, const Expr *x, DType to, bool is_bits)
{
    if (x->kind == E_SELECT)
        return constant_fits(cx, span, x->select.a, to, is_bits) && constant_fits(cx, span, x->select.b, to, is_bits);
    if (!expr_is_const(x) || (!dtype_is_integer(to) && !dtype_is_float(to))) return true;
    if (dtype_is_float(to)) return !constant_overflows(to, real_of(x)) || report_misfit(cx, span, x, to);
    if (x->kind == E_FLOAT) return whole_fits(cx, span, x, to);
    return integer_fits(x, to, is_bits) || report_misfit(cx, span, x, to);
}

static bool must_fit(const Value *v, DType to)
{
    if (v->flexible) return true;
    return v->entity && v->entity->is_constant && v->expr->kind == E_INT && dtype_is_integer(to);
}

// ---- conversions

Value cast_value(Checker *cx, Value v, DType to)
{
    if (is_poison(&v) || to == DTYPE_NONE) return POISON;
    if (v.kind != VALUE_SCALAR)
        return FAIL(cx, v.span, "expected a value of %s, found %s", dtype_name(to), show_value(cx, &v));
    v.expr = to == DTYPE_BOOL ? truth(cx, v) : convert_arms(cx, to, v.expr);
    v.flexible = false;
    return v;
}

// The bits of a constant of another type are as good as its number.
Value convert_value(Checker *cx, Value v, DType to)
{
    if (v.kind == VALUE_SCALAR && to != DTYPE_NONE && must_fit(&v, to) &&
        !constant_fits(cx, v.span, v.expr, to, v.is_bits || !v.flexible))
        return POISON;
    return cast_value(cx, v, to);
}

Expr *convert_expr(Checker *cx, Value v, DType to)
{
    const Value converted = convert_value(cx, v, to);
    return is_poison(&converted) ? NULL : converted.expr;
}

Expr *truth(Checker *cx, Value v)
{
    if (is_poison(&v)) return NULL;
    if (v.kind != VALUE_SCALAR) {
        check_error(cx, v.span, "expected a condition, found %s", show_value(cx, &v));
        return NULL;
    }
    if (v.expr->type == DTYPE_BOOL) return v.expr;
    const DType type = widened(v.expr->type);
    Expr *const zero = dtype_is_float(type) ? expr_float(cx->arena, type, 0) : expr_int(cx->arena, type, 0);
    return written_binary(cx, X_NE, expr_convert(cx->arena, type, v.expr), zero);
}

// ---- the usual arithmetic conversions

static DType common_integer(DType a, DType b)
{
    const int bits_a = dtype_bits(a), bits_b = dtype_bits(b);
    if (a == b) return a;
    if (a == DTYPE_INT) return bits_b == 64 ? b : a;
    if (b == DTYPE_INT) return bits_a == 64 ? a : b;
    if (bits_a != bits_b) return bits_a > bits_b ? a : b;
    return dtype_is_unsigned(a) ? a : b;
}

static DType common_type(Checker *cx, DType a, DType b)
{
    if (dtype_is_float(a) || dtype_is_float(b)) {
        if (cx->sequential) return DTYPE_F64;
        return a == DTYPE_F64 || b == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
    }
    return common_integer(a, b);
}

// A literal beside a value of type `other`.
static DType literal_type(Checker *cx, const Value *literal, DType other)
{
    if (dtype_is_float(literal->expr->type) && !dtype_is_float(other)) return default_float(cx);
    return other;
}

// What a literal is by itself: f64, int, or u64 where that is too small.
static DType literal_class(const Value *v)
{
    return v->flexible && dtype_is_float(v->expr->type) ? DTYPE_F64 : widened(v->expr->type);
}

bool convert_pair(Checker *cx, Value *a, Value *b, const char *what)
{
    if (is_poison(a) || is_poison(b)) return false;
    for (int side = 0; side < 2; side++) {
        const Value *const v = side == 0 ? a : b;
        if (v->kind == VALUE_SCALAR) continue;
        if (v->kind == VALUE_REGION) {
            check_error(cx, v->span, "'%s' takes single elements, not the whole of %s", what,
                        show_region(cx, &v->region));
            check_help(cx, v->span, "compute element by element: forall (i : ...) x[i] = ...");
        } else {
            check_error(cx, v->span, "'%s' takes numbers, not %s", what, show_value(cx, v));
        }
        return false;
    }
    // A choice between literals is a literal still, but nothing can be computed from it at build time.
    if (a->flexible && b->flexible && !(expr_is_const(a->expr) && expr_is_const(b->expr))) {
        *a = settle(cx, *a);
        *b = settle(cx, *b);
    }
    const bool flexible = a->flexible && b->flexible;
    const DType ta = literal_class(a), tb = literal_class(b);
    DType type;
    if (flexible) type = ta == DTYPE_F64 || tb == DTYPE_F64 ? DTYPE_F64 : common_integer(ta, tb);
    else if (a->flexible) type = literal_type(cx, a, tb);
    else if (b->flexible) type = literal_type(cx, b, ta);
    else type = common_type(cx, ta, tb);
    if (cx->sequential && dtype_is_float(type)) type = DTYPE_F64;
    *a = convert_value(cx, *a, type);
    *b = convert_value(cx, *b, type);
    if (is_poison(a) || is_poison(b)) return false;
    a->flexible = b->flexible = flexible;
    return true;
}
