// SPDX-License-Identifier: MIT
// facts.c - what the compiler learns from `require` and `assume`: bounds and divisors of variables.
//
// What is required holds for the whole launch, so the variables themselves carry it. An assumption holds after its place
// only: there a scalar becomes a new variable of the same value, which carries the fact; the old one stays what it was in
// front. Of shapes and arguments it holds everywhere if every instance comes by.
#include "check/context.h"

enum { SUBJECTS_MAX = 8 };

typedef struct Learning {
    Checker *cx;
    bool assumed;
    Var *from[SUBJECTS_MAX], *to[SUBJECTS_MAX];
    int n;
} Learning;

// ---- whom a fact is about

bool every_instance_comes_by(const Checker *cx)
{
    return !cx->call && !cx->loop && !cx->may_have_left && cx->branch_depth == 0;
}

// A new variable of the same value, which the name stands for until its scope ends.
static Var *renewed(Learning *l, Var *var)
{
    Checker *const cx = l->cx;
    for (int i = 0; i < l->n; i++)
        if (l->from[i] == var) return l->to[i];
    if (l->n == SUBJECTS_MAX) return NULL;
    Var *const made = tile_new_var(cx->kernel, VAR_LOCAL, var->type, var->name, var->span);
    made->lo = made->hi = expr_var(cx->arena, var);
    made->multiple = var->multiple;
    emit(cx, (TileOp){ .kind = T_LET, .span = var->span, .let = { made, expr_var(cx->arena, var) } });
    Entity *const before = cx->names;
    for (const Entity *one = before; one; one = one->next) {
        if (one->kind != ENTITY_VARIABLE || one->var != var) continue;
        Entity *const entity = NEW(cx->arena, Entity, .kind = one->kind);
        *entity = *one;
        entity->var = made;
        show(cx, entity);
    }
    l->from[l->n] = var;
    return l->to[l->n++] = made;
}

static Var *subject(Learning *l, const Expr *x)
{
    if (x->kind != E_VAR || x->type != DTYPE_INT) return NULL;
    Var *const var = x->var.var;
    if (!l->assumed) return var;
    if (var->kind == VAR_SYMBOL || var->kind == VAR_ARGUMENT) return every_instance_comes_by(l->cx) ? var : NULL;
    return var->kind == VAR_LOCAL && !var->assigned ? renewed(l, var) : NULL;
}

// ---- facts

static bool is_itself(const Learning *l, const Var *var, const Expr *bound)
{
    for (int i = 0; i < l->n; i++)
        if (l->to[i] == var && bound->kind == E_VAR && bound->var.var == l->from[i]) return true;
    return false;
}

// var op bound
static void learn_bound(Learning *l, const Expr *x, ExprOp op, Expr *bound)
{
    Arena *const a = l->cx->arena;
    // What is required of shapes stays constant, so that no bound goes round in a circle.
    if (!expr_is_const(bound) &&
        (!l->assumed || x->kind != E_VAR || x->var.var->kind != VAR_LOCAL || !is_stable(bound)))
        return;
    Var *const var = subject(l, x);
    if (!var) return;
    const bool is_lower = op == X_GE || op == X_GT || op == X_EQ, is_upper = op == X_LE || op == X_LT || op == X_EQ;
    if (op == X_GT) bound = int_add(a, bound, int_const(a, 1));
    if (op == X_LT) bound = int_sub(a, bound, int_const(a, 1));
    if (is_lower) var->lo = var->lo && !is_itself(l, var, var->lo) ? int_max(a, var->lo, bound) : bound;
    if (is_upper) var->hi = var->hi && !is_itself(l, var, var->hi) ? int_min(a, var->hi, bound) : bound;
}

// One of the two where no `int` holds both.
static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t both;
    return __builtin_mul_overflow(a / gcd(a, b), b, &both) ? a : both;
}

// x % c == 0
static void learn_multiple(Learning *l, const Expr *x, int64_t c)
{
    Var *const var = c > 1 && c < INT32_MAX ? subject(l, x) : NULL;
    if (var) var->multiple = common_multiple(var->multiple > 1 ? var->multiple : 1, c);
}

// A launch that divides by 0 is refused, and what is required is computed there.
static void learn_divisor(Learning *l, const Expr *x)
{
    if (l->assumed || x->kind != E_BINARY || (x->op.op != X_DIV && x->op.op != X_MOD) || x->type != DTYPE_INT) return;
    const Range r = expr_range(x->op.b);
    if (r.has_lo && r.lo == 0) learn_bound(l, x->op.b, X_GE, int_const(l->cx->arena, 1));
}

static void learn(Learning *l, const Expr *cond)
{
    int64_t c, rest;
    if (cond->kind != E_BINARY) return;
    Expr *const a = cond->op.a, *const b = cond->op.b;
    if (cond->op.op == X_AND) {
        learn(l, a);
        learn(l, b);
        return;
    }
    if (cond->op.op < X_LT || cond->op.op > X_EQ || a->type != DTYPE_INT) return;
    if (cond->op.op == X_EQ && expr_as_int(b, &rest) && rest == 0 && a->kind == E_BINARY && a->op.op == X_MOD &&
        expr_as_int(a->op.b, &c))
        learn_multiple(l, a->op.a, c);
    learn_divisor(l, a);
    learn_divisor(l, b);
    learn_bound(l, a, cond->op.op, b);
    learn_bound(l, b, expr_mirrored(cond->op.op), a);
}

void learn_required(Checker *cx, const Expr *cond) { learn(&(Learning){ .cx = cx }, cond); }

// A build with checks relies on nothing that it tests.
void learn_assumed(Checker *cx, const Expr *cond)
{
    if (!cx->kernel->checked && !cx->sequential) learn(&(Learning){ .cx = cx, .assumed = true }, cond);
}
