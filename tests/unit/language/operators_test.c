// SPDX-License-Identifier: MIT
// operators_test.c - every operator, and the functions that are exact, on every type or pair of types, against a model of
// the rules in plain C: narrow types widen to i32 and f32; of two operands floating wins, then the wider, then the unsigned;
// integers wrap; / and % truncate; x / 0 is 0 and x % 0 is x.
#include "run.h"

enum { PAIRS = 256, TYPES = 13 };
typedef enum { I32, U32, I64, U64, F32, F64 } Wide;
typedef struct Type {
    const char *name;
    kiln_type type;
    int bytes;
    Wide wide;
} Type;

// clang-format off
static const Type types[TYPES] = {
    { "i8", KILN_I8, 1, I32 },   { "i16", KILN_I16, 2, I32 }, { "i32", KILN_I32, 4, I32 }, { "i64", KILN_I64, 8, I64 },
    { "u8", KILN_U8, 1, I32 },   { "u16", KILN_U16, 2, I32 }, { "u32", KILN_U32, 4, U32 }, { "u64", KILN_U64, 8, U64 },
    { "bool", KILN_BOOL, 1, I32 }, { "f32", KILN_F32, 4, F32 }, { "f64", KILN_F64, 8, F64 }, { "f16", KILN_F16, 2, F32 },
    { "bf16", KILN_BF16, 2, F32 },
};
// clang-format on

// A value of a wide type: integers in `bits` (sign- or zero-extended), floating ones in `real`.
typedef struct Number {
    Wide type;
    int64_t bits;
    double real;
} Number;

static bool is_float(Wide t) { return t >= F32; }
static bool is_unsigned(Wide t) { return t == U32 || t == U64; }

static Number integer(Wide t, uint64_t x)
{
    return (Number){ t, t == I32 ? (int32_t)x : t == U32 ? (int64_t)(uint32_t)x : (int64_t)x, 0 };
}
static Number real(Wide t, double x) { return (Number){ t, 0, t == F32 ? (double)(float)x : x }; }

// Once, to the type: a 64-bit integer becomes a float without a stop at double.
static Number convert(Wide t, Number x)
{
    if (!is_float(t)) return integer(t, (uint64_t)x.bits);
    if (is_float(x.type)) return real(t, x.real);
    if (t == F64) return real(t, x.type == U64 ? (double)(uint64_t)x.bits : (double)x.bits);
    return real(t, x.type == U64 ? (float)(uint64_t)x.bits : (float)x.bits);
}

static Wide common(Wide a, Wide b) { return a > b ? a : b; } // the order of the types is the rule

// ---- the numbers

static float of_half(uint16_t h)
{
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const float sign = h >> 15 ? -1 : 1;
    if (exponent == 31) return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexpf((float)(fraction + 1024), exponent - 25) : ldexpf((float)fraction, -24));
}

static float of_brain(uint16_t b)
{
    const uint32_t u = (uint32_t)b << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static _Alignas(8) char numbers[TYPES][PAIRS * 8];

static void make_numbers(void)
{
    for (int t = 0; t < TYPES; t++)
        for (int i = 0; i < PAIRS; i++) {
            const uint64_t noise = bits_of((uint64_t)(t * PAIRS + i));
            char *const at = numbers[t] + i * types[t].bytes;
            const double f = i % 16 == 0   ? NAN
                             : i % 16 == 1 ? INFINITY
                             : i % 16 == 2 ? 0
                                           : ldexp((double)(int64_t)noise, -40 - i % 23);
            const float g = (float)f;
            const uint64_t power = UINT64_C(1) << noise % 64;
            const uint64_t n = i % 8 == 0   ? power
                               : i % 8 == 1 ? 0 - power
                               : i % 8 == 2 ? noise % 9 - 4
                               : i % 8 == 3 ? ~UINT64_C(0)
                                            : noise;
            if (types[t].type == KILN_F64) memcpy(at, &f, 8);
            else if (types[t].type == KILN_F32) memcpy(at, &g, 4);
            else if (types[t].type == KILN_BOOL) *at = noise & 1;
            else memcpy(at, &n, (size_t)types[t].bytes); // any bits are an f16 or bf16
        }
}

static Number number(int t, int i)
{
    uint64_t word = 0;
    double f;
    float g;
    const char *const at = numbers[t] + i * types[t].bytes;
    memcpy(&word, at, (size_t)types[t].bytes);
    switch (types[t].type) {
    case KILN_F64: memcpy(&f, at, 8); return real(F64, f);
    case KILN_F32: memcpy(&g, at, 4); return real(F32, g);
    case KILN_F16: return real(F32, of_half((uint16_t)word));
    case KILN_BF16: return real(F32, of_brain((uint16_t)word));
    case KILN_I8: return integer(I32, (uint64_t)(int8_t)word);
    case KILN_I16: return integer(I32, (uint64_t)(int16_t)word);
    default: return integer(types[t].wide, word);
    }
}

// ---- the operators: their text, and what they are

typedef enum {
    ADD,
    SUB,
    MUL,
    DIV,
    MOD,
    AND,
    OR,
    XOR,
    SHL,
    SHR,
    LT,
    LE,
    GT,
    GE,
    EQ,
    NE,
    BOTH,
    EITHER,
    NOT,
    NEG,
    INVERT,
    SELECT,
    MIN,
    MAX,
    CLAMP,
    ABS,
    POPCOUNT,
    CLZ,
    FFS,
    NEG_FFS,
    MIN_FFS,
    CEILDIV,
    CLAMP_BOTH,
    FMA,
    SQRT,
    FLOOR,
    CEIL,
    ROUND,
    RINT,
    TRUNC,
    UPDATE_ADD,
    UPDATE_SUB,
    UPDATE_MUL,
    UPDATE_MIN,
    UPDATE_AND,
    UPDATE_SHR,
    OPS
} Op;

// What it takes, and whether it changes `u`, of the type of `a`. One that does not look at `b` is tested beside one type.
typedef enum { ANY_TYPE, INTEGERS, FLOATS } Takes;
// clang-format off
static const struct { const char *text; Takes takes; bool alone, update; } operators[OPS] = {
#define ANY(text)     { text, ANY_TYPE, false, false }
#define INTEGER(text) { text, INTEGERS, false, false }
#define FLOAT(text)   { text, FLOATS, false, false }
#define ANY_ALONE(text)     { text, ANY_TYPE, true, false }
#define INTEGER_ALONE(text) { text, INTEGERS, true, false }
#define FLOAT_ALONE(text)   { text, FLOATS, true, false }
#define UPDATE(text)  { text, ANY_TYPE, false, true }
#define UPDATE_INTEGER(text) { text, INTEGERS, false, true }
    [ADD] = ANY("a + b"), [SUB] = ANY("a - b"), [MUL] = ANY("a * b"), [DIV] = ANY("a / b"),
    [MOD] = INTEGER("a % b"), [AND] = INTEGER("a & b"), [OR] = INTEGER("a | b"), [XOR] = INTEGER("a ^ b"),
    [SHL] = INTEGER("a << b"), [SHR] = INTEGER("a >> b"), [LT] = ANY("a < b"), [LE] = ANY("a <= b"),
    [GT] = ANY("a > b"), [GE] = ANY("a >= b"), [EQ] = ANY("a == b"), [NE] = ANY("a != b"), [BOTH] = ANY("a && b"),
    [EITHER] = ANY("a || b"), [NOT] = ANY_ALONE("!a"), [NEG] = ANY_ALONE("-a"), [INVERT] = INTEGER_ALONE("~a"), [SELECT] = ANY("a < 3 ? a : b"),
    [MIN] = ANY("min(a, b)"), [MAX] = ANY("max(a, b)"), [CLAMP] = ANY_ALONE("clamp(a, -5, 100)"), [ABS] = ANY_ALONE("abs(a)"),
    [POPCOUNT] = INTEGER_ALONE("popcount(a)"), [CLZ] = INTEGER_ALONE("clz(a)"), [FFS] = INTEGER_ALONE("ffs(a)"),
    [NEG_FFS] = INTEGER_ALONE("-ffs(a)"), [MIN_FFS] = INTEGER("min(ffs(a), b)"), [CEILDIV] = INTEGER("ceildiv(a, b)"),
    [CLAMP_BOTH] = ANY("clamp(a, b, a)"), [FMA] = FLOAT("fma(a, b, a)"), [SQRT] = FLOAT_ALONE("sqrt(a)"),
    [FLOOR] = FLOAT_ALONE("floor(a)"), [CEIL] = FLOAT_ALONE("ceil(a)"), [ROUND] = FLOAT_ALONE("round(a)"),
    [RINT] = FLOAT_ALONE("rint(a)"), [TRUNC] = FLOAT_ALONE("trunc(a)"),
    [UPDATE_ADD] = UPDATE("u += b"), [UPDATE_SUB] = UPDATE("u -= b"), [UPDATE_MUL] = UPDATE("u *= b"),
    [UPDATE_MIN] = UPDATE("u min= b"), [UPDATE_AND] = UPDATE_INTEGER("u &= b"), [UPDATE_SHR] = UPDATE_INTEGER("u >>= b"),
};
// clang-format on

static int compare(Number a, Number b) // 2: one is NaN
{
    if (is_float(a.type)) return isnan(a.real) || isnan(b.real) ? 2 : (a.real > b.real) - (a.real < b.real);
    if (is_unsigned(a.type)) return ((uint64_t)a.bits > (uint64_t)b.bits) - ((uint64_t)a.bits < (uint64_t)b.bits);
    return (a.bits > b.bits) - (a.bits < b.bits);
}

static Number truth(bool x) { return integer(I32, x); }
static bool is_true(Number x) { return is_float(x.type) ? x.real != 0 : x.bits != 0; }

static Number extreme(Number a, Number b, int sign)
{
    const int order = compare(a, b);
    if (order == 2) return isnan(a.real) ? b : a;
    return order * sign > 0 ? a : b;
}

static Number arithmetic(Op op, Number a, Number b)
{
    const Wide t = a.type;
    const uint64_t x = (uint64_t)a.bits, y = (uint64_t)b.bits;
    if (t == F32) {
        const float f = (float)a.real, g = (float)b.real;
        return real(F32, op == ADD ? f + g : op == SUB ? f - g : op == MUL ? f * g : f / g);
    }
    if (t == F64)
        return real(F64, op == ADD   ? a.real + b.real
                         : op == SUB ? a.real - b.real
                         : op == MUL ? a.real * b.real
                                     : a.real / b.real);
    if (op == ADD || op == SUB || op == MUL) return integer(t, op == ADD ? x + y : op == SUB ? x - y : x * y);
    if (b.bits == 0) return integer(t, op == DIV ? 0 : x);
    if (is_unsigned(t)) return integer(t, op == DIV ? x / y : x % y);
    if (b.bits == -1) return integer(t, op == DIV ? 0 - x : 0); // the least by -1 wraps
    return integer(t, (uint64_t)(op == DIV ? a.bits / b.bits : a.bits % b.bits));
}

// The count is taken modulo the width.
static Number shift(Op op, Number a, int64_t count)
{
    const int by = (int)(count & (a.type == I64 || a.type == U64 ? 63 : 31));
    if (op == SHL) return integer(a.type, (uint64_t)a.bits << by);
    return integer(a.type, is_unsigned(a.type) ? (uint64_t)a.bits >> by : (uint64_t)(a.bits >> by));
}

static Number count_bits(Op op, Number x)
{
    const int bits = x.type == I32 || x.type == U32 ? 32 : 64;
    int ones = 0, leading = bits, first = 0;
    for (int i = 0; i < bits; i++)
        if ((uint64_t)x.bits >> i & 1) {
            ones++;
            leading = bits - 1 - i;
            if (!first) first = i + 1;
        }
    return integer(I32, (uint64_t)(op == POPCOUNT ? ones : op == CLZ ? leading : op == FFS ? first : -first));
}

static Number rounded_up(Number a, Number b) // a / b, for b > 0
{
    if (is_unsigned(a.type))
        return integer(a.type, (uint64_t)a.bits / (uint64_t)b.bits + ((uint64_t)a.bits % (uint64_t)b.bits > 0));
    return integer(a.type, (uint64_t)(a.bits / b.bits + (a.bits % b.bits > 0)));
}

static Number evaluate(Op op, Number p, Number q)
{
    const Wide t = common(p.type, q.type);
    const Number a = convert(t, p), b = convert(t, q);
    const int order = compare(a, b);
    switch (op) {
    case ADD:
    case SUB:
    case MUL: return arithmetic(op, a, b);
    case DIV:
    case MOD: return arithmetic(op, a, b);
    case AND: return integer(t, (uint64_t)(a.bits & b.bits));
    case OR: return integer(t, (uint64_t)(a.bits | b.bits));
    case XOR: return integer(t, (uint64_t)(a.bits ^ b.bits));
    case SHL:
    case SHR: return shift(op, p, q.bits);
    case LT: return truth(order == -1);
    case LE: return truth(order == -1 || order == 0);
    case GT: return truth(order == 1);
    case GE: return truth(order == 1 || order == 0);
    case EQ: return truth(order == 0);
    case NE: return truth(order != 0);
    case BOTH: return truth(is_true(p) && is_true(q));
    case EITHER: return truth(is_true(p) || is_true(q));
    case NOT: return truth(!is_true(p));
    case NEG: return is_float(p.type) ? real(p.type, -p.real) : integer(p.type, 0 - (uint64_t)p.bits);
    case INVERT: return integer(p.type, ~(uint64_t)p.bits);
    case SELECT:
        return (is_float(p.type) ? p.real < 3 : is_unsigned(p.type) ? (uint64_t)p.bits < 3 : p.bits < 3) ? a : b;
    case MIN: return extreme(a, b, -1);
    case MAX: return extreme(a, b, 1);
    case CLAMP:
        if (is_float(p.type)) return real(p.type, isnan(p.real) ? -5 : p.real < -5 ? -5 : p.real > 100 ? 100 : p.real);
        return integer(p.type, (uint64_t)(p.bits < -5 ? -5 : p.bits > 100 ? 100 : p.bits));
    case ABS:
        if (is_float(p.type)) return real(p.type, fabs(p.real));
        return integer(p.type, is_unsigned(p.type) || p.bits >= 0 ? (uint64_t)p.bits : 0 - (uint64_t)p.bits);
    case POPCOUNT:
    case CLZ:
    case FFS:
    case NEG_FFS: return count_bits(op, p);
    case MIN_FFS: return evaluate(MIN, count_bits(FFS, p), q);
    case CEILDIV: return (is_unsigned(t) ? b.bits != 0 : b.bits > 0) ? rounded_up(a, b) : integer(t, 0);
    case CLAMP_BOTH: return extreme(extreme(a, b, 1), a, -1);
    case FMA:
        return real(t, t == F32 ? fmaf((float)a.real, (float)b.real, (float)a.real) : fma(a.real, b.real, a.real));
    case SQRT: return real(p.type, sqrt(p.real));
    case FLOOR: return real(p.type, floor(p.real));
    case CEIL: return real(p.type, ceil(p.real));
    case ROUND: return real(p.type, round(p.real));
    case RINT: return real(p.type, nearbyint(p.real));
    case TRUNC: return real(p.type, trunc(p.real));
    case OPS: break;
    case UPDATE_ADD: return evaluate(ADD, p, q);
    case UPDATE_SUB: return evaluate(SUB, p, q);
    case UPDATE_MUL: return evaluate(MUL, p, q);
    case UPDATE_MIN: return evaluate(MIN, p, q);
    case UPDATE_AND: return evaluate(AND, p, q);
    case UPDATE_SHR: return evaluate(SHR, p, q);
    }
    return p;
}

// ---- kernels: one for each type of `a`, with all types of `b`

static bool result_is_float(int a, int b) { return is_float(types[a].wide) || is_float(types[b].wide); }

static bool applies(int op, int a, int b)
{
    if (operators[op].alone && b != 0) return false;
    if (result_is_float(a, b) ? operators[op].takes == INTEGERS : operators[op].takes == FLOATS) return false;
    if (op == CLAMP) return !is_unsigned(types[a].wide);
    // A floating result stored in an integer, f16 or bf16 is what conversions_test.c is about.
    if (operators[op].update && result_is_float(a, b)) return types[a].type == KILN_F32 || types[a].type == KILN_F64;
    return true;
}

// What an update leaves in its target.
static Number stored(int a, Number x)
{
    const uint64_t n = (uint64_t)x.bits;
    switch (types[a].type) {
    case KILN_I8: return integer(I32, (uint64_t)(int8_t)n);
    case KILN_I16: return integer(I32, (uint64_t)(int16_t)n);
    case KILN_U8: return integer(I32, (uint8_t)n);
    case KILN_U16: return integer(I32, (uint16_t)n);
    case KILN_BOOL: return integer(I32, n != 0);
    default: return convert(types[a].wide, x);
    }
}

static char *write_operator(char *at, int op, int a, int b)
{
    if (operators[op].update)
        return at + sprintf(at, "{ %s u = a; %s; R%d[%d][i] = u; }\n", types[a].name, operators[op].text, b, op);
    return at + sprintf(at, "R%d[%d][i] = %s;\n", b, op, operators[op].text);
}

static char *kernel_text(int a, bool in_forall)
{
    static char text[1 << 16];
    char *at = text + sprintf(text, "kernel k(in %s X[256]", types[a].name);
    for (int b = 0; b < TYPES; b++)
        at += sprintf(at, ", in %s Y%d[256], out %s R%d[%d][256]", types[b].name, b,
                      result_is_float(a, b) ? "f64" : "i64", b, OPS);
    at += sprintf(at, ")\n{\ngrid ();\n");
    for (int b = 0; b < TYPES; b++) {
        at += sprintf(at, "%s {\n", in_forall ? "forall (i : 256)" : "for (int i = 0; i < 256; i++)");
        at += sprintf(at, "%s a = X[i]; %s b = Y%d[255 - i];\n", types[a].name, types[b].name, b);
        for (int op = 0; op < OPS; op++)
            if (applies(op, a, b)) at = write_operator(at, op, a, b);
        at += sprintf(at, "}\n");
    }
    sprintf(at, "}\n");
    return text;
}

// Quotients of f32 need not be the nearest, and a subnormal divisor may count as 0; the CPU's are, and do not.
static bool is_near_quotient(int op, Number q, Wide t, double got, double right)
{
    if (op != DIV || t != F32 || on_cpu()) return false;
    const double divisor = convert(F32, q).real;
    return fabs(divisor) < 0x1p-126 || nextafterf((float)right, (float)got) == (float)got;
}

static void compare_results(int a, int b, const char *where, const int64_t (*results)[PAIRS])
{
    for (int op = 0; op < OPS; op++)
        for (int i = 0; applies(op, a, b) && i < PAIRS; i++) {
            const Number p = number(a, i), q = number(b, PAIRS - 1 - i);
            Number right = evaluate((Op)op, p, q);
            double got;
            memcpy(&got, &results[op][i], 8);
            if (operators[op].update) right = stored(a, right);
            const bool floating = result_is_float(a, b);
            if (floating) right = convert(F64, right);
            if (floating ? (isnan(got) && isnan(right.real)) || got == right.real : results[op][i] == right.bits)
                continue;
            if (is_near_quotient(op, q, common(p.type, q.type), got, right.real)) continue;
            fail_msg("%s: %s a = %.17g (%" PRId64 "), %s b = %.17g (%" PRId64 "): %s is %.17g (%" PRId64
                     "), expected %.17g (%" PRId64 ")",
                     where, types[a].name, p.real, p.bits, types[b].name, q.real, q.bits, operators[op].text,
                     floating ? got : 0, results[op][i], right.real, right.bits);
        }
}

static void compute_all(int a, bool in_forall)
{
    static int64_t results[TYPES][OPS][PAIRS];
    Arg args[1 + 2 * TYPES];
    memset(results, 0x5a, sizeof results);
    args[0] = T(numbers[a], types[a].type, PAIRS);
    for (int b = 0; b < TYPES; b++) {
        args[1 + 2 * b] = T(numbers[b], types[b].type, PAIRS);
        args[2 + 2 * b] = T(results[b], result_is_float(a, b) ? KILN_F64 : KILN_I64, OPS, PAIRS);
    }
    kiln_kernel *const kernel = build(kernel_text(a, in_forall), "k", NULL);
    static char own[PAIRS * 8]; // tensors of a launch may share memory only if none is written
    memcpy(own, numbers[a], sizeof own);
    args[0].tensor.data = own;
    launch(kernel, args, COUNT_OF(args));
    kiln_kernel_free(kernel);
    for (int b = 0; b < TYPES; b++) compare_results(a, b, in_forall ? "forall" : "for", results[b]);
}

// With KILN_EXHAUSTIVE each type on both paths, else every other on each.
static void compute_some(bool in_forall)
{
    const int step = getenv("KILN_EXHAUSTIVE") ? 1 : 2;
    for (int a = step == 1 ? 0 : in_forall; a < TYPES; a += step) compute_all(a, in_forall);
}

static void in_forall(void **state) { compute_some(true); }
static void one_after_another(void **state) { compute_some(false); }

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(in_forall), cmocka_unit_test(one_after_another) };
    make_numbers();
    return cmocka_run_group_tests_name("operators", tests, NULL, NULL);
}
