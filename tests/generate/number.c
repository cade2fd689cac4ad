// SPDX-License-Identifier: MIT
// number.c - conversions and operations, each a line or two of plain C per rule.
#include "number.h"

#include <assert.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

static_assert(LDBL_MANT_DIG >= 64, "a 64-bit integer and its halves between neighbours fit a long double");

// clang-format off
const TypeInfo type_info[TYPES] = {
#define FLOATING(name, bits, mantissa, bias, infinity, nan) { name, bits, true, false, mantissa, bias, infinity, nan }
    [F64] = FLOATING("f64", 64, 52, 1023, true, true),  [F32] = FLOATING("f32", 32, 23, 127, true, true),
    [TF32] = FLOATING("tf32", 32, 23, 127, true, true), [F16] = FLOATING("f16", 16, 10, 15, true, true),
    [BF16] = FLOATING("bf16", 16, 7, 127, true, true),  [E4M3] = FLOATING("e4m3", 8, 3, 7, false, true),
    [E5M2] = FLOATING("e5m2", 8, 2, 15, true, true),    [E2M1] = FLOATING("e2m1", 4, 1, 1, false, false),
#define INTEGER(name, bits, is_unsigned) { name, bits, false, is_unsigned, 0, 0, false, false }
    [INT] = INTEGER("int", 64, false), [I64] = INTEGER("i64", 64, false), [I32] = INTEGER("i32", 32, false),
    [I16] = INTEGER("i16", 16, false), [I8] = INTEGER("i8", 8, false),    [I4] = INTEGER("i4", 4, false),
    [I2] = INTEGER("i2", 2, false),    [U64] = INTEGER("u64", 64, true),  [U32] = INTEGER("u32", 32, true),
    [U16] = INTEGER("u16", 16, true),  [U8] = INTEGER("u8", 8, true),     [U4] = INTEGER("u4", 4, true),
    [U2] = INTEGER("u2", 2, true),     [BOOL] = INTEGER("bool", 8, true),
};
// clang-format on

// clang-format off
const OpInfo op_info[OPS] = {
    [ADD] = { "+", INFIX, 2, false },  [SUB] = { "-", INFIX, 2, false }, [MUL] = { "*", INFIX, 2, false },
    [DIV] = { "/", INFIX, 2, false },  [MOD] = { "%", INFIX, 2, true },  [AND] = { "&", INFIX, 2, true },
    [OR] = { "|", INFIX, 2, true },    [XOR] = { "^", INFIX, 2, true },  [SHL] = { "<<", INFIX, 2, true },
    [SHR] = { ">>", INFIX, 2, true },  [LT] = { "<", INFIX, 2, false },  [LE] = { "<=", INFIX, 2, false },
    [GT] = { ">", INFIX, 2, false },   [GE] = { ">=", INFIX, 2, false }, [EQ] = { "==", INFIX, 2, false },
    [NE] = { "!=", INFIX, 2, false },  [BOTH] = { "&&", INFIX, 2, false }, [EITHER] = { "||", INFIX, 2, false },
    [NEG] = { "-", PREFIX, 1, false }, [INVERT] = { "~", PREFIX, 1, true }, [NOT] = { "!", PREFIX, 1, false },
    [MIN] = { "min", CALLED, 2, false }, [MAX] = { "max", CALLED, 2, false }, [CLAMP] = { "clamp", CALLED, 3, false },
    [ABS] = { "abs", CALLED, 1, false }, [FMA] = { "fma", CALLED, 3, false }, [FLOOR] = { "floor", CALLED, 1, false },
    [CEIL] = { "ceil", CALLED, 1, false }, [TRUNC] = { "trunc", CALLED, 1, false }, [RINT] = { "rint", CALLED, 1, false },
    [ROUND] = { "round", CALLED, 1, false }, [SQRT] = { "sqrt", CALLED, 1, false }, [CEILDIV] = { "ceildiv", CALLED, 2, true },
    [POPCOUNT] = { "popcount", CALLED, 1, true }, [CLZ] = { "clz", CALLED, 1, true }, [FFS] = { "ffs", CALLED, 1, true },
    [SELECT] = { "?:", CONDITIONAL, 3, false },
};
// clang-format on

Type wide_type(Type t)
{
    if (is_float(t)) return t == F64 ? F64 : F32;
    return t == INT || type_info[t].bits >= 32 ? t : I32;
}

Type common_type(Type a, Type b)
{
    static const int rank[TYPES] = { [I32] = 1, [U32] = 2, [INT] = 3, [I64] = 4, [U64] = 5, [F32] = 6, [F64] = 7 };
    a = wide_type(a);
    b = wide_type(b);
    return rank[a] > rank[b] ? a : b;
}

// ---- values and their bits

Value integer_value(Type type, uint64_t bits)
{
    const int unused = 64 - type_info[type].bits;
    if (type == BOOL) return (Value){ .type = BOOL, .i = bits != 0 };
    return (Value){ .type = type,
                    .i = type_info[type].is_unsigned ? (int64_t)(bits << unused >> unused)
                                                     : (int64_t)(bits << unused) >> unused };
}

static double decode(const TypeInfo *t, uint64_t word)
{
    const int ones = (1 << (t->bits - 1 - t->mantissa)) - 1, exponent = (int)(word >> t->mantissa & (uint64_t)ones);
    const uint64_t fraction = word & ((UINT64_C(1) << t->mantissa) - 1);
    const double sign = word >> (t->bits - 1) & 1 ? -1 : 1;
    if (exponent == ones && t->infinity) return fraction ? NAN : sign * INFINITY;
    if (exponent == ones && t->nan && fraction == (UINT64_C(1) << t->mantissa) - 1) return NAN;
    if (exponent == 0) return sign * ldexp((double)fraction, 1 - t->bias - t->mantissa);
    return sign * ldexp((double)(fraction + (UINT64_C(1) << t->mantissa)), exponent - t->bias - t->mantissa);
}

static double largest_of(const TypeInfo *t)
{
    const uint64_t ones = (UINT64_C(1) << (t->bits - 1)) - 1;
    return decode(t, t->infinity ? (ones >> t->mantissa << t->mantissa) - 1 : t->nan ? ones - 1 : ones);
}

// Once, to nearest even; what is too large becomes infinity, or the largest of a type of 8 bits or fewer.
static double rounded(Type type, long double x)
{
    const TypeInfo *const t = &type_info[type];
    const double limit = largest_of(t);
    const int mantissa = type == TF32 ? 10 : t->mantissa; // which lies in memory as f32 does
    int exponent;
    if (isnan(x)) return t->nan ? NAN : limit;
    if (x == 0) return (double)x;
    if (isinf(x)) return t->bits > 8 ? (double)x : copysign(limit, (double)x);
    frexpl(x, &exponent);
    exponent = exponent - 1 < 1 - t->bias ? 1 - t->bias : exponent - 1;
    const long double units = rintl(ldexpl(x, mantissa - exponent)), result = ldexpl(units, exponent - mantissa);
    if (fabsl(result) > limit) return copysign(t->bits > 8 ? INFINITY : limit, (double)x);
    return units == 0 ? copysign(0, (double)x) : (double)result;
}

Value real_value(Type type, double x) { return (Value){ .type = type, .f = rounded(type, x) }; }

static Value integer_of_real(Type type, double x)
{
    const TypeInfo *const t = &type_info[type];
    if (isnan(x)) return integer_value(type, 0);
    const double low = t->is_unsigned ? 0 : -ldexp(1, t->bits - 1),
                 end = ldexp(1, t->is_unsigned ? t->bits : t->bits - 1);
    const uint64_t most = t->is_unsigned ? UINT64_MAX >> (64 - t->bits) : (uint64_t)INT64_MAX >> (64 - t->bits);
    if (x <= low) return integer_value(type, t->is_unsigned ? 0 : ~most);
    if (x >= end) return integer_value(type, most);
    return integer_value(type, t->is_unsigned ? (uint64_t)x : (uint64_t)(int64_t)x);
}

Value convert(Type type, Value x)
{
    Value y;
    if (type == BOOL) y = integer_value(BOOL, is_true(x));
    else if (is_float(type))
        y = (Value){ .type = type,
                     .f = rounded(type, is_float(x.type) ? (long double)x.f
                                        : x.type == U64  ? (long double)(uint64_t)x.i
                                                         : (long double)x.i) };
    else y = is_float(x.type) ? integer_of_real(type, x.f) : integer_value(type, (uint64_t)x.i);
    y.vague = x.vague;
    return y;
}

uint64_t value_bits(Value x)
{
    const TypeInfo *const t = &type_info[x.type];
    const uint64_t all = UINT64_MAX >> (64 - t->bits);
    if (!t->floating) return (uint64_t)x.i & all;
    const uint64_t sign = (uint64_t) !!signbit(x.f) << (t->bits - 1);
    if (isnan(x.f)) return t->infinity ? (all >> 1 >> (t->mantissa - 1) << (t->mantissa - 1)) : all >> 1;
    if (isinf(x.f)) return sign | (all >> 1 >> t->mantissa << t->mantissa);
    if (x.f == 0) return sign;
    int exponent;
    frexp(x.f, &exponent);
    exponent -= 1;
    const int least = exponent < 1 - t->bias ? 1 - t->bias : exponent;
    const uint64_t whole = (uint64_t)ldexp(fabs(x.f), t->mantissa - least);
    return sign | (whole >> t->mantissa ? whole + ((uint64_t)(least + t->bias - 1) << t->mantissa) : whole);
}

Value value_of_bits(Type type, uint64_t bits)
{
    if (is_float(type))
        return (Value){ .type = type, .f = decode(&type_info[type], bits & UINT64_MAX >> (64 - type_info[type].bits)) };
    return integer_value(type, type == BOOL ? bits & 255 : bits);
}

bool is_true(Value x) { return is_float(x.type) ? x.f != 0 : x.i != 0; }

bool same_value(Value a, Value b)
{
    if (is_float(a.type)) return (isnan(a.f) && isnan(b.f)) || a.f == b.f;
    return a.i == b.i;
}

// ---- operations

Type result_type(Op op, const Type *operands, int n)
{
    switch (op) {
    case LT:
    case LE:
    case GT:
    case GE:
    case EQ:
    case NE:
    case BOTH:
    case EITHER:
    case NOT: return BOOL;
    case SELECT: return operands[1] == operands[2] ? operands[1] : common_type(operands[1], operands[2]);
    case AND:
    case OR:
    case XOR:
        if (operands[0] == BOOL && operands[1] == BOOL) return BOOL;
        break;
    case SHL:
    case SHR:
    case CLAMP: return wide_type(operands[0]);
    case POPCOUNT:
    case CLZ:
    case FFS: return I32;
    default: break;
    }
    Type t = wide_type(operands[0]);
    for (int i = 1; i < n; i++) t = common_type(t, operands[i]);
    return t;
}

// -1, 0, 1; 2: one is NaN
static int compare(Value a, Value b)
{
    if (is_float(a.type)) return isnan(a.f) || isnan(b.f) ? 2 : (a.f > b.f) - (a.f < b.f);
    if (type_info[a.type].is_unsigned) return ((uint64_t)a.i > (uint64_t)b.i) - ((uint64_t)a.i < (uint64_t)b.i);
    return (a.i > b.i) - (a.i < b.i);
}

static bool is_power_of_two(double x)
{
    int exponent;
    return isfinite(x) && fabs(frexp(x, &exponent)) == 0.5;
}

// A product that rounds may be fused with what it is added to; a quotient of f32 may be a product with a reciprocal.
static Value real_product(Type t, double a, double b)
{
    Value y = real_value(t, a * b);
    const bool exact = t == F64 ? !isfinite(y.f) || fma(a, b, -y.f) == 0 : y.f == a * b || isnan(y.f);
    y.vague = !exact || (isinf(y.f) && isfinite(a) && isfinite(b)) ||
              (y.f != 0 && fabs(y.f) < ldexp(1, t == F64 ? -960 : -100));
    return y;
}

static Value real_arithmetic(Op op, Type t, double a, double b, const char **undefined)
{
    switch (op) {
    case ADD: return real_value(t, a + b);
    case SUB: return real_value(t, a - b);
    case MUL: return real_product(t, a, b);
    case DIV: {
        Value y = real_value(t, a / b);
        // The sign of a zero is not followed here, so that a quotient by one is not known.
        y.vague = b == 0 || (!is_power_of_two(b) && !isnan(a) && !isnan(b)) || (isfinite(b) && fabs(b) < 0x1p-120) ||
                  fabs(b) > 0x1p120 || (y.f != 0 && fabs(y.f) < 0x1p-120);
        return y;
    }
    default: *undefined = "an operation of integers on floating values"; return real_value(t, 0);
    }
}

static Value quotient(Op op, Type t, Value a, Value b, const char **undefined)
{
    const bool least = a.i == (type_info[t].bits == 32 ? INT32_MIN : INT64_MIN);
    if (b.i == 0) *undefined = "division by zero";
    else if (t == INT && least && b.i == -1) *undefined = "overflow of int";
    if (!*undefined && least && b.i == -1 && !type_info[t].is_unsigned)
        return integer_value(t, op == DIV ? (uint64_t)a.i : 0);
    if (*undefined) return integer_value(t, 0);
    if (type_info[t].is_unsigned)
        return integer_value(t, op == DIV ? (uint64_t)a.i / (uint64_t)b.i : (uint64_t)a.i % (uint64_t)b.i);
    return integer_value(t, (uint64_t)(op == DIV ? a.i / b.i : a.i % b.i));
}

static Value integer_arithmetic(Op op, Type t, Value a, Value b, const char **undefined)
{
    const uint64_t x = (uint64_t)a.i, y = (uint64_t)b.i;
    int64_t checked = 0;
    if (t == INT && (op == ADD   ? __builtin_add_overflow(a.i, b.i, &checked)
                     : op == SUB ? __builtin_sub_overflow(a.i, b.i, &checked)
                                 : op == MUL && __builtin_mul_overflow(a.i, b.i, &checked)))
        *undefined = "overflow of int";
    switch (op) {
    case ADD: return integer_value(t, x + y);
    case SUB: return integer_value(t, x - y);
    case MUL: return integer_value(t, x * y);
    case AND: return integer_value(t, x & y);
    case OR: return integer_value(t, x | y);
    case XOR: return integer_value(t, x ^ y);
    case CEILDIV: {
        if (b.i <= 0) *undefined = "ceildiv by what is not positive";
        if (*undefined) return integer_value(t, 0);
        if (a.i > INT64_MAX - b.i) *undefined = "ceildiv of what is too large";
        const Value q = integer_value(t, (uint64_t)(a.i / b.i));
        return integer_value(t, (uint64_t)(q.i + (a.i % b.i > 0)));
    }
    default: return quotient(op, t, a, b, undefined);
    }
}

static Value shifted(Op op, Value a, int64_t by, const char **undefined)
{
    const bool is_unsigned = type_info[a.type].is_unsigned;
    if (a.type == INT && (by < 0 || by > 63)) *undefined = "a shift of int by its width or more";
    if (*undefined) return a;
    by &= type_info[a.type].bits - 1;
    if (op == SHR) return integer_value(a.type, is_unsigned ? (uint64_t)a.i >> by : (uint64_t)(a.i >> by));
    if (a.type == INT && (int64_t)((uint64_t)a.i << by) >> by != a.i) *undefined = "overflow of int";
    return integer_value(a.type, (uint64_t)a.i << by);
}

static Value extreme(Op op, Value a, Value b)
{
    const int order = compare(a, b);
    if (order == 2) return isnan(a.f) ? b : a;
    return (op == MIN ? order <= 0 : order >= 0) ? a : b;
}

static Value unary(Op op, Value a, const char **undefined)
{
    const Type t = a.type;
    if (is_float(t))
        return real_value(t, op == NEG     ? -a.f
                             : op == ABS   ? fabs(a.f)
                             : op == FLOOR ? floor(a.f)
                             : op == CEIL  ? ceil(a.f)
                             : op == TRUNC ? trunc(a.f)
                             : op == RINT  ? rint(a.f)
                             : op == ROUND ? round(a.f)
                                           : sqrt(a.f));
    if (op == INVERT) return integer_value(t, ~(uint64_t)a.i);
    if (op == ABS && (type_info[t].is_unsigned || a.i >= 0)) return a;
    if (a.i == (type_info[t].bits == 32 ? INT32_MIN : INT64_MIN) && t == INT) *undefined = "overflow of int";
    return integer_value(t, 0 - (uint64_t)a.i);
}

static Value bit_count(Op op, Value a)
{
    const uint64_t x = value_bits(a);
    const int width = type_info[a.type].bits;
    return integer_value(I32, (uint64_t)(op == POPCOUNT ? __builtin_popcountll(x)
                                         : op == FFS    ? __builtin_ffsll((long long)x)
                                         : x            ? __builtin_clzll(x) - (64 - width)
                                                        : width));
}

static Value compute_exact(Op op, Type t, const Value *v, const char **undefined)
{
    const int order = op >= LT && op <= NE ? compare(v[0], v[1]) : 0;
    switch (op) {
    case LT: return integer_value(BOOL, order == -1);
    case LE: return integer_value(BOOL, order == -1 || order == 0);
    case GT: return integer_value(BOOL, order == 1);
    case GE: return integer_value(BOOL, order == 1 || order == 0);
    case EQ: return integer_value(BOOL, order == 0);
    case NE: return integer_value(BOOL, order != 0);
    case BOTH: return integer_value(BOOL, is_true(v[0]) && is_true(v[1]));
    case EITHER: return integer_value(BOOL, is_true(v[0]) || is_true(v[1]));
    case NOT: return integer_value(BOOL, !is_true(v[0]));
    case MIN:
    case MAX: return extreme(op, v[0], v[1]);
    case CLAMP: return extreme(MIN, extreme(MAX, v[0], v[1]), v[2]);
    case NEG:
    case INVERT:
    case ABS:
    case FLOOR:
    case CEIL:
    case TRUNC:
    case RINT:
    case ROUND: return unary(op, v[0], undefined);
    case SQRT: {
        Value y = unary(op, v[0], undefined);
        y.vague = !isnan(y.f) && isfinite(y.f) && real_product(t, y.f, y.f).f != v[0].f;
        y.vague |= v[0].f > 0 && v[0].f < 0x1p-100;
        return y;
    }
    case FMA:
        return real_value(t,
                          t == F64 ? fma(v[0].f, v[1].f, v[2].f) : fmaf((float)v[0].f, (float)v[1].f, (float)v[2].f));
    case SHL:
    case SHR: return shifted(op, v[0], v[1].i, undefined);
    case POPCOUNT:
    case CLZ:
    case FFS: return bit_count(op, v[0]);
    case SELECT: return is_true(v[0]) ? v[1] : v[2];
    default: break;
    }
    return is_float(t) ? real_arithmetic(op, t, v[0].f, v[1].f, undefined)
                       : integer_arithmetic(op, t, v[0], v[1], undefined);
}

Value compute(Op op, const Value *operands, int n, const char **undefined)
{
    Value v[3];
    Type types[3] = { INT, INT, INT };
    bool vague = false;
    *undefined = NULL;
    for (int i = 0; i < n; i++) {
        types[i] = operands[i].type;
        vague |= operands[i].vague && op != SELECT;
    }
    const Type result = result_type(op, types, n);
    // What comparisons compare in is not what they give.
    const Type t = (op >= LT && op <= NE)             ? common_type(types[0], types[1])
                   : result == BOOL || op >= POPCOUNT ? types[0]
                                                      : result;
    for (int i = 0; i < n; i++) {
        const bool as_it_is = op == BOTH || op == EITHER || op == NOT || op == POPCOUNT || op == CLZ || op == FFS ||
                              ((op == SHL || op == SHR) && i == 1) || (op == SELECT && i == 0);
        v[i] = as_it_is ? operands[i] : convert(op == SELECT ? result : t, operands[i]);
        if (as_it_is && (op == POPCOUNT || op == CLZ || op == FFS)) v[i] = convert(wide_type(v[i].type), v[i]);
    }
    Value y = compute_exact(op, t, v, undefined);
    if (vague && (y.type == INT || op == DIV || op == MOD || op == SHL || op == SHR))
        *undefined = *undefined ? *undefined : "what depends on a vague value";
    y.vague |= vague;
    return y;
}

// ---- totals

static int lowest_bit(double x)
{
    int exponent;
    const int64_t whole = (int64_t)ldexp(frexp(fabs(x), &exponent), 53);
    return whole ? exponent - 53 + __builtin_ctzll((uint64_t)whole) : INT_MAX;
}

static void note_magnitude(Total *total, Value x)
{
    total->value.vague |= x.vague;
    if (!is_float(x.type)) return;
    const int low = isfinite(x.f) ? lowest_bit(x.f) : INT_MAX;
    if (low < total->lowest) total->lowest = low;
    if (isfinite(x.f)) total->magnitude += fabs(x.f);
    total->special |= total->op == MUL && !is_power_of_two(x.f);
    if (total->op == MUL && is_power_of_two(x.f)) total->magnitude += fabs(log2(fabs(x.f))) - fabs(x.f);
}

Total total_begin(Op op, Value first)
{
    Total total = { .op = op, .value = first, .lowest = INT_MAX };
    note_magnitude(&total, first);
    return total;
}

void total_add(Total *total, Value x)
{
    const char *undefined;
    const Value pair[2] = { total->value, convert(total->value.type, x) };
    note_magnitude(total, pair[1]);
    const Value sum = compute(total->op, pair, 2, &undefined);
    const bool vague = total->value.vague;
    total->value = convert(total->value.type, sum);
    total->value.vague = vague || (undefined != NULL);
}

Value total_end(const Total *total, int mantissa)
{
    Value y = total->value;
    if (!is_float(y.type)) return y;
    if (total->op == MUL) y.vague |= total->special || total->magnitude > 100;
    if (total->op == MIN || total->op == MAX) y.vague |= isnan(y.f); // NaN, or what the reduction begins with
    // Nothing is lost in any order if all partial sums are multiples of the lowest bit and fit in the bits there are.
    if (total->op == ADD && total->magnitude > 0)
        y.vague |= total->magnitude > ldexp(1, total->lowest + mantissa + 1) || total->magnitude > 1e38;
    return y;
}
