// SPDX-License-Identifier: MIT
// plan_eval.c - run the postfix programs of a plan. Needs nothing of the compiler but the table of element types.
#include "plan/code.h"
#include "ir/constant.h"

#include <math.h>

// What is computed carries why it has no value, so that an arm which is not taken may divide by 0.
typedef struct Value {
    union {
        int64_t i;
        double f;
    };
    PlanFault fault;
} Value;

static const Value overflow = { .fault = PLAN_OVERFLOWS };

static Value wrapped(DType type, int64_t value) { return (Value){ .i = constant_wrap(type, value) }; }

// Sums of `int` overflow, of sized integers they wrap.
static Value sum_or_product(DType type, ExprOp op, int64_t a, int64_t b)
{
    int64_t r;
    const bool fits = op == X_ADD   ? !__builtin_add_overflow(a, b, &r)
                      : op == X_SUB ? !__builtin_sub_overflow(a, b, &r)
                                    : !__builtin_mul_overflow(a, b, &r);
    return fits || type != DTYPE_INT ? wrapped(type, r) : overflow;
}

static Value divide(DType type, ExprOp op, int64_t a, int64_t b)
{
    const uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
    if (b == 0) return (Value){ .fault = PLAN_DIVIDES_BY_ZERO };
    if (type == DTYPE_U64) return (Value){ .i = (int64_t)(op == X_DIV ? ua / ub : ua % ub) };
    if (b == -1) return op == X_DIV ? sum_or_product(type, X_SUB, 0, a) : (Value){ .i = 0 };
    return wrapped(type, op == X_DIV ? a / b : a % b);
}

static Value shift(DType type, ExprOp op, int64_t a, int64_t count)
{
    const int bits = dtype_bits(type), n = (int)(count & (bits - 1));
    if (type == DTYPE_INT && n != count) return (Value){ .fault = PLAN_SHIFTS_TOO_FAR };
    if (op == X_SHR) return (Value){ .i = type == DTYPE_U64 ? (int64_t)((uint64_t)a >> n) : a >> n };
    const int64_t r = (int64_t)((uint64_t)a << n);
    return type == DTYPE_INT && r >> n != a ? overflow : wrapped(type, r);
}

static bool compare(DType type, ExprOp op, Value a, Value b)
{
    if (dtype_is_float(type)) return op_compare(op, a.f<b.f, a.f == b.f, a.f> b.f);
    if (type == DTYPE_U64) return op_compare(op, (uint64_t)a.i<(uint64_t)b.i, a.i == b.i, (uint64_t)a.i>(uint64_t) b.i);
    return op_compare(op, a.i<b.i, a.i == b.i, a.i> b.i);
}

static Value binary_int(DType type, ExprOp op, int64_t a, int64_t b)
{
    switch ((int)op) {
    case X_ADD:
    case X_SUB:
    case X_MUL: return sum_or_product(type, op, a, b);
    case X_DIV:
    case X_MOD: return divide(type, op, a, b);
    case X_SHL:
    case X_SHR: return shift(type, op, a, b);
    case X_BITAND: return wrapped(type, a & b);
    case X_BITOR: return wrapped(type, a | b);
    default: return wrapped(type, a ^ b);
    }
}

static double binary_float(ExprOp op, double a, double b)
{
    switch ((int)op) {
    case X_ADD: return a + b;
    case X_SUB: return a - b;
    case X_MUL: return a * b;
    case X_DIV: return a / b;
    default: return 0;
    }
}

// && and ||: the right side counts only where the left one does not decide.
static Value logic(ExprOp op, Value a, Value b)
{
    if (a.fault || (a.i != 0) == (op == X_OR)) return a.fault ? a : (Value){ .i = op == X_OR };
    return b.fault ? b : (Value){ .i = b.i != 0 };
}

static Value binary(DType type, ExprOp op, Value a, Value b)
{
    if (op == X_AND || op == X_OR) return logic(op, a, b);
    if (a.fault || b.fault) return a.fault ? a : b;
    if (op_compares(op)) return (Value){ .i = compare(type, op, a, b) };
    return dtype_is_float(type) ? (Value){ .f = constant_round(type, binary_float(op, a.f, b.f)) }
                                : binary_int(type, op, a.i, b.i);
}

static Value unary(DType type, ExprOp op, Value a)
{
    if (a.fault) return a;
    if (op == X_NEG && dtype_is_float(type)) return (Value){ .f = -a.f };
    if (op == X_NEG) return sum_or_product(type, X_SUB, 0, a.i);
    return op == X_NOT ? (Value){ .i = !a.i } : wrapped(type, ~a.i);
}

static Value convert(DType to, DType from, Value a)
{
    Value r = a;
    if (a.fault) return a;
    if (dtype_is_float(from)) {
        if (dtype_is_float(to)) r.f = constant_round(to, a.f);
        else r.i = constant_truncate(to, a.f);
    } else if (dtype_is_float(to)) {
        if (!constant_float_from_int(to, from, a.i, &r.f)) r.f = constant_round(to, (double)a.i);
    } else {
        r.i = constant_wrap(to, a.i);
    }
    return r;
}

static double math_float(MathFn fn, const Value *v)
{
    switch ((int)fn) {
    case M_EXP: return exp(v[0].f);
    case M_EXP2: return exp2(v[0].f);
    case M_LOG: return log(v[0].f);
    case M_LOG2: return log2(v[0].f);
    case M_SQRT: return sqrt(v[0].f);
    case M_RSQRT: return 1 / sqrt(v[0].f);
    case M_POW: return pow(v[0].f, v[1].f);
    case M_SIN: return sin(v[0].f);
    case M_COS: return cos(v[0].f);
    case M_TANH: return tanh(v[0].f);
    case M_ERF: return erf(v[0].f);
    case M_ABS: return fabs(v[0].f);
    case M_FLOOR: return floor(v[0].f);
    case M_CEIL: return ceil(v[0].f);
    case M_ROUND: return round(v[0].f);
    case M_RINT: return nearbyint(v[0].f);
    case M_TRUNC: return trunc(v[0].f);
    case M_MIN: return fmin(v[0].f, v[1].f);
    case M_MAX: return fmax(v[0].f, v[1].f);
    case M_CLAMP: return fmin(fmax(v[0].f, v[1].f), v[2].f);
    default: return fma(v[0].f, v[1].f, v[2].f);
    }
}

static bool is_less(DType type, int64_t a, int64_t b) { return type == DTYPE_U64 ? (uint64_t)a < (uint64_t)b : a < b; }

static Value ceiling(DType type, int64_t a, int64_t b)
{
    if (b == 0 || (b < 0 && type != DTYPE_U64)) return (Value){ .fault = PLAN_NO_DIVISOR };
    const int64_t whole = divide(type, X_DIV, a, b).i, rest = divide(type, X_MOD, a, b).i;
    return (Value){ .i = whole + is_less(type, 0, rest) };
}

static Value math_int(DType type, MathFn fn, const Value *v)
{
    const int bits = dtype_bits(type);
    const uint64_t u = bits >= 64 ? (uint64_t)v[0].i : (uint64_t)v[0].i & ((UINT64_C(1) << bits) - 1);
    const int64_t a = v[0].i, b = v[1].i, greater = is_less(type, a, b) ? b : a;
    switch ((int)fn) {
    case M_ABS: return is_less(type, a, 0) ? sum_or_product(type, X_SUB, 0, a) : v[0];
    case M_MIN: return is_less(type, a, b) ? v[0] : v[1];
    case M_MAX: return (Value){ .i = greater };
    case M_CLAMP: return (Value){ .i = is_less(type, v[2].i, greater) ? v[2].i : greater };
    case M_CEILDIV: return ceiling(type, a, b);
    case M_FMA: return wrapped(type, (int64_t)((uint64_t)a * (uint64_t)b + (uint64_t)v[2].i));
    case M_POPCOUNT: return (Value){ .i = __builtin_popcountll(u) };
    case M_CLZ: return (Value){ .i = u ? __builtin_clzll(u) - (64 - bits) : bits };
    case M_FFS: return (Value){ .i = __builtin_ffsll((long long)u) };
    default: return v[0]; // floor and the like of an integer
    }
}

static Value math(DType type, MathFn fn, const Value *v)
{
    for (int i = 0; i < 3; i++)
        if (v[i].fault) return v[i];
    if (!dtype_is_float(type)) return math_int(type, fn, v);
    return (Value){ .f = constant_round(type, math_float(fn, v)) };
}

// math() may look at three, whatever the function takes.
static Value math_of(int64_t word, Value *v)
{
    for (int i = plan_operands(word); i < 3; i++) v[i] = (Value){ .i = 0 };
    return math(plan_type(word), (MathFn)plan_what(word), v);
}

const char *plan_fault_text(PlanFault fault)
{
    static const char *const texts[] = {
        [PLAN_FINE] = "has a value",
        [PLAN_DIVIDES_BY_ZERO] = "divides by 0",
        [PLAN_OVERFLOWS] = "does not fit into 64 bits",
        [PLAN_SHIFTS_TOO_FAR] = "shifts by less than 0 or more than 63",
        [PLAN_NO_DIVISOR] = "takes 'ceildiv' by a divisor that is not positive",
    };
    return texts[fault];
}

PlanFault plan_eval(const LaunchPlan *plan, PlanCode code, const int64_t *symbols, const int64_t *scalars,
                    int64_t *value)
{
    Value stack[PLAN_STACK + 3]; // a launch runs dozens of codes, so nothing clears it
    int top = 0;
    const int64_t *const words = plan->code + code.start;
    for (int at = 0; at < code.length; at++) {
        const int64_t word = words[at];
        Value *const v = &stack[top - plan_operands(word)];
        switch (plan_kind(word)) {
        case P_CONST: *v = (Value){ .i = words[++at] }; break;
        case P_SYMBOL: *v = (Value){ .i = symbols[plan_index(word)] }; break;
        case P_SCALAR: *v = (Value){ .i = scalars[plan_index(word)] }; break;
        case P_UNARY: *v = unary(plan_type(word), (ExprOp)plan_what(word), v[0]); break;
        case P_BINARY: *v = binary(plan_type(word), (ExprOp)plan_what(word), v[0], v[1]); break;
        case P_SELECT: *v = v[0].fault ? v[0] : v[0].i ? v[1] : v[2]; break;
        case P_CONVERT: *v = convert(plan_type(word), (DType)plan_what(word), v[0]); break;
        case P_MATH: *v = math_of(word, v); break;
        case P_KIND_COUNT: break;
        }
        top += 1 - plan_operands(word);
    }
    const bool has_value = top > 0 && !stack[0].fault;
    *value = has_value ? stack[0].i : 0;
    return top > 0 ? stack[0].fault : PLAN_FINE;
}

static bool operation_is_known(const LaunchPlan *plan, int64_t word)
{
    const int what = plan_what(word), operands = plan_operands(word), index = plan_index(word);
    if (plan_type(word) >= DTYPE_COUNT) return false;
    switch (plan_kind(word)) {
    case P_CONST: return operands == 0;
    case P_SYMBOL: return operands == 0 && index < plan->n_binds;
    case P_SCALAR: return operands == 0 && index < plan->n_params;
    case P_UNARY: return operands == 1 && what <= X_BITNOT;
    case P_BINARY: return operands == 2 && what > X_BITNOT && what < X_OP_COUNT;
    case P_SELECT: return operands == 3;
    case P_CONVERT: return operands == 1 && what < DTYPE_COUNT;
    case P_MATH: return what < M_COUNT && what != M_DOT4 && what != M_RANDOM && operands >= 1 && operands <= 3;
    case P_KIND_COUNT: break;
    }
    return false;
}

int plan_words(const LaunchPlan *plan)
{
    int words = plan->n_binds + plan->n_grid;
    for (int i = 0; i < plan->n_params; i++)
        if (!plan->params[i].absent)
            words += plan->params[i].is_tensor && plan->params[i].strided ? 1 + plan->params[i].rank : 1;
    return words;
}

bool plan_code_is_sound(const LaunchPlan *plan, PlanCode code)
{
    if (code.start < 0 || code.length < 0 || code.start > plan->n_code - code.length) return false;
    if (code.length == 0) return true; // nothing to compute: an absent tensor's extent
    int top = 0;
    for (int at = 0; at < code.length; at++) {
        const int64_t word = plan->code[code.start + at];
        if ((word & 255) >= P_KIND_COUNT || !operation_is_known(plan, word)) return false;
        if (top < plan_operands(word)) return false;
        top += 1 - plan_operands(word);
        if (top > PLAN_STACK) return false;
        if (plan_kind(word) == P_CONST && ++at >= code.length) return false;
    }
    return top == 1;
}
