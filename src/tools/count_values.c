// SPDX-License-Identifier: MIT
// count_values.c - the range of an integer expression, from the ranges of its variables and the contents of tensors.
#include "tools/count.h"
#include "runtime/runtime.h"

static const Interval unknown = { 0, 0, false };
static Interval exactly(int64_t x) { return (Interval){ x, x, true }; }
static bool is_one(Interval a) { return a.known && a.lo == a.hi; }
static Interval truth(bool some, bool all) { return (Interval){ all, some, true }; }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

// ---- operators

static Interval add(Interval a, Interval b)
{
    Interval r = { .known = true };
    return __builtin_add_overflow(a.lo, b.lo, &r.lo) || __builtin_add_overflow(a.hi, b.hi, &r.hi) ? unknown : r;
}

static Interval negated(Interval a)
{
    Interval r = { .known = true };
    return __builtin_sub_overflow(0, a.hi, &r.lo) || __builtin_sub_overflow(0, a.lo, &r.hi) ? unknown : r;
}

static Interval multiply(Interval a, Interval b)
{
    int64_t p[4];
    if (__builtin_mul_overflow(a.lo, b.lo, &p[0]) || __builtin_mul_overflow(a.lo, b.hi, &p[1]) ||
        __builtin_mul_overflow(a.hi, b.lo, &p[2]) || __builtin_mul_overflow(a.hi, b.hi, &p[3]))
        return unknown;
    return (Interval){ least(least(p[0], p[1]), least(p[2], p[3])), most(most(p[0], p[1]), most(p[2], p[3])), true };
}

static Interval divide(Interval a, Interval b)
{
    if (!is_one(b) || b.lo <= 0) return is_one(a) && is_one(b) && b.lo < -1 ? exactly(a.lo / b.lo) : unknown;
    return (Interval){ a.lo / b.lo, a.hi / b.lo, true };
}

static Interval remainder_of(Interval a, Interval b)
{
    if (!is_one(b) || b.lo <= 0) return unknown;
    if (a.lo / b.lo == a.hi / b.lo && (a.lo >= 0 || a.hi <= 0)) return (Interval){ a.lo % b.lo, a.hi % b.lo, true };
    return (Interval){ a.lo < 0 ? -(b.lo - 1) : 0, a.hi > 0 ? b.lo - 1 : 0, true };
}

static Interval of_bits(ExprOp op, Interval a, Interval b)
{
    if (!is_one(a) || !is_one(b)) return unknown;
    switch ((int)op) {
    case X_SHL: return b.lo < 0 || b.lo > 62 ? unknown : multiply(a, exactly(INT64_C(1) << b.lo));
    case X_SHR: return b.lo < 0 || b.lo > 63 ? unknown : exactly(a.lo >> b.lo);
    case X_BITAND: return exactly(a.lo & b.lo);
    case X_BITOR: return exactly(a.lo | b.lo);
    default: return exactly(a.lo ^ b.lo);
    }
}

static Interval compare(ExprOp op, Interval a, Interval b)
{
    const bool never_less = a.lo >= b.hi, never_greater = a.hi <= b.lo;
    const bool never_equal = a.hi < b.lo || a.lo > b.hi, equal = is_one(a) && is_one(b) && a.lo == b.lo;
    switch ((int)op) {
    case X_LT: return truth(!never_less, a.hi < b.lo);
    case X_LE: return truth(!(a.lo > b.hi), never_greater);
    case X_GT: return truth(!never_greater, a.lo > b.hi);
    case X_GE: return truth(!(a.hi < b.lo), never_less);
    case X_EQ: return truth(!never_equal, equal);
    default: return truth(!equal, never_equal);
    }
}

// One side may decide.
static Interval of_logic(ExprOp op, Interval a, Interval b)
{
    const int64_t decides = op == X_OR;
    if ((is_one(a) && (a.lo != 0) == decides) || (is_one(b) && (b.lo != 0) == decides)) return exactly(decides);
    if (is_one(a) && is_one(b)) return exactly(!decides);
    return a.known && b.known ? truth(true, false) : unknown;
}

static Interval of_binary(const Ranges *ranges, const Expr *x)
{
    const Interval a = interval_of(ranges, x->op.a), b = interval_of(ranges, x->op.b);
    if (x->op.op == X_AND || x->op.op == X_OR) return of_logic(x->op.op, a, b);
    if (!a.known || !b.known) return unknown;
    switch (x->op.op) {
    case X_ADD: return add(a, b);
    case X_SUB: return negated(b).known ? add(a, negated(b)) : unknown;
    case X_MUL: return multiply(a, b);
    case X_DIV: return divide(a, b);
    case X_MOD: return remainder_of(a, b);
    case X_SHL:
    case X_SHR:
    case X_BITAND:
    case X_BITOR:
    case X_BITXOR: return of_bits(x->op.op, a, b);
    case X_LT:
    case X_LE:
    case X_GT:
    case X_GE:
    case X_EQ:
    case X_NE: return compare(x->op.op, a, b);
    case X_NEG:
    case X_NOT:
    case X_BITNOT:
    case X_AND:
    case X_OR:
    case X_OP_COUNT: break;
    }
    return unknown;
}

static Interval of_unary(const Ranges *ranges, const Expr *x)
{
    const Interval a = interval_of(ranges, x->op.a);
    if (!a.known) return unknown;
    if (x->op.op == X_NEG) return negated(a);
    if (x->op.op == X_NOT) return is_one(a) ? exactly(!a.lo) : truth(true, false);
    return is_one(a) ? exactly(~a.lo) : unknown;
}

static Interval of_math(const Ranges *ranges, const Expr *x)
{
    const Builtin *const fn = &builtins[x->math.fn];
    int64_t ints[BUILTIN_ARGUMENTS_MAX], value;
    Range args[BUILTIN_ARGUMENTS_MAX];
    bool ones = true;
    for (int i = 0; i < x->math.n; i++) {
        const Interval a = interval_of(ranges, x->math.args[i]);
        if (!a.known) return unknown;
        ints[i] = a.lo;
        args[i] = range_between(a.lo, a.hi);
        ones &= is_one(a);
    }
    if (ones) return fn->integer && !fn->integer(x->math.args[0]->type, ints, &value) ? exactly(value) : unknown;
    // Of others there may be numbers between the ends that it does not give.
    const bool has_no_holes = fn->picks || (fn->divides && ints[1] > 0 && args[1].lo == args[1].hi);
    if (!has_no_holes) return unknown;
    const Range r = fn->range(args);
    return (Interval){ r.lo, r.hi, true };
}

// ---- contents

// An element of a tensor that is only read, where its contents are known.
static Interval of_load(const Ranges *ranges, const Expr *x)
{
    const Buffer *const b = x->load.buffer;
    const kiln_tensor *const tensor = ranges->values->tensors && b->kind == BUFFER_TENSOR && b->access == ACCESS_IN
                                          ? ranges->values->tensors[b->param]
                                          : NULL;
    int64_t index = 0;
    if (!tensor || !tensor->data || !(dtype_is_integer(b->type) || b->type == DTYPE_BOOL) || tensor->rank != b->rank)
        return unknown;
    for (int d = 0; d < b->rank; d++) {
        const Interval at = interval_of(ranges, x->load.subs[d]);
        if (!is_one(at) || at.lo < 0 || at.lo >= tensor->shape[d]) return unknown;
        index = index * tensor->shape[d] + at.lo;
    }
    return exactly(element_get_int(b->type, tensor->data, index));
}

static Interval of_select(const Ranges *ranges, const Expr *x)
{
    const Interval cond = interval_of(ranges, x->select.cond);
    if (is_one(cond)) return interval_of(ranges, cond.lo ? x->select.a : x->select.b);
    const Interval a = interval_of(ranges, x->select.a), b = interval_of(ranges, x->select.b);
    return a.known && b.known && cond.known ? (Interval){ least(a.lo, b.lo), most(a.hi, b.hi), true } : unknown;
}

static Interval of_convert(const Ranges *ranges, const Expr *x)
{
    const Interval a = interval_of(ranges, x->convert.a);
    if (x->type != DTYPE_BOOL || !a.known || x->convert.a->type == DTYPE_BOOL) return a;
    return compare(X_NE, a, exactly(0));
}

Interval interval_of(const Ranges *ranges, const Expr *x)
{
    if (dtype_is_float(x->type)) return unknown;
    switch (x->kind) {
    case E_INT: return exactly(x->integer.value);
    case E_VAR: return ranges->vars[x->var.var->id];
    case E_UNARY: return of_unary(ranges, x);
    case E_BINARY: return op_compares(x->op.op) && dtype_is_float(x->op.a->type) ? unknown : of_binary(ranges, x);
    case E_SELECT: return of_select(ranges, x);
    case E_CONVERT: return of_convert(ranges, x);
    case E_MATH: return of_math(ranges, x);
    case E_LOAD: return of_load(ranges, x);
    case E_FLOAT:
    case E_BITCAST:
    case E_ATOMIC:
    case E_CALL:
    case E_INDEX:
    case E_ADDRESS: break;
    }
    return unknown;
}

bool value_of(const Ranges *ranges, const Expr *x, int64_t *value)
{
    const Interval a = interval_of(ranges, x);
    *value = a.lo;
    return is_one(a);
}

// ---- the launch

static void bind(Ranges *ranges, const Var *var, const char *name)
{
    for (int i = 0; i < ranges->values->n_values; i++)
        if (strcmp(ranges->values->values[i].name, name) == 0 && ranges->values->values[i].kind == BIND_INT)
            ranges->vars[var->id] = exactly(ranges->values->values[i].integer);
}

Ranges ranges_of(const TileKernel *kernel, const WorkValues *values)
{
    Ranges ranges = { kernel, values, NEW_ARRAY(kernel->arena, Interval, kernel->n_vars + 1) };
    for (int i = 0; i < kernel->n_binds; i++) bind(&ranges, kernel->binds[i].symbol, kernel->binds[i].symbol->name);
    for (int i = 0; i < kernel->n_params; i++)
        if (!kernel->params[i].is_tensor && kernel->params[i].scalar)
            bind(&ranges, kernel->params[i].scalar, kernel->params[i].name);
    return ranges;
}
