// SPDX-License-Identifier: MIT
// cost_values.c - the value of an integer expression, where all that it takes is known.
#include "lower/gpu/cost/cost.h"

#include <string.h>

enum { EFFORT_MAX = 200000 };

static void set_launch_value(CostValues *values, const CostQuestion *question, const Var *var)
{
    for (int i = 0; i < question->target->n_launch; i++)
        if (strcmp(question->target->launch[i].name, var->name) == 0)
            cost_value_set(values, var, true, question->target->launch[i].value);
}

CostValues cost_values_new(Arena *arena, const CostQuestion *question)
{
    const TileKernel *const kernel = question->kernel;
    CostValues values = { .n_vars = kernel->n_vars + 1 };
    values.vars = arena_alloc(arena, sizeof *values.vars * (size_t)values.n_vars);
    values.effort = arena_alloc(arena, sizeof *values.effort);
    *values.effort = EFFORT_MAX;
    for (int i = 0; i < kernel->n_binds; i++) set_launch_value(&values, question, kernel->binds[i].symbol);
    for (int i = 0; i < kernel->n_params; i++)
        if (!kernel->params[i].is_tensor) set_launch_value(&values, question, kernel->params[i].scalar);
    return values;
}

void cost_value_set(CostValues *values, const Var *var, bool known, int64_t value)
{
    if (var->id >= values->n_vars) return;
    values->vars[var->id].known = known;
    values->vars[var->id].value = value;
}

static bool value_of(const CostValues *values, const Expr *x, int64_t *value);

static bool value_of_logic(const CostValues *values, const Expr *x, int64_t *value)
{
    int64_t a, b;
    const bool knows_a = value_of(values, x->op.a, &a), knows_b = value_of(values, x->op.b, &b);
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
    if (!value_of(values, x->op.a, &a) || (x->kind == E_BINARY && !value_of(values, x->op.b, &b))) return false;
    if (x->kind == E_UNARY) {
        *value = x->op.op == X_NOT ? !a : ~a;
        return x->op.op != X_NEG || op_compute_int(X_SUB, x->op.a->type, 0, a, value) == OP_FAULT_NONE;
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
        if (!value_of(values, x->math.args[i], &v[i])) return false;
    return builtins[x->math.fn].integer(x->math.args[0]->type, v, value) == OP_FAULT_NONE;
}

static bool value_of(const CostValues *values, const Expr *x, int64_t *value)
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
        return value_of(values, x->select.cond, &cond) && value_of(values, cond ? x->select.a : x->select.b, value);
    case E_CONVERT: return value_of(values, x->convert.a, value);
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

// Subtrees are shared: what is large is not looked at.
bool cost_value(const CostValues *values, const Expr *x, int64_t *value)
{
    enum { NODES_MAX = 1000 };
    return x && !expr_larger(x, NODES_MAX) && value_of(values, x, value);
}

// ---- statements

// What a statement sets in its course is not known any more.
void cost_forget(CostValues *values, const TileOp *block)
{
    for (const TileOp *op = block; op; op = op->next) {
        TileOp **body;
        --*values->effort;
        if (op->kind == T_UPDATE && op->update.var) cost_value_set(values, op->update.var, false, 0);
        if (op->kind == T_SET) cost_value_set(values, op->let.var, false, 0);
        for (int i = 0; (body = tile_bodies((TileOp *)op, i)) != NULL; i++) cost_forget(values, *body);
    }
}

static void update_scalar(CostValues *values, const TileOp *op)
{
    int64_t before, by, after = 0;
    bool known = cost_value(values, op->update.value, &by);
    const Var *const var = op->update.var;
    known = known && var->id < values->n_vars && values->vars[var->id].known && !dtype_is_float(var->type);
    before = known ? values->vars[var->id].value : 0;
    if (known && (op->update.op == UPDATE_MIN || op->update.op == UPDATE_MAX))
        after = (by < before) == (op->update.op == UPDATE_MIN) ? by : before;
    else
        known = known && op_compute_int(update_operator(op->update.op), var->type, before, by, &after) == OP_FAULT_NONE;
    cost_value_set(values, var, known, after);
}

void cost_run_scalar(CostValues *values, const TileOp *op)
{
    TileOp **body;
    int64_t value = 0;
    --*values->effort;
    if (op->kind == T_LET || op->kind == T_SET) {
        const bool known = cost_value(values, op->let.value, &value);
        cost_value_set(values, op->let.var, known, value);
    } else if (op->kind == T_UPDATE && op->update.var) {
        update_scalar(values, op);
    }
    for (int i = 0; (body = tile_bodies((TileOp *)op, i)) != NULL; i++) cost_forget(values, *body);
}

// By running its scalars; false: its condition is not known, or there is no end.
bool cost_count_while(Arena *arena, const CostValues *values, const TileOp *loop, double *trips)
{
    enum { STEPS_MAX = 4096 };
    const ArenaMark mark = arena_mark(arena);
    CostValues at = *values;
    int64_t cond = 1;
    int n = 0;
    at.vars = arena_alloc(arena, sizeof *at.vars * (size_t)at.n_vars);
    memcpy(at.vars, values->vars, sizeof *at.vars * (size_t)at.n_vars);
    bool known = true;
    while (n<STEPS_MAX && * values->effort> 0 && (known = cost_value(&at, loop->while_.cond, &cond)) && cond) {
        n++;
        for (const TileOp *op = loop->while_.body; op; op = op->next) cost_run_scalar(&at, op);
        for (const TileOp *op = loop->while_.step; op; op = op->next) cost_run_scalar(&at, op);
    }
    arena_rewind(arena, mark);
    *trips = n;
    return known && n<STEPS_MAX && * values->effort> 0;
}
