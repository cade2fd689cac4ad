// SPDX-License-Identifier: MIT
// builtin.c - the table of built-in functions. Launches link this without the compiler.
//
// To add one:
//   1. its name at the end of MathFn (builtin.h), and its row below. `takes` is its line of the table of result types in
//      docs/language.md, 13, where it is named too. Columns that do not apply are left out.
//   2. C_CALL: kiln_NAME_f32 and the like in src/lower/cpu/prelude, for each type that it takes; CUDA: math_NAME in
//      src/lower/cuda/prelude/math.cuh.
//   3. its line in tests/unit/check/result_types_test.c, and what it gives in tests/language/run/builtins.tile.
// What is known of it beyond constants (min(x, x) is x) goes to expr_math in expr_fold.c.
#include "ir/builtin.h"

#include <math.h>
#include <stddef.h>

// ---- of floating constants

#define REAL(name, value)                                                                                              \
    static double real_##name(DType type, const double *v) { return value; }
REAL(exp, exp(v[0]))
REAL(exp2, exp2(v[0]))
REAL(log, log(v[0]))
REAL(log2, log2(v[0]))
REAL(sqrt, sqrt(v[0]))
REAL(rsqrt, 1 / sqrt(v[0]))
REAL(pow, pow(v[0], v[1]))
REAL(sin, sin(v[0]))
REAL(cos, cos(v[0]))
REAL(tanh, tanh(v[0]))
REAL(erf, erf(v[0]))
REAL(abs, fabs(v[0]))
REAL(floor, floor(v[0]))
REAL(ceil, ceil(v[0]))
REAL(round, round(v[0]))
REAL(rint, nearbyint(v[0]))
REAL(trunc, trunc(v[0]))
REAL(min, fmin(v[0], v[1]))
REAL(max, fmax(v[0], v[1]))
REAL(clamp, fmin(fmax(v[0], v[1]), v[2]))
REAL(fma, type == DTYPE_F32 ? fmaf((float)v[0], (float)v[1], (float)v[2]) : fma(v[0], v[1], v[2]))
#undef REAL

// ---- of integer constants

static OpFault int_abs(DType type, const int64_t *v, int64_t *result)
{
    *result = v[0];
    return int_less(type, v[0], 0) ? op_compute_int(X_SUB, type, 0, v[0], result) : OP_FAULT_NONE;
}

static OpFault int_least(DType type, const int64_t *v, int64_t *result)
{
    *result = int_less(type, v[1], v[0]) ? v[1] : v[0];
    return OP_FAULT_NONE;
}

static OpFault int_greatest(DType type, const int64_t *v, int64_t *result)
{
    *result = int_less(type, v[0], v[1]) ? v[1] : v[0];
    return OP_FAULT_NONE;
}

static OpFault int_clamp(DType type, const int64_t *v, int64_t *result)
{
    int_greatest(type, v, result);
    return int_least(type, (int64_t[]){ *result, v[2] }, result);
}

static OpFault int_ceildiv(DType type, const int64_t *v, int64_t *result)
{
    int64_t rest;
    *result = 0;
    if (!int_less(type, 0, v[1])) return OP_FAULT_NO_DIVISOR;
    op_compute_int(X_DIV, type, v[0], v[1], result);
    op_compute_int(X_MOD, type, v[0], v[1], &rest);
    *result = (int64_t)((uint64_t)*result + int_less(type, 0, rest)); // of u64 as well
    return OP_FAULT_NONE;
}

static uint64_t bits_of(DType type, int64_t value)
{
    const int bits = dtype_bits(type);
    return bits >= 64 ? (uint64_t)value : (uint64_t)value & ((UINT64_C(1) << bits) - 1);
}

static OpFault int_popcount(DType type, const int64_t *v, int64_t *result)
{
    *result = __builtin_popcountll(bits_of(type, v[0]));
    return OP_FAULT_NONE;
}

static OpFault int_clz(DType type, const int64_t *v, int64_t *result)
{
    const uint64_t u = bits_of(type, v[0]);
    *result = u ? __builtin_clzll(u) - (64 - dtype_bits(type)) : dtype_bits(type);
    return OP_FAULT_NONE;
}

static OpFault int_ffs(DType type, const int64_t *v, int64_t *result)
{
    *result = __builtin_ffsll((long long)bits_of(type, v[0]));
    return OP_FAULT_NONE;
}

// ---- ranges

static Range least_of(const Range *v) { return range_min(v[0], v[1]); }
static Range greatest_of(const Range *v) { return range_max(v[0], v[1]); }
static Range clamped(const Range *v) { return range_min(range_max(v[0], v[1]), v[2]); }
static Range rounded_up(const Range *v) { return range_ceildiv(v[0], v[1]); }
static Range bit_number(const Range *v) { return range_between(0, 64); }

static Range magnitude(const Range *v)
{
    if (v[0].has_lo && v[0].lo >= 0) return v[0];
    return range_meet(range_join(v[0], range_negate(v[0])), (Range){ .lo = 0, .has_lo = true });
}

// ---- the table

// clang-format off
#define MATH     .takes = TAKES_FLOATS, .c_real = { .form = C_CALL, .part_f32 = "MATH", .part_f64 = "F64_MATH" }
#define COMPILER .takes = TAKES_FLOATS, .c_real = { .form = C_COMPILER }
#define BITS     .takes = TAKES_BITS, .range = bit_number, .c_integer = { .form = C_CALL_UNSIGNED }
#define EXTREME  .takes = TAKES_NUMBERS, .picks = true, .in_loop = true, .c_real = { .form = C_CALL }, .c_integer = { .form = C_CALL }

const Builtin builtins[M_COUNT] = {
    [M_EXP]      = { "exp",      1, MATH, .real = real_exp },
    [M_EXP2]     = { "exp2",     1, MATH, .real = real_exp2 },
    [M_LOG]      = { "log",      1, MATH, .real = real_log },
    [M_LOG2]     = { "log2",     1, MATH, .real = real_log2 },
    [M_POW]      = { "pow",      2, MATH, .real = real_pow },
    [M_SIN]      = { "sin",      1, MATH, .real = real_sin },
    [M_COS]      = { "cos",      1, MATH, .real = real_cos },
    [M_TANH]     = { "tanh",     1, MATH, .real = real_tanh },
    [M_ERF]      = { "erf",      1, MATH, .real = real_erf },
    [M_RSQRT]    = { "rsqrt",    1, TAKES_FLOATS, .real = real_rsqrt, .c_real = { .form = C_CALL, .part_f32 = "MATH", .part_f64 = "MATH" } },
    [M_SQRT]     = { "sqrt",     1, COMPILER, .real = real_sqrt },
    [M_FLOOR]    = { "floor",    1, COMPILER, .real = real_floor },
    [M_CEIL]     = { "ceil",     1, COMPILER, .real = real_ceil },
    [M_ROUND]    = { "round",    1, COMPILER, .real = real_round },
    [M_RINT]     = { "rint",     1, COMPILER, .real = real_rint },
    [M_TRUNC]    = { "trunc",    1, COMPILER, .real = real_trunc },
    [M_FMA]      = { "fma",      3, COMPILER, .real = real_fma },
    [M_ABS]      = { "abs",      1, TAKES_NUMBERS, .real = real_abs, .integer = int_abs, .range = magnitude,
                     .c_real = { .form = C_COMPILER, .name = "fabs" }, .c_integer = { .form = C_MAGNITUDE }, .cuda_integer = CUDA_MAGNITUDE },
    [M_MIN]      = { "min",      2, EXTREME, .real = real_min, .integer = int_least, .range = least_of },
    [M_MAX]      = { "max",      2, EXTREME, .real = real_max, .integer = int_greatest, .range = greatest_of },
    [M_CLAMP]    = { "clamp",    3, TAKES_NUMBERS, .picks = true, .real = real_clamp, .integer = int_clamp, .range = clamped,
                     .c_real = { .form = C_MIN_OF_MAX }, .c_integer = { .form = C_CALL, .name = "limit" } },
    [M_CEILDIV]  = { "ceildiv",  2, TAKES_INTEGERS, .divides = true, .in_loop = true, .integer = int_ceildiv,
                     .range = rounded_up, .c_integer = { .form = C_ROUND_UP }, .cuda_integer = CUDA_ROUND_UP },
    [M_POPCOUNT] = { "popcount", 1, BITS, .integer = int_popcount },
    [M_CLZ]      = { "clz",      1, BITS, .integer = int_clz },
    [M_FFS]      = { "ffs",      1, BITS, .integer = int_ffs },
    [M_DOT4]     = { "dot4",     3, TAKES_BYTES, .c_integer = { .form = C_CALL } },
    [M_FAST_TANH] = { "fast_tanh", 1, .takes = TAKES_FLOATS, .real = real_tanh,
                     .c_real = { .form = C_CALL, .name = "tanh", .part_f32 = "MATH", .part_f64 = "F64_MATH" } },
    [M_RANDOM]   = { "random",   2, TAKES_COUNTERS, .c_integer = { .form = C_CALL_COUNTERS }, .cuda_integer = CUDA_CALL_COUNTERS },
};
// clang-format on

DType builtin_type(MathFn fn, DType of)
{
    switch (builtins[fn].takes) {
    case TAKES_BITS: return DTYPE_I32;
    case TAKES_COUNTERS: return DTYPE_F32;
    case TAKES_FLOATS:
    case TAKES_NUMBERS:
    case TAKES_INTEGERS:
    case TAKES_BYTES: break;
    }
    return of;
}

bool builtin_computes(MathFn fn, DType of)
{
    return dtype_is_float(of) ? builtins[fn].real != NULL : builtins[fn].integer != NULL;
}
