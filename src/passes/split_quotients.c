// SPDX-License-Identifier: MIT
// split_quotients.c - a forall over groups of columns gets an index for the group.
//
// Scales of 128 columns each are read as S[d / 128]: of a vector of columns that gathers one value sixteen times. With
// d = group*128 + column the quotient is the group, which the innermost loop does not change.
//
// before: simplified    after: where a forall divided an index from 0 to a constant by a divisor of its extent that fills
//                       vectors, or took the remainder, each is an index of its own
// never:  touches a body with anything but scalars and stores, whose order may matter (reductions, atomics)
#include "passes/passes.h"

enum { SHORTEST_GROUP = 16 };

typedef struct Split {
    TileKernel *kernel;
    const Var *index;
    int64_t extent, divisor;
    Var *group, *column;
} Split;

static bool is_quotient(const Split *s, const Expr *x, int64_t *divisor)
{
    return x->kind == E_BINARY && (x->op.op == X_DIV || x->op.op == X_MOD) && x->op.a->kind == E_VAR &&
           x->op.a->var.var == s->index && expr_as_int(x->op.b, divisor);
}

static bool find_quotient(const Expr *x, void *context)
{
    Split *const s = context;
    int64_t divisor;
    if (!is_quotient(s, x, &divisor) || divisor < SHORTEST_GROUP) return false;
    if (divisor >= s->extent || s->extent % divisor != 0) return false;
    s->divisor = divisor;
    return true;
}

static void find_in_slot(Expr **slot, void *context)
{
    Split *const s = context;
    if (!s->divisor) expr_any(*slot, find_quotient, s);
}

static Expr *replace_quotient(Expr *x, void *context)
{
    const Split *const s = context;
    int64_t divisor;
    if (!is_quotient(s, x, &divisor) || divisor != s->divisor) return x;
    return expr_var(s->kernel->arena, x->op.op == X_DIV ? s->group : s->column);
}

static void replace_in_slot(Expr **slot, void *context)
{
    const Split *const s = context;
    Arena *const a = s->kernel->arena;
    Expr *const first = int_mul(a, expr_var(a, s->group), int_const(a, s->divisor));
    Expr *const without = expr_map(a, *slot, replace_quotient, context);
    *slot = expr_replace(a, without, s->index, int_add(a, first, expr_var(a, s->column)));
}

static bool only_stores(const TileOp *op)
{
    for (; op; op = op->next)
        if (op->kind == T_LET ? op->let.var->lo || op->let.var->hi : op->kind != T_STORE) return false;
    return true;
}

static LoopIndex counting(Split *s, Var **var, const char *name, int64_t extent)
{
    Arena *const a = s->kernel->arena;
    *var = tile_new_var(s->kernel, s->index->kind, s->index->type, name, s->index->span);
    (*var)->lo = int_const(a, 0);
    (*var)->hi = int_const(a, extent - 1);
    return (LoopIndex){ *var, int_const(a, 0), int_const(a, extent) };
}

static bool split_index(TileKernel *kernel, TileOp *op, int at)
{
    const LoopIndex *const index = &op->forall.indices[at];
    Split s = { .kernel = kernel, .index = index->var };
    int64_t lo;
    if (!expr_as_int(index->lo, &lo) || lo != 0 || !expr_as_int(index->hi, &s.extent)) return false;
    for (TileOp *inner = op->forall.body; inner; inner = inner->next) tile_each_expr(inner, find_in_slot, &s);
    if (!s.divisor) return false;
    LoopIndex *const indices = NEW_ARRAY(kernel->arena, LoopIndex, op->forall.n + 1);
    for (int i = 0; i < op->forall.n; i++) indices[i + (i > at)] = op->forall.indices[i];
    indices[at] = counting(&s, &s.group, "group", s.extent / s.divisor);
    indices[at + 1] = counting(&s, &s.column, index->var->name, s.divisor);
    op->forall.indices = indices;
    op->forall.n++;
    for (TileOp *inner = op->forall.body; inner; inner = inner->next) tile_each_expr(inner, replace_in_slot, &s);
    return true;
}

static void split_block(TileKernel *kernel, TileOp *op)
{
    for (; op; op = op->next) {
        if (op->kind == T_FORALL && only_stores(op->forall.body))
            for (int at = 0; at < op->forall.n && op->forall.n < MAX_RANK; at++) split_index(kernel, op, at);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) split_block(kernel, *body);
    }
}

void split_quotients(TileKernel *kernel)
{
    if (!kernel->checked) split_block(kernel, kernel->body);
}
