// SPDX-License-Identifier: MIT
// open_views.c - an access through a view that only leaves out dimensions becomes one of what it is a view of.
//
//     view Ob = O[b];    Ob[m*64 +: 64][h] = o;          O[b][m*64 +: 64][h] = o;
//
// They are the same bytes with the same bounds, but copies in hardware and rows that are fetched ahead are found by the
// subscripts of a tensor.
//
// A window of all of an extent is no window, though a scalar may have the extent's value: `int len = S; view Ob = O[b][0 +: len];`.
//
// before: simplified    after: no op accesses a view whose base has an index or all of the extent in each dimension
// never:  opens a window, whose bounds are its own, another shape or another type, or an index that is computed anew
#include "passes/passes.h"

typedef struct Views {
    Arena *arena;
    const Var **same; // by id: of a scalar that is declared with the value of one that never changes, that one
} Views;

static bool changes(const Expr *x, void *context)
{
    (void)context;
    return x->kind == E_LOAD || x->kind == E_ATOMIC || x->kind == E_CALL || (x->kind == E_VAR && x->var.var->assigned);
}

static bool is_extent(const Views *views, const Expr *width, const Expr *extent)
{
    if (expr_equal(width, extent)) return true;
    if (width->kind != E_VAR || extent->kind != E_VAR) return false;
    const Var *var = width->var.var;
    while (var && var != extent->var.var) var = views->same[var->id];
    return var != NULL;
}

static bool is_all(const Views *views, const Buffer *base, const Sub *sub, int d)
{
    return expr_is_int(sub->start, 0) && (!sub->step || expr_is_int(sub->step, 1)) &&
           is_extent(views, sub->width, base->shape[d]);
}

static bool is_open(const Views *views, const Buffer *v)
{
    int ranges = 0;
    if (v->kind != BUFFER_VIEW || v->type != v->base.buffer->type) return false;
    for (int d = 0; d < v->base.buffer->rank; d++) {
        const Sub *const sub = &v->base.subs[d];
        if (!sub->is_range && expr_any(sub->start, changes, NULL)) return false;
        if (!sub->is_range) continue;
        if (!is_all(views, v->base.buffer, sub, d) || ranges == v->rank || !expr_equal(v->shape[ranges], sub->width))
            return false;
        ranges++;
    }
    return ranges == v->rank;
}

static void open_region(const Views *views, Region *r)
{
    while (is_open(views, r->buffer)) {
        const Region *const base = &r->buffer->base;
        Sub *const subs = NEW_ARRAY(views->arena, Sub, base->buffer->rank + 1);
        for (int d = 0, range = 0; d < base->buffer->rank; d++)
            subs[d] = base->subs[d].is_range ? r->subs[range++] : base->subs[d];
        *r = (Region){ base->buffer, subs, r->span };
    }
}

static void open_element(const Views *views, Buffer **buffer, Expr ***subs)
{
    while (is_open(views, *buffer)) {
        const Region *const base = &(*buffer)->base;
        Expr **const opened = NEW_ARRAY(views->arena, Expr *, base->buffer->rank + 1);
        for (int d = 0, range = 0; d < base->buffer->rank; d++)
            opened[d] = base->subs[d].is_range ? (*subs)[range++] : base->subs[d].start;
        *buffer = base->buffer;
        *subs = opened;
    }
}

static Expr *open_load(Expr *x, void *context)
{
    const Views *const views = context;
    if (x->kind != E_LOAD || !is_open(views, x->load.buffer)) return x;
    Buffer *buffer = x->load.buffer;
    Expr **subs = x->load.subs;
    open_element(views, &buffer, &subs);
    Expr *const load = expr_load(views->arena, buffer, subs);
    load->span = x->span;
    return load;
}

static void open_slot(Expr **slot, void *context)
{
    const Views *const views = context;
    *slot = expr_map(views->arena, *slot, open_load, context);
}

static void open_op(Views *views, TileOp *op)
{
    tile_each_expr(op, open_slot, views);
    switch ((int)op->kind) {
    case T_STORE: open_element(views, &op->store.buffer, &op->store.subs); break;
    case T_UPDATE:
        if (op->update.buffer) open_element(views, &op->update.buffer, &op->update.subs);
        break;
    case T_ATOMIC: open_element(views, &op->atomic.buffer, &op->atomic.subs); break;
    case T_FILL: open_region(views, &op->fill.dst); break;
    case T_COPY:
    case T_ATOMIC_TILE:
        open_region(views, &op->copy.dst);
        open_region(views, &op->copy.src);
        break;
    case T_MATMUL:
        open_region(views, &op->matmul.dst);
        open_region(views, &op->matmul.a.region);
        open_region(views, &op->matmul.b.region);
        break;
    case T_SCAN:
        open_region(views, &op->scan.dst);
        open_region(views, &op->scan.src);
        break;
    default: break;
    }
}

static void open_in(Views *views, TileOp *op)
{
    for (; op; op = op->next) {
        open_op(views, op);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) open_in(views, *body);
    }
}

static void find_same(Views *views, TileOp *op)
{
    for (; op; op = op->next) {
        if (op->kind == T_LET && op->let.value && !op->let.var->assigned && op->let.value->kind == E_VAR &&
            !op->let.value->var.var->assigned)
            views->same[op->let.var->id] = op->let.value->var.var;
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) find_same(views, *body);
    }
}

void open_views(TileKernel *kernel)
{
    if (kernel->checked) return;
    Views views = { .arena = kernel->arena, .same = NEW_ARRAY(kernel->arena, const Var *, kernel->n_vars + 1) };
    find_same(&views, kernel->body);
    open_in(&views, kernel->body);
}
