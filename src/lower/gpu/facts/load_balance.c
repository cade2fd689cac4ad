// SPDX-License-Identifier: MIT
// load_balance.c - grids whose instances have unequal work: the one coordinate on which the length of their pipelines
// depends.
#include "lower/gpu/facts/load_balance.h"
#include "lower/gpu/facts/info.h"

typedef struct Dependence {
    Lowering *lo;
    const Var *coordinate; // the last one seen
    bool several, loads;   // more than that; lengths are loaded
    bool begins, adds;     // where pipelines begin depends on it, too; instances add to tensors
    int depth;
} Dependence;

typedef struct Definition {
    const Var *var;
    Expr *value;
    int n;
} Definition;

static bool find_definition(Lowering *lo, TileOp *op, void *context)
{
    Definition *const found = context;
    if ((op->kind == T_LET || op->kind == T_SET) && op->let.var == found->var) {
        found->value = op->let.value;
        found->n++;
    }
    return op->kind == T_FORALL;
}

static void see_dependence(Dependence *d, Expr *x);

static void see_local(Dependence *d, const Var *var)
{
    Definition found = { .var = var };
    each_op(d->lo, d->lo->kernel->body, find_definition, &found);
    d->several |= found.n != 1;
    d->depth++;
    if (found.value) see_dependence(d, found.value);
    d->depth--;
}

// What is loaded may depend on any coordinate: lengths of sequences, which the others' order does not touch.
static void see_dependence(Dependence *d, Expr *x)
{
    if (x->kind == E_LOAD || x->kind == E_ATOMIC) {
        d->loads = true;
        return;
    }
    if (x->kind == E_VAR && x->var.var->kind == VAR_GRID) {
        d->several |= d->coordinate && d->coordinate != x->var.var;
        d->coordinate = x->var.var;
    }
    if (x->kind == E_VAR && x->var.var->kind == VAR_LOCAL && d->depth < 16) see_local(d, x->var.var);
    Expr **slots[EXPR_SLOTS_MAX];
    const int n = expr_children(x, slots, COUNT(slots));
    for (int i = 0; i < n; i++) see_dependence(d, *slots[i]);
}

static bool see_pipeline(Lowering *lo, TileOp *op, void *context)
{
    Dependence *const d = context;
    d->adds |= op->kind == T_ATOMIC || op->kind == T_ATOMIC_TILE;
    for (int i = 0; op->kind == T_PIPELINE && i < op->pipeline.n; i++) {
        see_dependence(d, op->pipeline.indices[i].lo);
        d->begins |= d->coordinate != NULL;
        see_dependence(d, op->pipeline.indices[i].hi);
    }
    return false;
}

// -1: none, or several. Where lengths are loaded as well, that must be their end alone (parts of a sequence are alike),
// and instances that add to each other's rows keep their order: what runs at the same time meets in L2.
static int imbalanced_coordinate(Lowering *lo, bool *adds)
{
    Dependence d = { .lo = lo };
    each_op(lo, lo->kernel->body, see_pipeline, &d);
    *adds = d.adds;
    if (d.several || (d.loads && (d.adds || d.begins))) return -1;
    for (int i = 0; i < lo->kernel->n_grid; i++)
        if (lo->kernel->grid[i].var == d.coordinate) return i;
    return -1;
}

// The coordinate that the order goes by, -1: none; and whether its instances are taken in pairs.
int find_imbalance(Lowering *lo, bool *in_pairs)
{
    bool adds = false;
    const bool in_order = lo->kernel->rasterize > 1 || lo->kernel->n_grid <= 1;
    const int coordinate = in_order ? -1 : imbalanced_coordinate(lo, &adds);
    *in_pairs = coordinate >= 0 && adds && lo->cluster == 1;
    return coordinate;
}
