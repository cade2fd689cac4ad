// SPDX-License-Identifier: MIT
// math.c - conversions and the language's functions by the names of the CPU prelude.
//
// What C's own cast does right stays a conversion; the rest (narrow floats, saturation) becomes a call. A value of a
// narrow float type is its bits in Loop IR, so an operation never sees one.
#include "lower/cpu/cpu.h"

// ---- conversions

static bool is_narrow_float(DType t)
{
    return t == DTYPE_F16 || t == DTYPE_BF16 || t == DTYPE_E4M3 || t == DTYPE_E5M2 || t == DTYPE_E2M1;
}

static bool is_packed(DType t) { return dtype_bits(t) < 8; }

static Expr *call_named(Cpu *cx, DType type, const char *to, const char *from, Expr *x)
{
    return cpu_call(cx, type, arena_printf(cx->arena, "kiln_%s_from_%s", to, from), 1, x);
}

// C's cast, also between types that are one in C.
static Expr *cast(Cpu *cx, DType to, Expr *x)
{
    if (x->type == to) return x;
    Expr *const y = NEW(cx->arena, Expr, .kind = E_CONVERT, .type = to, .span = x->span);
    y->convert.a = x;
    return y;
}

// Of any type, as one of f32 f64 and the integers of at least 8 bits.
static Expr *widened(Cpu *cx, Expr *x)
{
    if (is_narrow_float(x->type)) return call_named(cx, DTYPE_F32, "f32", dtype_name(x->type), x);
    if (is_packed(x->type)) return call_named(cx, DTYPE_I32, "i32", dtype_name(x->type), x);
    if (x->type == DTYPE_TF32) return cast(cx, DTYPE_F32, x);
    return x;
}

static Expr *to_narrow_float(Cpu *cx, DType to, Expr *x)
{
    if (x->type == DTYPE_F64) x = cpu_call(cx, DTYPE_F32, "kiln_f32_odd_from_f64", 1, x);
    else if (x->type == DTYPE_BOOL || dtype_bits(x->type) < 32) x = cast(cx, DTYPE_F32, x);
    else if (dtype_is_integer(x->type) && dtype_bits(x->type) == 32)
        x = cpu_call(cx, DTYPE_F32, "kiln_f32_odd_from_f64", 1, cast(cx, DTYPE_F64, x));
    else if (x->type == DTYPE_U64)
        x = cpu_call(cx, DTYPE_F32, "kiln_f32_odd_from_f64", 1, cpu_call(cx, DTYPE_F64, "kiln_f64_odd_from_u64", 1, x));
    else if (dtype_is_integer(x->type)) x = cpu_call(cx, DTYPE_F32, "kiln_f32_odd_from_i64", 1, x);
    return call_named(cx, to, dtype_name(to), "f32", x);
}

static const char *integer_name(DType t) { return t == DTYPE_INT ? "i64" : dtype_name(t); }

// From f32 or f64: truncates and saturates.
static Expr *float_to_integer(Cpu *cx, DType to, Expr *x)
{
    const char *const from = dtype_name(x->type);
    if (dtype_bits(to) >= 32) return call_named(cx, to, integer_name(to), from, x);
    if (x->type == DTYPE_F64) {
        const bool is_signed = !dtype_is_unsigned(to);
        const int bits = dtype_bits(to);
        const int64_t lo = is_signed ? -((int64_t)1 << (bits - 1)) : 0, hi = ((int64_t)1 << (bits - is_signed)) - 1;
        Expr *const whole = call_named(cx, DTYPE_I32, "i32", from, x);
        return cast(cx, to,
                    cpu_call(cx, DTYPE_I32, "kiln_clamp_i32", 3, whole, expr_int(cx->arena, DTYPE_I32, lo),
                             expr_int(cx->arena, DTYPE_I32, hi)));
    }
    return call_named(cx, to, integer_name(to), from, x);
}

Expr *cpu_convert(Cpu *cx, DType to, Expr *x)
{
    if (x->type == to) return x;
    if (expr_is_const(x) && !is_narrow_float(to) && !is_packed(to)) return expr_convert(cx->arena, to, x);
    x = widened(cx, x);
    if (x->type == to) return x;
    if (to == DTYPE_BOOL)
        return expr_binary(cx->arena, X_NE, x, expr_convert(cx->arena, x->type, expr_int(cx->arena, DTYPE_INT, 0)));
    if (is_narrow_float(to)) return to_narrow_float(cx, to, x);
    if (to == DTYPE_TF32) return cpu_call(cx, to, "kiln_tf32_from_f32", 1, cast(cx, DTYPE_F32, x));
    if (dtype_is_integer(to) && dtype_is_float(x->type)) return float_to_integer(cx, to, x);
    if (is_packed(to))
        return expr_binary(cx->arena, X_BITAND, cast(cx, to, x), expr_int(cx->arena, to, (1 << dtype_bits(to)) - 1));
    return cast(cx, to, x);
}

Expr *cpu_bitcast(Cpu *cx, DType to, Expr *x)
{
    const bool from_float = x->type == DTYPE_F32 || x->type == DTYPE_TF32, from_double = x->type == DTYPE_F64;
    const bool to_float = to == DTYPE_F32 || to == DTYPE_TF32, to_double = to == DTYPE_F64;
    if (from_float && to_float) return cast(cx, to, x);
    if (from_float) return cast(cx, to, cpu_call(cx, DTYPE_U32, "kiln_bits_f32", 1, x));
    if (to_float) return cpu_call(cx, to, "kiln_f32_bits", 1, cast(cx, DTYPE_U32, x));
    if (from_double) return cast(cx, to, cpu_call(cx, DTYPE_U64, "kiln_bits_f64", 1, x));
    if (to_double) return cpu_call(cx, to, "kiln_f64_bits", 1, cast(cx, DTYPE_U64, x));
    return cast(cx, to, x);
}

// ---- functions

const char *cpu_kind_name(DType t)
{
    switch ((int)t) {
    case DTYPE_F64: return "f64";
    case DTYPE_F32:
    case DTYPE_TF32: return "f32";
    case DTYPE_INT:
    case DTYPE_I64: return "int";
    case DTYPE_U64: return "u64";
    case DTYPE_U32: return "u32";
    }
    return "i32";
}

static Expr *call_kind(Cpu *cx, DType type, const char *name, DType kind, int n, Expr **args)
{
    return expr_call(cx->arena, type, arena_printf(cx->arena, "kiln_%s_%s", name, cpu_kind_name(kind)), n, args);
}

// popcount and its kin look at bits: unsigned, 32 or 64.
static Expr *call_bits(Cpu *cx, Expr *x, const char *name, Expr *arg)
{
    const DType bits = dtype_bits(arg->type) == 64 ? DTYPE_U64 : DTYPE_U32;
    Expr *args[] = { cast(cx, bits, arg) };
    return cast(cx, x->type, call_kind(cx, DTYPE_I32, name, bits, 1, args));
}

Expr *cpu_math(Cpu *cx, Expr *x, Expr **args)
{
    const DType type = x->type == DTYPE_TF32 ? DTYPE_F32 : x->type;
    switch (x->math.fn) {
    case M_EXP:
    case M_EXP2:
    case M_LOG:
    case M_LOG2:
    case M_SIN:
    case M_COS:
    case M_TANH:
    case M_ERF:
    case M_POW:
    case M_RSQRT:
        cpu_use_prelude(cx, type == DTYPE_F32 || x->math.fn == M_RSQRT ? "MATH" : "F64_MATH");
        return call_kind(cx, type, math_info[x->math.fn].name, type, x->math.n, args);
    case M_SQRT:
    case M_FLOOR:
    case M_CEIL:
    case M_ROUND:
    case M_RINT:
    case M_TRUNC:
        if (!dtype_is_float(type)) return args[0];
        return expr_call(
            cx->arena, type,
            arena_printf(cx->arena, "__builtin_%s%s", math_info[x->math.fn].name, type == DTYPE_F64 ? "" : "f"), 1,
            args);
    case M_FMA: {
        if (dtype_is_float(type))
            return expr_call(cx->arena, type, type == DTYPE_F64 ? "__builtin_fma" : "__builtin_fmaf", 3, args);
        return expr_binary(cx->arena, X_ADD, expr_binary(cx->arena, X_MUL, args[0], args[1]), args[2]);
    }
    case M_ABS:
        if (dtype_is_float(type))
            return cpu_call(cx, type, type == DTYPE_F64 ? "__builtin_fabs" : "__builtin_fabsf", 1, args[0]);
        return dtype_is_unsigned(type) ? args[0] : cpu_magnitude(cx, args[0], x->span);
    case M_CEILDIV: return cpu_ceildiv(cx, args[0], args[1], x->math.args[1], x->span);
    case M_MIN:
    case M_MAX: return call_kind(cx, type, math_info[x->math.fn].name, type, 2, args);
    case M_CLAMP:
        if (!dtype_is_float(type)) return call_kind(cx, type, "limit", type, 3, args);
        {
            Expr *low[] = { args[0], args[1] }, *const above = call_kind(cx, type, "max", type, 2, low);
            Expr *high[] = { above, args[2] };
            return call_kind(cx, type, "min", type, 2, high);
        }
    case M_POPCOUNT:
    case M_CLZ:
    case M_FFS: return call_bits(cx, x, math_info[x->math.fn].name, args[0]);
    case M_DOT4: {
        const bool is_unsigned = dtype_is_unsigned(args[0]->type);
        Expr *const sum = x->math.n > 2 ? args[2] : expr_int(cx->arena, type, 0);
        return cast(cx, type,
                    cpu_call(cx, is_unsigned ? DTYPE_U32 : DTYPE_I32, is_unsigned ? "kiln_dot4_u32" : "kiln_dot4_i32",
                             3, cast(cx, is_unsigned ? DTYPE_U32 : DTYPE_I32, args[0]),
                             cast(cx, is_unsigned ? DTYPE_U32 : DTYPE_I32, args[1]), sum));
    }
    case M_RANDOM:
        return cast(
            cx, type,
            cpu_call(cx, DTYPE_F32, "kiln_random", 2, cast(cx, DTYPE_U64, args[0]), cast(cx, DTYPE_U64, args[1])));
    case M_COUNT: break;
    }
    return args[0];
}
