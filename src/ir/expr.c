// SPDX-License-Identifier: MIT
// expr.c - building, asking about and rewriting scalar expressions. What folds is in expr_fold.c.
#include "ir/tile.h"

#include <assert.h>

// ---- leaves and what never folds

static Expr **copy_exprs(Arena *a, Expr *const *items, int n)
{
    Expr **const copy = NEW_ARRAY(a, Expr *, n > 0 ? n : 1);
    for (int i = 0; i < n; i++) copy[i] = items[i];
    return copy;
}

Expr *expr_var(Arena *a, Var *var) { return NEW(a, Expr, .kind = E_VAR, .type = var->type, .var = { var }); }

Expr *expr_load(Arena *a, Buffer *buffer, Expr **subs)
{
    return NEW(a, Expr, .kind = E_LOAD, .type = buffer->type, .load = { buffer, copy_exprs(a, subs, buffer->rank) });
}

Expr *expr_call(Arena *a, DType type, const char *name, int n, Expr **args)
{
    return NEW(a, Expr, .kind = E_CALL, .type = type, .call = { name, n, copy_exprs(a, args, n) });
}

Expr *expr_index(Arena *a, Var *pointer, Expr *at)
{
    return NEW(a, Expr, .kind = E_INDEX, .type = pointer->type, .span = at->span, .index = { pointer, at });
}

Expr *expr_address(Arena *a, Var *pointer, Expr *at)
{
    return NEW(a, Expr, .kind = E_ADDRESS, .type = pointer->type, .span = at->span, .index = { pointer, at });
}

Expr *int_const(Arena *a, int64_t value) { return expr_int(a, DTYPE_INT, value); }
Expr *int_add(Arena *a, Expr *x, Expr *y) { return expr_binary(a, X_ADD, x, y); }
Expr *int_sub(Arena *a, Expr *x, Expr *y) { return expr_binary(a, X_SUB, x, y); }
Expr *int_mul(Arena *a, Expr *x, Expr *y) { return expr_binary(a, X_MUL, x, y); }
Expr *int_min(Arena *a, Expr *x, Expr *y) { return expr_math(a, DTYPE_INT, M_MIN, 2, (Expr *[]){ x, y }); }
Expr *int_max(Arena *a, Expr *x, Expr *y) { return expr_math(a, DTYPE_INT, M_MAX, 2, (Expr *[]){ x, y }); }
Expr *int_ceildiv(Arena *a, Expr *x, Expr *y) { return expr_math(a, DTYPE_INT, M_CEILDIV, 2, (Expr *[]){ x, y }); }

// ---- asking

bool expr_is_const(const Expr *x) { return x->kind == E_INT || x->kind == E_FLOAT; }

bool expr_as_int(const Expr *x, int64_t *value)
{
    if (x->kind != E_INT) return false;
    *value = x->integer.value;
    return true;
}

bool expr_is_int(const Expr *x, int64_t value)
{
    int64_t is;
    return expr_as_int(x, &is) && is == value;
}

static int add_slots(Expr ***slots, int at, int max, Expr **items, int n)
{
    for (int i = 0; i < n && at < max; i++) slots[at++] = &items[i];
    return at;
}

int expr_children(Expr *x, Expr ***slots, int max)
{
    int n = 0;
    switch (x->kind) {
    case E_INT:
    case E_FLOAT:
    case E_VAR: return 0;
    case E_LOAD: return add_slots(slots, 0, max, x->load.subs, x->load.buffer->rank);
    case E_UNARY: return add_slots(slots, 0, max, &x->op.a, 1);
    case E_BINARY: n = add_slots(slots, 0, max, &x->op.a, 1); return add_slots(slots, n, max, &x->op.b, 1);
    case E_SELECT:
        n = add_slots(slots, 0, max, &x->select.cond, 1);
        n = add_slots(slots, n, max, &x->select.a, 1);
        return add_slots(slots, n, max, &x->select.b, 1);
    case E_CONVERT:
    case E_BITCAST: return add_slots(slots, 0, max, &x->convert.a, 1);
    case E_MATH: return add_slots(slots, 0, max, x->math.args, x->math.n);
    case E_ATOMIC:
        n = add_slots(slots, 0, max, x->atomic.subs, x->atomic.buffer->rank);
        if (x->atomic.value) n = add_slots(slots, n, max, &x->atomic.value, 1);
        return x->atomic.compare ? add_slots(slots, n, max, &x->atomic.compare, 1) : n;
    case E_CALL: return add_slots(slots, 0, max, x->call.args, x->call.n);
    case E_INDEX:
    case E_ADDRESS: return add_slots(slots, 0, max, &x->index.at, 1);
    }
    return n;
}

bool expr_any(const Expr *x, ExprVisit *visit, void *context)
{
    if (visit(x, context)) return true;
    if (x->kind == E_INT || x->kind == E_FLOAT || x->kind == E_VAR) return false; // most are leaves
    if (x->kind == E_BINARY) return expr_any(x->op.a, visit, context) || expr_any(x->op.b, visit, context);
    Expr **slots[EXPR_SLOTS_MAX];
    const int n = expr_children((Expr *)x, slots, EXPR_SLOTS_MAX);
    for (int i = 0; i < n; i++)
        if (expr_any(*slots[i], visit, context)) return true;
    return false;
}

static bool count_node(const Expr *x, void *left) { return --*(int *)left < 0; }

bool expr_larger(const Expr *x, int most) { return expr_any(x, count_node, &most); }

static bool is_var(const Expr *x, void *var)
{
    return (x->kind == E_VAR && x->var.var == var) ||
           ((x->kind == E_INDEX || x->kind == E_ADDRESS) && x->index.pointer == var);
}

bool expr_uses(const Expr *x, const Var *var) { return expr_any(x, is_var, (void *)var); }

static bool is_load(const Expr *x, void *context) { return x->kind == E_LOAD || x->kind == E_ATOMIC; }

bool expr_loads(const Expr *x) { return expr_any(x, is_load, NULL); }

static bool is_atomic(const Expr *x, void *context) { return x->kind == E_ATOMIC; }

bool expr_has_atomic(const Expr *x) { return expr_any(x, is_atomic, NULL); }

ExprOp expr_mirrored(ExprOp op)
{
    return op == X_LT ? X_GT : op == X_LE ? X_GE : op == X_GT ? X_LT : op == X_GE ? X_LE : op;
}

static bool has_effect(const Expr *x, void *context)
{
    return x->kind == E_ATOMIC || (x->kind == E_CALL && x->call.n >= 0);
}

bool expr_is_pure(const Expr *x) { return !expr_any(x, has_effect, NULL); }

static bool all_equal(Expr *const *x, Expr *const *y, int n)
{
    for (int i = 0; i < n; i++)
        if (!expr_equal(x[i], y[i])) return false;
    return true;
}

bool expr_equal(const Expr *x, const Expr *y)
{
    if (x == y) return true;
    if (x->kind != y->kind || x->type != y->type) return false;
    switch (x->kind) {
    case E_INT: return x->integer.value == y->integer.value;
    case E_FLOAT: return memcmp(&x->real.value, &y->real.value, sizeof(double)) == 0;
    case E_VAR: return x->var.var == y->var.var;
    case E_LOAD: return x->load.buffer == y->load.buffer && all_equal(x->load.subs, y->load.subs, x->load.buffer->rank);
    case E_UNARY: return x->op.op == y->op.op && expr_equal(x->op.a, y->op.a);
    case E_BINARY: return x->op.op == y->op.op && expr_equal(x->op.a, y->op.a) && expr_equal(x->op.b, y->op.b);
    case E_SELECT:
        return expr_equal(x->select.cond, y->select.cond) && expr_equal(x->select.a, y->select.a) &&
               expr_equal(x->select.b, y->select.b);
    case E_CONVERT:
    case E_BITCAST: return expr_equal(x->convert.a, y->convert.a);
    case E_MATH:
        return x->math.fn == y->math.fn && x->math.n == y->math.n && all_equal(x->math.args, y->math.args, x->math.n);
    case E_ATOMIC: return false; // each is an event of its own
    case E_CALL:
        return x->call.n == y->call.n && strcmp(x->call.name, y->call.name) == 0 &&
               all_equal(x->call.args, y->call.args, x->call.n);
    case E_INDEX:
    case E_ADDRESS: return x->index.pointer == y->index.pointer && expr_equal(x->index.at, y->index.at);
    }
    return false;
}

// ---- rewriting

// x with its operands replaced by `parts` (in the order of expr_children), folded anew.
static Expr *rebuild(Arena *a, const Expr *x, Expr **parts)
{
    Expr *made = NULL;
    switch (x->kind) {
    case E_INT:
    case E_FLOAT:
    case E_VAR: assert(!"a leaf has no operands"); break;
    case E_LOAD: made = expr_load(a, x->load.buffer, parts); break;
    case E_UNARY: made = expr_unary(a, x->op.op, parts[0]); break;
    case E_BINARY: made = expr_binary(a, x->op.op, parts[0], parts[1]); break;
    case E_SELECT: made = expr_select(a, parts[0], parts[1], parts[2]); break;
    case E_CONVERT: made = expr_convert(a, x->type, parts[0]); break;
    case E_BITCAST: made = expr_bitcast(a, x->type, parts[0]); break;
    case E_MATH: made = expr_math(a, x->type, x->math.fn, x->math.n, parts); break;
    case E_CALL: made = expr_call(a, x->type, x->call.name, x->call.n, parts); break;
    case E_INDEX: made = expr_index(a, x->index.pointer, parts[0]); break;
    case E_ADDRESS: made = expr_address(a, x->index.pointer, parts[0]); break;
    case E_ATOMIC: {
        const int rank = x->atomic.buffer->rank;
        int next = rank;
        made = NEW(a, Expr, .kind = E_ATOMIC, .type = x->type);
        made->atomic = x->atomic;
        made->atomic.subs = copy_exprs(a, parts, rank);
        if (x->atomic.value) made->atomic.value = parts[next++];
        if (x->atomic.compare) made->atomic.compare = parts[next];
        break;
    }
    }
    // A fold may have returned an operand or a shared leaf: those keep their own spans.
    if (!made->span.source && !expr_is_const(made) && made->kind != E_VAR) made->span = x->span;
    return made;
}

Expr *expr_map(Arena *a, Expr *x, ExprMap *map, void *context)
{
    Expr **slots[EXPR_SLOTS_MAX], *parts[EXPR_SLOTS_MAX];
    const int n = expr_children(x, slots, EXPR_SLOTS_MAX);
    bool changed = false;
    for (int i = 0; i < n; i++) {
        parts[i] = expr_map(a, *slots[i], map, context);
        changed |= parts[i] != *slots[i];
    }
    return map(changed ? rebuild(a, x, parts) : x, context);
}

typedef struct Replacement {
    const Var *var;
    Expr *by;
} Replacement;

static Expr *replace_var(Expr *x, void *context)
{
    const Replacement *const r = context;
    return x->kind == E_VAR && x->var.var == r->var ? r->by : x;
}

Expr *expr_replace(Arena *a, Expr *x, const Var *var, Expr *by)
{
    return expr_map(a, x, replace_var, &(Replacement){ var, by });
}

// An operation that the builders make a constant of.
static Expr *fold_node(Expr *x, void *context)
{
    if (x->kind != E_UNARY && x->kind != E_BINARY && x->kind != E_SELECT && x->kind != E_MATH) return x;
    Expr **slots[EXPR_SLOTS_MAX], *parts[EXPR_SLOTS_MAX];
    const int n = expr_children(x, slots, EXPR_SLOTS_MAX);
    for (int i = 0; i < n; i++) parts[i] = *slots[i];
    Expr *const made = rebuild(context, x, parts);
    return expr_is_const(made) ? made : x;
}

Expr *expr_folded(Arena *a, Expr *x) { return expr_map(a, x, fold_node, a); }
