// SPDX-License-Identifier: MIT
// several_writers.c - which `out` tensors a kernel may write the same element of in several places.
//
// Then the last statement must win, whichever threads run the two, so that they synchronise in between (hazards.c). Two
// places are apart if along one dimension all that the one writes lies below all that the other does, for the same
// instance and any iterations of the loops around them. Of one place, each element is taken to be the same thread's in every
// turn. Tensors that whole tiles are added to, and that nothing else accesses, need no order: sums come out in any.
#include "lower/gpu/facts/lowering.h"
#include "lower/gpu/decide/pipeline/several_writers.h"
#include "lower/gpu/facts/info.h"

typedef struct Write {
    TileUse use;
    TileOp *op;
} Write;
typedef struct Writes {
    Lowering *lo;
    VEC(Write) list;
    TileOp *op;
} Writes;

static void note_write(const TileUse *use, void *context)
{
    Writes *const writes = context;
    const Buffer *const root = buffer_root(use->buffer);
    if (root->kind == BUFFER_TENSOR && root->access == ACCESS_OUT && (use->writes || use->atomic))
        VEC_PUSH(writes->lo->arena, &writes->list, ((Write){ *use, writes->op }));
}

static bool note_inside(Lowering *lo, TileOp *op, void *context)
{
    tile_uses(op, note_write, context);
    return false;
}

// What one forall writes is its own iterations' matter: it is one place.
static void collect(Writes *writes, TileOp *block)
{
    for (TileOp *op = block; op; op = op->next) {
        writes->op = op;
        if (op->kind == T_FORALL) {
            each_op(writes->lo, op->forall.body, note_inside, writes);
            continue;
        }
        tile_uses(op, note_write, writes);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) collect(writes, *body);
    }
}

// ---- apart?

static bool is_load(const Expr *x, void *context)
{
    return x->kind == E_LOAD || x->kind == E_ATOMIC || x->kind == E_CALL;
}

// A name of this turn may have another value in the turn that the other side is compared in.
static Expr *another_turn(Expr *x, void *context)
{
    Lowering *const lo = context;
    if (x->kind != E_VAR || (x->var.var->kind != VAR_INDEX && x->var.var->kind != VAR_LOCAL)) return x;
    Var *const var = tile_new_var(lo->kernel, VAR_LOCAL, x->var.var->type, x->var.var->name, x->span);
    var->lo = x->var.var->lo;
    var->hi = x->var.var->hi;
    return expr_var(lo->arena, var);
}

// The least and the most along one dimension; false: not known.
static bool reach(Lowering *lo, const TileUse *use, int d, Expr **first, Expr **last)
{
    Arena *const a = lo->arena;
    const Sub *const sub = use->region ? &use->region->subs[d] : NULL;
    *first = *last = sub ? sub->start : use->subs[d];
    if (sub && sub->is_range) {
        Expr *const more = int_sub(a, sub->width, int_const(a, 1));
        *last = int_add(a, *first, sub->step ? int_mul(a, more, sub->step) : more);
    }
    return !expr_any(*first, is_load, NULL) && !expr_any(*last, is_load, NULL);
}

static bool are_apart(Lowering *lo, const TileUse *x, const TileUse *y)
{
    if (x->buffer != y->buffer || (!x->region && !x->subs) || (!y->region && !y->subs)) return false;
    for (int d = 0; d < x->buffer->rank; d++) {
        Expr *first[2], *last[2];
        if (!reach(lo, x, d, &first[0], &last[0]) || !reach(lo, y, d, &first[1], &last[1])) continue;
        first[1] = expr_map(lo->arena, first[1], another_turn, lo);
        last[1] = expr_map(lo->arena, last[1], another_turn, lo);
        Expr *const one = int_const(lo->arena, 1);
        if (expr_at_least(first[1], int_add(lo->arena, last[0], one)) ||
            expr_at_least(first[0], int_add(lo->arena, last[1], one)))
            return true;
    }
    return false;
}

// ---- only added to

typedef struct Sums {
    bool *all;
    bool adds;
} Sums;

static void note_sum(const TileUse *use, void *context)
{
    const Sums *const sums = context;
    if (!sums->adds || !use->atomic) sums->all[buffer_root(use->buffer)->id] = false;
}

static bool note_sums(Lowering *lo, TileOp *op, void *context)
{
    Sums *const sums = context;
    sums->adds = op->kind == T_ATOMIC_TILE;
    tile_uses(op, note_sum, sums);
    return false;
}

const bool *find_sums(Lowering *lo)
{
    Sums sums = { .all = NEW_ARRAY(lo->arena, bool, lo->kernel->n_buffers + 1) };
    memset(sums.all, 1, sizeof(bool) * (size_t)(lo->kernel->n_buffers + 1));
    each_op(lo, lo->kernel->body, note_sums, &sums);
    return sums.all;
}

const bool *find_several_writers(Lowering *lo)
{
    if (lo->several_writers) return lo->several_writers;
    bool *const several_writers = NEW_ARRAY(lo->arena, bool, lo->kernel->n_buffers + 1);
    Writes writes = { .lo = lo };
    collect(&writes, lo->kernel->body);
    for (int i = 0; i < writes.list.count; i++)
        for (int j = 0; j < i; j++) {
            const Write *const x = &writes.list.items[i], *const y = &writes.list.items[j];
            Buffer *const root = buffer_root(x->use.buffer);
            if (x->op != y->op && buffer_root(y->use.buffer) == root && !several_writers[root->id])
                several_writers[root->id] = !are_apart(lo, &x->use, &y->use);
        }
    return lo->several_writers = several_writers;
}
