// SPDX-License-Identifier: MIT
// lift_branches.c - a branch that is the same for all iterations of a forall, and all of its body, stands around it.
//
// What else is asked of a forall (is it a copy, are its rows fetched ahead) is asked of its body, in which a branch hides the
// access.
//
//     forall (i : BM) if (c) a[i] = X[row[i]][k +: BK];     =>     if (c) forall (i : BM) a[i] = X[row[i]][k +: BK];
//
// before: simplified    after: no forall's body is one `if` of scalars that the forall neither declares nor changes
// never:  an `if` with another side; conditions that read tiles or tensors, or have effects
#include "passes/passes.h"

static bool is_index(const Expr *x, void *forall)
{
    const TileOp *const op = forall;
    if (x->kind == E_LOAD) return true;
    for (int i = 0; x->kind == E_VAR && i < op->forall.n; i++)
        if (op->forall.indices[i].var == x->var.var) return true;
    return false;
}

static bool changes(TileOp *op, const Expr *cond)
{
    TileOp **body;
    for (; op; op = op->next) {
        const Var *const var = op->kind == T_SET ? op->let.var : op->kind == T_UPDATE ? op->update.var : NULL;
        if (var && expr_uses(cond, var)) return true;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
            if (changes(*body, cond)) return true;
    }
    return false;
}

static bool is_same_for_all(const TileOp *forall)
{
    const TileOp *const only = forall->forall.body;
    if (!only || only->next || only->kind != T_IF || only->branch.otherwise) return false;
    Expr *const cond = only->branch.cond;
    return expr_is_pure(cond) && !expr_any(cond, is_index, (void *)forall) && !changes(only->branch.then, cond);
}

static void lift(Arena *arena, TileOp *forall)
{
    TileOp *const branch = forall->forall.body, *const inside = NEW(arena, TileOp, .kind = T_FORALL);
    *inside = *forall;
    inside->next = NULL;
    inside->stage = 0;
    inside->forall.body = branch->branch.then;
    forall->kind = T_IF;
    forall->branch.cond = branch->branch.cond;
    forall->branch.then = inside;
    forall->branch.otherwise = NULL;
}

static void lift_in(Arena *arena, TileOp *op)
{
    TileOp **body;
    for (; op; op = op->next) {
        if (op->kind == T_FORALL && is_same_for_all(op)) lift(arena, op);
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) lift_in(arena, *body);
    }
}

void lift_branches(TileKernel *kernel)
{
    if (!kernel->checked) lift_in(kernel->arena, kernel->body);
}
