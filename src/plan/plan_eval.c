// SPDX-License-Identifier: MIT
// plan_eval.c - run the postfix programs of a plan. Needs nothing of the compiler but the table of element types.
#include "plan/code.h"
#include "ir/constant.h"

// What is computed carries why it has no value, so that an arm which is not taken may divide by 0.
typedef struct Value {
    union {
        int64_t i;
        double f;
    };
    OpFault fault;
} Value;

static Value compute_int(DType type, ExprOp op, int64_t a, int64_t b)
{
    Value r = { 0 };
    r.fault = op_compute_int(op, type, a, b, &r.i);
    return r;
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
    if (!dtype_is_float(type))
        return op_compares(op) ? (Value){ .i = op_compare_int(op, type, a.i, b.i) } : compute_int(type, op, a.i, b.i);
    return op_compares(op) ? (Value){ .i = op_compare_float(op, a.f, b.f) }
                           : (Value){ .f = op_compute_float(op, type, a.f, b.f) };
}

static Value unary(DType type, ExprOp op, Value a)
{
    if (a.fault) return a;
    if (op == X_NEG && dtype_is_float(type)) return (Value){ .f = -a.f };
    if (op == X_NEG) return compute_int(type, X_SUB, 0, a.i);
    return op == X_NOT ? (Value){ .i = !a.i } : (Value){ .i = constant_wrap(type, ~a.i) };
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

static Value math(DType type, MathFn fn, int n, const Value *v)
{
    double reals[BUILTIN_ARGUMENTS_MAX];
    int64_t ints[BUILTIN_ARGUMENTS_MAX];
    for (int i = 0; i < n; i++) {
        if (v[i].fault) return v[i];
        reals[i] = v[i].f;
        ints[i] = v[i].i;
    }
    if (dtype_is_float(type)) return (Value){ .f = constant_round(type, builtins[fn].real(type, reals)) };
    Value r = { 0 };
    r.fault = builtins[fn].integer(type, ints, &r.i);
    return r;
}

static bool math_is_known(DType type, int fn, int n)
{
    return fn < M_COUNT && n == builtins[fn].arguments && builtin_computes((MathFn)fn, type);
}

OpFault plan_eval(const LaunchPlan *plan, PlanCode code, const int64_t *symbols, const int64_t *scalars, int64_t *value)
{
    Value stack[PLAN_STACK + 1]; // a launch runs dozens of codes, so nothing clears it
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
        case P_MATH: *v = math(plan_type(word), (MathFn)plan_what(word), plan_operands(word), v); break;
        case P_KIND_COUNT: break;
        }
        top += 1 - plan_operands(word);
    }
    const bool has_value = top > 0 && !stack[0].fault;
    *value = has_value ? stack[0].i : 0;
    return top > 0 ? stack[0].fault : OP_FAULT_NONE;
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
    case P_MATH: return math_is_known(plan_type(word), what, operands);
    case P_KIND_COUNT: break;
    }
    return false;
}

int plan_map_computed(const PlanMap *map)
{
    return 2 * map->rank + (map->has_steps ? map->rank : 0) + 2 * map->n_walked;
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
