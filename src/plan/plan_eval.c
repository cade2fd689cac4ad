// SPDX-License-Identifier: MIT
// plan_eval.c - run the postfix programs of a plan. Needs nothing of the compiler but the table of element types.
#include "plan/code.h"
#include "ir/constant.h"

#include <math.h>

typedef union Value { int64_t i; double f; } Value;

static int64_t divide(DType type, ExprOp op, int64_t a, int64_t b)
{
    const uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
    if (b == 0) return 0;
    if (type == DTYPE_U64) return (int64_t)(op == X_DIV ? ua / ub : ua % ub);
    if (b == -1) return op == X_DIV ? (int64_t)(0 - ua) : 0;
    return op == X_DIV ? a / b : a % b;
}

static int64_t shift(DType type, ExprOp op, int64_t a, int64_t b)
{
    if (b < 0 || b >= dtype_bits(type)) return 0;
    if (op == X_SHL) return (int64_t)((uint64_t)a << b);
    return type == DTYPE_U64 ? (int64_t)((uint64_t)a >> b) : a >> b;
}

static int64_t binary_int(DType type, ExprOp op, int64_t a, int64_t b)
{
    const uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
    const bool wide = type == DTYPE_U64;
    if (op_compares(op)) return op_compare(op, wide ? ua < ub : a < b, a == b, wide ? ua > ub : a > b);
    int64_t r = 0;
    switch ((int)op) {
    case X_ADD:    r = (int64_t)(ua + ub); break;
    case X_SUB:    r = (int64_t)(ua - ub); break;
    case X_MUL:    r = (int64_t)(ua * ub); break;
    case X_DIV: case X_MOD: r = divide(type, op, a, b); break;
    case X_SHL: case X_SHR: r = shift(type, op, a, b); break;
    case X_BITAND: r = a & b; break;
    case X_BITOR:  r = a | b; break;
    case X_BITXOR: r = a ^ b; break;
    case X_AND:    return a && b;
    case X_OR:     return a || b;
    }
    return constant_wrap(type, r);
}

static Value binary(DType type, ExprOp op, Value a, Value b)
{
    if (!dtype_is_float(type)) return (Value){ .i = binary_int(type, op, a.i, b.i) };
    if (op_compares(op)) return (Value){ .i = op_compare(op, a.f < b.f, a.f == b.f, a.f > b.f) };
    double r = 0;
    switch ((int)op) {
    case X_ADD: r = a.f + b.f; break;
    case X_SUB: r = a.f - b.f; break;
    case X_MUL: r = a.f * b.f; break;
    case X_DIV: r = a.f / b.f; break;
    }
    return (Value){ .f = constant_round(type, r) };
}

static Value unary(DType type, ExprOp op, Value a)
{
    if (op == X_NEG && dtype_is_float(type)) return (Value){ .f = -a.f };
    if (op == X_NEG) return (Value){ .i = constant_wrap(type, (int64_t)(0 - (uint64_t)a.i)) };
    if (op == X_NOT) return (Value){ .i = !a.i };
    return (Value){ .i = constant_wrap(type, ~a.i) };
}

static Value convert(DType to, DType from, Value a)
{
    Value r = a;
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
    case M_EXP:   return exp(v[0].f);
    case M_EXP2:  return exp2(v[0].f);
    case M_LOG:   return log(v[0].f);
    case M_LOG2:  return log2(v[0].f);
    case M_SQRT:  return sqrt(v[0].f);
    case M_RSQRT: return 1 / sqrt(v[0].f);
    case M_POW:   return pow(v[0].f, v[1].f);
    case M_SIN:   return sin(v[0].f);
    case M_COS:   return cos(v[0].f);
    case M_TANH:  return tanh(v[0].f);
    case M_ERF:   return erf(v[0].f);
    case M_ABS:   return fabs(v[0].f);
    case M_FLOOR: return floor(v[0].f);
    case M_CEIL:  return ceil(v[0].f);
    case M_ROUND: return round(v[0].f);
    case M_RINT:  return nearbyint(v[0].f);
    case M_TRUNC: return trunc(v[0].f);
    case M_MIN:   return fmin(v[0].f, v[1].f);
    case M_MAX:   return fmax(v[0].f, v[1].f);
    case M_CLAMP: return fmin(fmax(v[0].f, v[1].f), v[2].f);
    default:      return fma(v[0].f, v[1].f, v[2].f);
    }
}

static int64_t math_int(DType type, MathFn fn, const Value *v)
{
    const bool wide = type == DTYPE_U64;
    const int bits = dtype_bits(type);
    const uint64_t u = bits >= 64 ? (uint64_t)v[0].i : (uint64_t)v[0].i & ((UINT64_C(1) << bits) - 1);
    const int64_t a = v[0].i, b = v[1].i;
    const bool less = wide ? (uint64_t)a < (uint64_t)b : a < b;
    switch ((int)fn) {
    case M_ABS:      return a < 0 && !wide ? constant_wrap(type, (int64_t)(0 - u)) : a;
    case M_MIN:      return less ? a : b;
    case M_MAX:      return less ? b : a;
    case M_CLAMP: {
        const int64_t low = less ? b : a, hi = v[2].i;
        return (wide ? (uint64_t)low > (uint64_t)hi : low > hi) ? hi : low;
    }
    case M_CEILDIV:
        if (wide) return b == 0 ? 0 : (int64_t)((uint64_t)a / (uint64_t)b + ((uint64_t)a % (uint64_t)b > 0));
        return b <= 0 ? 0 : a / b + (a % b > 0);
    case M_FMA:      return constant_wrap(type, (int64_t)((uint64_t)a * (uint64_t)b + (uint64_t)v[2].i));
    case M_POPCOUNT: return __builtin_popcountll(u);
    case M_CLZ:      return u ? __builtin_clzll(u) - (64 - bits) : bits;
    case M_FFS:      return __builtin_ffsll((long long)u);
    default:         return a;                             // floor and the like of an integer
    }
}

static Value math(DType type, MathFn fn, const Value *v)
{
    if (!dtype_is_float(type)) return (Value){ .i = math_int(type, fn, v) };
    return (Value){ .f = constant_round(type, math_float(fn, v)) };
}

// math() may look at three, whatever the function takes.
static Value math_of(int64_t word, Value *v)
{
    for (int i = plan_operands(word); i < 3; i++)
        v[i].i = 0;
    return math(plan_type(word), (MathFn)plan_what(word), v);
}

int64_t plan_eval(const LaunchPlan *plan, PlanCode code, const int64_t *symbols, const int64_t *scalars)
{
    Value stack[PLAN_STACK + 3];                           // a launch runs dozens of codes, so nothing clears it
    int top = 0;
    const int64_t *const words = plan->code + code.start;
    for (int at = 0; at < code.length; at++) {
        const int64_t word = words[at];
        Value *const v = &stack[top - plan_operands(word)];
        switch (plan_kind(word)) {
        case P_CONST:   v->i = words[++at]; break;
        case P_SYMBOL:  v->i = symbols[plan_index(word)]; break;
        case P_SCALAR:  v->i = scalars[plan_index(word)]; break;
        case P_UNARY:   *v = unary(plan_type(word), (ExprOp)plan_what(word), v[0]); break;
        case P_BINARY:  *v = binary(plan_type(word), (ExprOp)plan_what(word), v[0], v[1]); break;
        case P_SELECT:  *v = v[0].i ? v[1] : v[2]; break;
        case P_CONVERT: *v = convert(plan_type(word), (DType)plan_what(word), v[0]); break;
        case P_MATH:    *v = math_of(word, v); break;
        case P_KIND_COUNT: break;
        }
        top += 1 - plan_operands(word);
    }
    return top > 0 ? stack[0].i : 0;
}

static bool operation_is_known(const LaunchPlan *plan, int64_t word)
{
    const int what = plan_what(word), operands = plan_operands(word), index = plan_index(word);
    if (plan_type(word) >= DTYPE_COUNT) return false;
    switch (plan_kind(word)) {
    case P_CONST:   return operands == 0;
    case P_SYMBOL:  return operands == 0 && index < plan->n_binds;
    case P_SCALAR:  return operands == 0 && index < plan->n_params;
    case P_UNARY:   return operands == 1 && what <= X_BITNOT;
    case P_BINARY:  return operands == 2 && what > X_BITNOT && what < X_OP_COUNT;
    case P_SELECT:  return operands == 3;
    case P_CONVERT: return operands == 1 && what < DTYPE_COUNT;
    case P_MATH:    return what < M_COUNT && what != M_DOT4 && what != M_RANDOM && operands >= 1 && operands <= 3;
    case P_KIND_COUNT: break;
    }
    return false;
}

bool plan_code_is_sound(const LaunchPlan *plan, PlanCode code)
{
    if (code.start < 0 || code.length < 0 || code.start > plan->n_code - code.length) return false;
    if (code.length == 0) return true;                     // nothing to compute: an absent tensor's extent
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
