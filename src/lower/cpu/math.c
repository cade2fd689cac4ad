// SPDX-License-Identifier: MIT
// math.c - conversions and the language's functions by the names of the CPU prelude.
//
// What C's own cast does right stays a conversion; the rest (narrow floats, saturation) becomes a call. A value of a
// narrow float type is its bits in Loop IR, so an operation never sees one.
#include "lower/cpu/cpu.h"

#include <assert.h>

// ---- conversions

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
    const DType wide = common_widened(x->type);
    if (x->type == wide) return x;
    return x->type == DTYPE_TF32 ? cast(cx, wide, x) : call_named(cx, wide, dtype_name(wide), dtype_name(x->type), x);
}

// What is rounded once more: where f32 does not hold it, to odd.
static Expr *to_f32_odd(Cpu *cx, Expr *x)
{
    if (x->type == DTYPE_F64) x = cpu_call(cx, DTYPE_F32, "kiln_f32_odd_from_f64", 1, x);
    else if (x->type == DTYPE_BOOL || dtype_bits(x->type) < 32) x = cast(cx, DTYPE_F32, x);
    else if (dtype_is_integer(x->type) && dtype_bits(x->type) == 32)
        x = cpu_call(cx, DTYPE_F32, "kiln_f32_odd_from_f64", 1, cast(cx, DTYPE_F64, x));
    else if (x->type == DTYPE_U64)
        x = cpu_call(cx, DTYPE_F32, "kiln_f32_odd_from_f64", 1, cpu_call(cx, DTYPE_F64, "kiln_f64_odd_from_u64", 1, x));
    else if (dtype_is_integer(x->type)) x = cpu_call(cx, DTYPE_F32, "kiln_f32_odd_from_i64", 1, x);
    return x;
}

static Expr *to_narrow_float(Cpu *cx, DType to, Expr *x)
{
    return call_named(cx, to, dtype_name(to), "f32", to_f32_odd(cx, x));
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
    Arena *const a = cx->arena;
    if (x->type == to) return x;
    if (expr_is_const(x) && !dtype_is_narrow_float(to) && !dtype_is_packed(to)) return expr_convert(a, to, x);
    const bool is_code = dtype_is_packed(x->type);
    x = widened(cx, x);
    if (is_code && dtype_is_integer(x->type) && dtype_is_float(to)) x = cast(cx, DTYPE_F32, x); // which has all of them
    if (x->type == to) return x;
    switch (common_convert_step(to, x->type)) {
    case CONVERT_TRUTH: return expr_binary(a, X_NE, x, expr_convert(a, x->type, expr_int(a, DTYPE_INT, 0)));
    case CONVERT_NARROW: return to_narrow_float(cx, to, x);
    case CONVERT_TF32: return cpu_call(cx, to, "kiln_tf32_from_f32", 1, to_f32_odd(cx, x));
    case CONVERT_SATURATE: return float_to_integer(cx, to, x);
    case CONVERT_PACK: return expr_binary(a, X_BITAND, cast(cx, to, x), expr_int(a, to, (1 << dtype_bits(to)) - 1));
    case CONVERT_CAST: break;
    }
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

// What looks at bits: unsigned, 32 or 64.
static Expr *call_unsigned(Cpu *cx, Expr *x, const char *name, Expr **args)
{
    const DType kind = dtype_bits(args[0]->type) == 64 ? DTYPE_U64 : DTYPE_U32;
    Expr *bits[] = { cast(cx, kind, args[0]) };
    return cast(cx, x->type, call_kind(cx, DTYPE_I32, name, kind, 1, bits));
}

static Expr *call_counters(Cpu *cx, DType type, const char *name, int n, Expr **args)
{
    Expr *counters[BUILTIN_ARGUMENTS_MAX];
    for (int i = 0; i < n; i++) counters[i] = cast(cx, DTYPE_U64, args[i]);
    return expr_call(cx->arena, type, arena_printf(cx->arena, "kiln_%s", name), n, counters);
}

static Expr *min_of_max(Cpu *cx, DType type, Expr **args)
{
    Expr *const above = call_kind(cx, type, "max", type, 2, args);
    return call_kind(cx, type, "min", type, 2, (Expr *[]){ above, args[2] });
}

static Expr *call_compiler(Cpu *cx, DType type, const char *name, int n, Expr **args)
{
    return expr_call(cx->arena, type, arena_printf(cx->arena, "__builtin_%s%s", name, type == DTYPE_F64 ? "" : "f"), n,
                     args);
}

Expr *cpu_math(Cpu *cx, Expr *x, Expr **args)
{
    const Builtin *const fn = &builtins[x->math.fn];
    const DType type = x->type == DTYPE_TF32 ? DTYPE_F32 : x->type;
    const CText *const c = dtype_is_float(x->math.args[0]->type) ? &fn->c_real : &fn->c_integer;
    const char *const name = c->name ? c->name : fn->name, *const part = type == DTYPE_F64 ? c->part_f64 : c->part_f32;
    if (part) cpu_use_prelude(cx, part);
    switch (c->form) {
    case C_CALL: return call_kind(cx, type, name, type, x->math.n, args);
    case C_CALL_UNSIGNED: return call_unsigned(cx, x, name, args);
    case C_CALL_COUNTERS: return call_counters(cx, type, name, x->math.n, args);
    case C_COMPILER: return call_compiler(cx, type, name, x->math.n, args);
    case C_MIN_OF_MAX: return min_of_max(cx, type, args);
    case C_MAGNITUDE: return dtype_is_unsigned(type) ? args[0] : cpu_magnitude(cx, args[0], x->span);
    case C_ROUND_UP: return cpu_ceildiv(cx, args[0], args[1], x->math.args[1], x->span);
    case C_NEVER: break;
    }
    assert(!"the row says how C computes it");
    return args[0];
}
