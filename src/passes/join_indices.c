// SPDX-License-Identifier: MIT
// join_indices.c - two indices of a forall that only occur as one number become that number.
//
//     forall (o : 512, i : 8) x[o*8 + i] = ..      forall (j : 4096) x[j] = ..
//
// How iterations are divided among lanes and vectors is the lowerings' choice; they choose by index.
//
// before: simplified    after: no forall has indices a, and b from 0 to a constant n, that occur as c*(a*n + b) + rest alone
// never:  changes the order of what an iteration does; iterations have none
#include "passes/passes.h"

typedef struct Pair {
    Arena *arena;
    Var *a, *b;
    int64_t n;
    bool apart; // something uses them otherwise
} Pair;

static bool is_joint(const Pair *p, Expr *x)
{
    Var *const vars[] = { p->a, p->b };
    int64_t coefficients[2];
    Expr *rest;
    return x->type == DTYPE_INT && expr_affine(p->arena, x, vars, 2, coefficients, &rest) &&
           coefficients[0] == p->n * coefficients[1];
}

static void see_expr(Pair *p, Expr *x)
{
    Expr **slots[EXPR_SLOTS_MAX];
    if (p->apart || !(expr_uses(x, p->a) || expr_uses(x, p->b)) || is_joint(p, x)) return;
    const int n = expr_children(x, slots, EXPR_SLOTS_MAX);
    p->apart |= n == 0 || n == EXPR_SLOTS_MAX;
    for (int i = 0; i < n; i++) see_expr(p, *slots[i]);
}

static void see_slot(Expr **slot, void *context) { see_expr(context, *slot); }

static void see_bounds(Pair *p, const Var *var)
{
    if (var->lo) see_expr(p, var->lo);
    if (var->hi) see_expr(p, var->hi);
}

static void see_block(Pair *p, TileOp *op)
{
    for (; op && !p->apart; op = op->next) {
        tile_each_expr(op, see_slot, p);
        if (op->kind == T_LET) see_bounds(p, op->let.var);
        if (op->kind == T_FOR) see_bounds(p, op->for_.var);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) see_block(p, *body);
    }
}

// ---- joining: with c*(a*n + b) everywhere, a is 0 and b the number

typedef struct Joining {
    const Pair *pair;
    Expr *zero, *both;
} Joining;

// The number first: in between the expression has more values than it can have, and never fewer, so that nothing folds which
// should not.
static Expr *joined(const Joining *j, Expr *x)
{
    return expr_replace(j->pair->arena, expr_replace(j->pair->arena, x, j->pair->b, j->both), j->pair->a, j->zero);
}

static void join_slot(Expr **slot, void *context) { *slot = joined(context, *slot); }

static void join_bounds(const Joining *j, Var *var)
{
    if (var->lo) var->lo = joined(j, var->lo);
    if (var->hi) var->hi = joined(j, var->hi);
}

static void join_block(Joining *j, TileOp *op)
{
    for (; op; op = op->next) {
        tile_each_expr(op, join_slot, j);
        if (op->kind == T_LET) join_bounds(j, op->let.var);
        if (op->kind == T_FOR) join_bounds(j, op->for_.var);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) join_block(j, *body);
    }
}

static void join(TileKernel *kernel, TileOp *op, int at, int other, const Pair *p)
{
    Arena *const a = kernel->arena;
    LoopIndex *const index = &op->forall.indices[at];
    Expr *const extent = int_mul(a, index->hi, int_const(a, p->n));
    Var *const var = tile_new_var(kernel, VAR_INDEX, DTYPE_INT, index->var->name, index->var->span);
    var->lo = int_const(a, 0);
    var->hi = int_sub(a, extent, int_const(a, 1));
    Joining j = { p, int_const(a, 0), expr_var(a, var) };
    join_block(&j, op->forall.body);
    *index = (LoopIndex){ var, int_const(a, 0), extent };
    for (int i = other; i + 1 < op->forall.n; i++) op->forall.indices[i] = op->forall.indices[i + 1];
    op->forall.n--;
}

static bool join_one(TileKernel *kernel, TileOp *op)
{
    for (int at = 0; at < op->forall.n; at++)
        for (int other = 0; other < op->forall.n; other++) {
            const LoopIndex *const a = &op->forall.indices[at], *const b = &op->forall.indices[other];
            Pair p = { .arena = kernel->arena, .a = a->var, .b = b->var };
            if (at == other || !expr_is_int(a->lo, 0) || !expr_is_int(b->lo, 0) || !expr_as_int(b->hi, &p.n) || p.n < 2)
                continue;
            see_block(&p, op->forall.body);
            if (p.apart) continue;
            join(kernel, op, at, other, &p);
            return true;
        }
    return false;
}

static void join_in(TileKernel *kernel, TileOp *op)
{
    for (; op; op = op->next) {
        if (op->kind == T_FORALL)
            while (join_one(kernel, op)) {
            }
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) join_in(kernel, *body);
    }
}

void join_indices(TileKernel *kernel)
{
    if (!kernel->checked) join_in(kernel, kernel->body);
}
