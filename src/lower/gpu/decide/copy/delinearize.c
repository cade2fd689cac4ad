// SPDX-License-Identifier: MIT
// delinearize.c - subscripts by arithmetic: the components of an index that counts several dimensions through together, by steps.
//
// before: scalars are replaced by what they stand for       after: nothing has changed; the answers are the caller's
#include "lower/gpu/decide/copy/delinearize.h"
#include "lower/gpu/facts/box.h"

// ---- components: p / by % count

static bool divide_component(IndexComponent *component, const Expr *divisor)
{
    Factors by = { .constant = 1 };
    return is_known_at_launch(divisor) && add_factors(&by, divisor) &&
           (!component->has_count || divide_factors(&component->count, &by)) && add_all_factors(&component->by, &by);
}

// x % a % b is x % b where b divides a.
static bool limit_component(IndexComponent *component, const Expr *count)
{
    Factors factors = { .constant = 1 }, before = component->count;
    if (!is_known_at_launch(count) || !add_factors(&factors, count) ||
        (component->has_count && !divide_factors(&before, &factors)))
        return false;
    component->count = factors;
    component->has_count = true;
    return true;
}

// Of an index that counts with `row`.
static bool match_component(Arena *a, Expr *x, Var *row, IndexComponent *component)
{
    if (x->kind == E_BINARY && (x->op.op == X_DIV || x->op.op == X_MOD))
        return match_component(a, x->op.a, row, component) &&
               (x->op.op == X_DIV ? divide_component(component, x->op.b) : limit_component(component, x->op.b));
    int64_t coefficient;
    Expr *rest;
    *component = (IndexComponent){ .p = x, .by = { .constant = 1 } };
    if (!expr_affine(a, x, &row, 1, &coefficient, &rest) || coefficient < 1 || expr_uses(rest, row)) return false;
    component->coefficient = coefficient;
    return expr_at_least(x, int_const(a, 0));
}

typedef struct Columns {
    Arena *arena;
    Var *column;
    int64_t n;
} Columns;

static Expr *split_quotient(Expr *x, void *context)
{
    const Columns *const c = context;
    Arena *const a = c->arena;
    int64_t coefficient;
    Expr *first;
    if (x->kind != E_BINARY || (x->op.op != X_DIV && x->op.op != X_MOD) || expr_multiple(x->op.b) % c->n != 0 ||
        !expr_affine(a, x->op.a, &c->column, 1, &coefficient, &first) || coefficient != 1 ||
        expr_uses(first, c->column) || expr_multiple(first) % c->n != 0 || !expr_at_least(first, int_const(a, 0)))
        return x;
    Expr *const split = expr_binary(a, x->op.op, first, x->op.b);
    return x->op.op == X_DIV ? split : int_add(a, split, expr_var(a, c->column));
}

Expr *split_columns(Arena *a, Expr *x, Var *column, int64_t columns)
{
    return expr_map(a, x, split_quotient, &(Columns){ a, column, columns });
}

// ---- a subscript: component*step + what is the same for all rows

bool add_terms(Terms *terms, Expr *x, bool minus)
{
    if (x->kind == E_BINARY && (x->op.op == X_ADD || x->op.op == X_SUB))
        return add_terms(terms, x->op.a, minus) && add_terms(terms, x->op.b, minus != (x->op.op == X_SUB));
    if (terms->n == TERMS_MAX) return false;
    terms->list[terms->n++] = (Term){ x, minus };
    return true;
}

Expr *add_term(Arena *a, Expr *sum, const Term *term)
{
    return term->minus ? int_sub(a, sum, term->x) : int_add(a, sum, term->x);
}

bool match_step(Arena *a, Expr *x, Var *row, IndexComponent *component, Expr **step)
{
    *step = int_const(a, 1);
    if (x->kind == E_BINARY && x->op.op == X_MUL) {
        const bool left = expr_uses(x->op.a, row);
        *step = left ? x->op.b : x->op.a;
        x = left ? x->op.a : x->op.b;
    }
    return is_known_at_launch(*step) && match_component(a, x, row, component);
}
