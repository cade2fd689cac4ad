// SPDX-License-Identifier: MIT
// work.c - count the operations of a kernel's products for given sizes.
//
// A small interpreter of Tile IR's scalar code: it follows loops and branches with the values of a sample of grid
// points and loop steps and scales up. Data it does not have; what depends on data counts as 0 or not at all.
#include "tools/work.h"

#include <string.h>

enum { SAMPLES = 24 };

typedef struct Walk {
    const CheckCase *check;
    int64_t *values;                 // by Var.id
    bool    *known;
    bool     ended;                  // a break, continue or return was passed
} Walk;

static bool eval(const Walk *w, const Expr *x, int64_t *value);

static bool eval_binary(const Walk *w, const Expr *x, int64_t *value)
{
    int64_t a, b;
    if (!eval(w, x->op.a, &a))
        return false;
    if (x->op.op == X_AND && !a)
        return *value = 0, true;
    if (x->op.op == X_OR && a)
        return *value = 1, true;
    if (!eval(w, x->op.b, &b))
        return false;
    switch (x->op.op) {
    case X_ADD: *value = a + b; return true;
    case X_SUB: *value = a - b; return true;
    case X_MUL: *value = a * b; return true;
    case X_DIV: *value = b ? a / b : 0; return b != 0;
    case X_MOD: *value = b ? a % b : 0; return b != 0;
    case X_SHL: *value = a << (b & 63); return true;
    case X_SHR: *value = a >> (b & 63); return true;
    case X_BITAND: *value = a & b; return true;
    case X_BITOR: *value = a | b; return true;
    case X_BITXOR: *value = a ^ b; return true;
    case X_LT: *value = a < b; return true;
    case X_LE: *value = a <= b; return true;
    case X_GT: *value = a > b; return true;
    case X_GE: *value = a >= b; return true;
    case X_EQ: *value = a == b; return true;
    case X_NE: *value = a != b; return true;
    case X_AND: case X_OR: *value = b != 0; return true;
    case X_NEG: case X_NOT: case X_BITNOT: case X_OP_COUNT: break;
    }
    return false;
}

static bool eval_math(const Walk *w, const Expr *x, int64_t *value)
{
    int64_t a, b;
    if (x->math.n != 2 || !eval(w, x->math.args[0], &a) || !eval(w, x->math.args[1], &b))
        return false;
    if (x->math.fn == M_MIN)
        return *value = a < b ? a : b, true;
    if (x->math.fn == M_MAX)
        return *value = a > b ? a : b, true;
    if (x->math.fn != M_CEILDIV || b <= 0)
        return false;
    *value = a / b + (a % b > 0);
    return true;
}

static bool eval(const Walk *w, const Expr *x, int64_t *value)
{
    int64_t cond;
    if (dtype_is_float(x->type))
        return false;
    switch (x->kind) {
    case E_INT:
        return *value = x->integer.value, true;
    case E_VAR:
        return *value = w->values[x->var.var->id], w->known[x->var.var->id];
    case E_UNARY:
        if (!eval(w, x->op.a, value))
            return false;
        *value = x->op.op == X_NEG ? -*value : x->op.op == X_NOT ? !*value : ~*value;
        return true;
    case E_BINARY:
        return eval_binary(w, x, value);
    case E_SELECT:
        return eval(w, x->select.cond, &cond) && eval(w, cond ? x->select.a : x->select.b, value);
    case E_CONVERT:
        return eval(w, x->convert.a, value);
    case E_MATH:
        return eval_math(w, x, value);
    case E_FLOAT: case E_LOAD: case E_BITCAST: case E_ATOMIC: case E_CALL: case E_INDEX: case E_ADDRESS:
        break;
    }
    return false;
}

static void set_var(Walk *w, const Var *var, const Expr *value)
{
    w->known[var->id] = value && eval(w, value, &w->values[var->id]);
}

static double walk_block(Walk *w, TileOp *op);

// Nested loops over indices: a sample of the steps of each, scaled up.
static double walk_indices(Walk *w, const LoopIndex *indices, int n, TileOp *body)
{
    int64_t lo, hi;
    double sum = 0;
    if (n == 0)
        return walk_block(w, body);
    if (!eval(w, indices->lo, &lo) || !eval(w, indices->hi, &hi) || hi <= lo)
        return 0;
    const int64_t steps = hi - lo, taken = steps < SAMPLES ? steps : SAMPLES;
    for (int64_t i = 0; i < taken; i++) {
        w->values[indices->var->id] = lo + (taken == 1 ? 0 : i * (steps - 1) / (taken - 1));
        w->known[indices->var->id] = true;
        sum += walk_indices(w, indices + 1, n - 1, body);
        w->ended = false;            // break and return inside: as if the loop went on
    }
    return sum / (double)taken * (double)steps;
}

static double extent(const Walk *w, const Region *region, int axis)
{
    int64_t n;
    return eval(w, region_extent(region, axis), &n) && n > 0 ? (double)n : 0;
}

static double count_product(const Walk *w, const TileOp *op)
{
    const Operand *const a = &op->matmul.a;
    const double k = extent(w, &a->region, a->transposed ? 0 : 1);
    return 2 * extent(w, &op->matmul.dst, 0) * extent(w, &op->matmul.dst, 1) * k;
}

static double walk_branch(Walk *w, const TileOp *op)
{
    int64_t cond;
    if (eval(w, op->branch.cond, &cond))
        return walk_block(w, cond ? op->branch.then : op->branch.otherwise);
    const double then = walk_block(w, op->branch.then);
    w->ended = false;
    const double otherwise = walk_block(w, op->branch.otherwise);
    w->ended = false;
    return then > otherwise ? then : otherwise;
}

static double walk_op(Walk *w, TileOp *op)
{
    switch (op->kind) {
    case T_MATMUL:
        return count_product(w, op);
    case T_LET: case T_SET:
        set_var(w, op->let.var, op->let.value);
        return 0;
    case T_UPDATE:
        if (op->update.var)
            w->known[op->update.var->id] = false;
        return 0;
    case T_PIPELINE:
        return walk_indices(w, op->pipeline.indices, op->pipeline.n, op->pipeline.body);
    case T_FOR: {
        LoopIndex index = { op->for_.var, op->for_.lo, op->for_.hi };
        int64_t step = 1;
        eval(w, op->for_.step, &step);
        return walk_indices(w, &index, 1, op->for_.body) / (double)(step > 0 ? step : 1);
    }
    case T_WHILE: {
        const double once = walk_block(w, op->while_.body);
        w->ended = false;
        return once;
    }
    case T_IF:
        return walk_branch(w, op);
    case T_BREAK: case T_CONTINUE: case T_RETURN:
        w->ended = true;
        return 0;
    case T_TILE: case T_STORE: case T_ATOMIC: case T_ATOMIC_TILE: case T_FILL: case T_COPY: case T_SCAN: case T_FORALL:
    case T_PRINT: case T_ASSERT: case T_EXTERN:
        break;
    }
    return 0;
}

static double walk_block(Walk *w, TileOp *op)
{
    double sum = 0;
    for (; op && !w->ended; op = op->next)
        sum += walk_op(w, op);
    return sum;
}

static void bind(Walk *w, const Var *var, const char *name)
{
    const CheckCase *const check = w->check;
    for (int i = 0; i < check->n_launch; i++)
        if (strcmp(check->launch[i].name, name) == 0 && check->launch[i].kind == BIND_INT) {
            w->values[var->id] = check->launch[i].integer;
            w->known[var->id] = true;
        }
}

double count_operations(const TileKernel *kernel, const CheckCase *check)
{
    Arena *const arena = kernel->arena;
    Walk w = { .check = check, .values = NEW_ARRAY(arena, int64_t, kernel->n_vars + 1),
               .known = NEW_ARRAY(arena, bool, kernel->n_vars + 1) };
    LoopIndex grid[MAX_RANK];
    for (int i = 0; i < kernel->n_binds; i++)
        bind(&w, kernel->binds[i].symbol, kernel->binds[i].symbol->name);
    for (int i = 0; i < kernel->n_params; i++)
        if (!kernel->params[i].is_tensor && kernel->params[i].scalar)
            bind(&w, kernel->params[i].scalar, kernel->params[i].name);
    for (int i = 0; i < kernel->n_grid; i++)
        grid[i] = (LoopIndex){ kernel->grid[i].var, int_const(arena, 0), kernel->grid[i].extent };
    return walk_indices(&w, grid, kernel->n_grid, kernel->body);
}

double count_bytes(const Case *c)
{
    const LaunchPlan *const plan = c->build->kernel->plan;
    double sum = 0;
    for (int i = 0; i < plan->n_params; i++)
        if (c->inputs[i].block)
            sum += (double)c->inputs[i].bytes * (plan->params[i].access == ACCESS_INOUT ? 2 : 1);
    return sum;
}
