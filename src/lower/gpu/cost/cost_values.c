// SPDX-License-Identifier: MIT
// cost_values.c - the value of an integer expression, where all that it takes is known.
#include "lower/gpu/cost/cost.h"

CostValues cost_values_new(Arena *arena, const TileKernel *kernel)
{
    CostValues values = { .n_vars = kernel->n_vars + 1 };
    values.vars = arena_alloc(arena, sizeof *values.vars * (size_t)values.n_vars);
    return values;
}

void cost_value_set(CostValues *values, const Var *var, bool known, int64_t value)
{
    if (var->id >= values->n_vars) return;
    values->vars[var->id].known = known;
    values->vars[var->id].value = value;
}

static bool value_of_logic(const CostValues *values, const Expr *x, int64_t *value)
{
    int64_t a, b;
    const bool knows_a = cost_value(values, x->op.a, &a), knows_b = cost_value(values, x->op.b, &b);
    const int64_t decides = x->op.op == X_OR;
    if ((knows_a && (a != 0) == decides) || (knows_b && (b != 0) == decides)) {
        *value = decides;
        return true;
    }
    *value = !decides;
    return knows_a && knows_b;
}

static bool value_of_operator(const CostValues *values, const Expr *x, int64_t *value)
{
    int64_t a, b = 0;
    if (x->kind == E_BINARY && (x->op.op == X_AND || x->op.op == X_OR)) return value_of_logic(values, x, value);
    if (!cost_value(values, x->op.a, &a) || (x->kind == E_BINARY && !cost_value(values, x->op.b, &b))) return false;
    if (x->kind == E_UNARY) {
        *value = x->op.op == X_NOT ? !a : x->op.op == X_NEG ? -a : ~a;
        return true;
    }
    if (op_compares(x->op.op)) {
        *value = op_compare_int(x->op.op, x->op.a->type, a, b);
        return true;
    }
    return op_compute_int(x->op.op, x->op.a->type, a, b, value) == OP_FAULT_NONE;
}

static bool value_of_math(const CostValues *values, const Expr *x, int64_t *value)
{
    int64_t v[BUILTIN_ARGUMENTS_MAX];
    if (dtype_is_float(x->type) || !builtins[x->math.fn].integer) return false;
    for (int i = 0; i < x->math.n; i++)
        if (!cost_value(values, x->math.args[i], &v[i])) return false;
    return builtins[x->math.fn].integer(x->math.args[0]->type, v, value) == OP_FAULT_NONE;
}

bool cost_value(const CostValues *values, const Expr *x, int64_t *value)
{
    int64_t cond;
    if (!x || dtype_is_float(x->type)) return false;
    switch (x->kind) {
    case E_INT: *value = x->integer.value; return true;
    case E_VAR:
        if (x->var.var->id >= values->n_vars || !values->vars[x->var.var->id].known) return false;
        *value = values->vars[x->var.var->id].value;
        return true;
    case E_UNARY:
    case E_BINARY: return !dtype_is_float(x->op.a->type) && value_of_operator(values, x, value);
    case E_SELECT:
        return cost_value(values, x->select.cond, &cond) && cost_value(values, cond ? x->select.a : x->select.b, value);
    case E_CONVERT: return cost_value(values, x->convert.a, value);
    case E_MATH: return value_of_math(values, x, value);
    case E_FLOAT:
    case E_LOAD:
    case E_BITCAST:
    case E_ATOMIC:
    case E_CALL:
    case E_INDEX:
    case E_ADDRESS: break;
    }
    return false;
}
