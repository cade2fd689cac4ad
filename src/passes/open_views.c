// SPDX-License-Identifier: MIT
// open_views.c - an access through a view that only leaves out dimensions becomes one of what it is a view of.
//
//     view Ob = O[b];    Ob[m*64 +: 64][h] = o;          O[b][m*64 +: 64][h] = o;
//
// They are the same bytes with the same bounds, but copies in hardware and rows that are fetched ahead are found by the
// subscripts of a tensor.
//
// before: simplified    after: no op accesses a view whose base has an index or all of the extent in each dimension
// never:  opens a window, whose bounds are its own, another shape or another type, or an index that is computed anew
#include "passes/passes.h"

static bool changes(const Expr *x, void *context)
{
    (void)context;
    return x->kind == E_LOAD || x->kind == E_ATOMIC || x->kind == E_CALL || (x->kind == E_VAR && x->var.var->assigned);
}

static bool is_all(const Buffer *base, const Sub *sub, int d)
{
    return expr_is_int(sub->start, 0) && (!sub->step || expr_is_int(sub->step, 1)) && expr_equal(sub->width, base->shape[d]);
}

static bool is_open(const Buffer *v)
{
    int ranges = 0;
    if (v->kind != BUFFER_VIEW || v->type != v->base.buffer->type) return false;
    for (int d = 0; d < v->base.buffer->rank; d++) {
        const Sub *const sub = &v->base.subs[d];
        if (!sub->is_range && expr_any(sub->start, changes, NULL)) return false;
        if (!sub->is_range) continue;
        if (!is_all(v->base.buffer, sub, d) || ranges == v->rank || !expr_equal(v->shape[ranges], sub->width)) return false;
        ranges++;
    }
    return ranges == v->rank;
}

static void open_region(Arena *arena, Region *r)
{
    while (is_open(r->buffer)) {
        const Region *const base = &r->buffer->base;
        Sub *const subs = NEW_ARRAY(arena, Sub, base->buffer->rank + 1);
        for (int d = 0, range = 0; d < base->buffer->rank; d++)
            subs[d] = base->subs[d].is_range ? r->subs[range++] : base->subs[d];
        *r = (Region){ base->buffer, subs, r->span };
    }
}

static void open_element(Arena *arena, Buffer **buffer, Expr ***subs)
{
    while (is_open(*buffer)) {
        const Region *const base = &(*buffer)->base;
        Expr **const opened = NEW_ARRAY(arena, Expr *, base->buffer->rank + 1);
        for (int d = 0, range = 0; d < base->buffer->rank; d++)
            opened[d] = base->subs[d].is_range ? (*subs)[range++] : base->subs[d].start;
        *buffer = base->buffer;
        *subs = opened;
    }
}

static Expr *open_load(Expr *x, void *context)
{
    if (x->kind != E_LOAD || !is_open(x->load.buffer)) return x;
    Buffer *buffer = x->load.buffer;
    Expr **subs = x->load.subs;
    open_element(context, &buffer, &subs);
    Expr *const load = expr_load(context, buffer, subs);
    load->span = x->span;
    return load;
}

static void open_slot(Expr **slot, void *arena) { *slot = expr_map(arena, *slot, open_load, arena); }

static void open_op(Arena *arena, TileOp *op)
{
    tile_each_expr(op, open_slot, arena);
    switch ((int)op->kind) {
    case T_STORE: open_element(arena, &op->store.buffer, &op->store.subs); break;
    case T_UPDATE:
        if (op->update.buffer) open_element(arena, &op->update.buffer, &op->update.subs);
        break;
    case T_ATOMIC: open_element(arena, &op->atomic.buffer, &op->atomic.subs); break;
    case T_FILL: open_region(arena, &op->fill.dst); break;
    case T_COPY:
    case T_ATOMIC_TILE:
        open_region(arena, &op->copy.dst);
        open_region(arena, &op->copy.src);
        break;
    case T_MATMUL:
        open_region(arena, &op->matmul.dst);
        open_region(arena, &op->matmul.a.region);
        open_region(arena, &op->matmul.b.region);
        break;
    case T_SCAN:
        open_region(arena, &op->scan.dst);
        open_region(arena, &op->scan.src);
        break;
    default: break;
    }
}

static void open_in(Arena *arena, TileOp *op)
{
    for (; op; op = op->next) {
        open_op(arena, op);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) open_in(arena, *body);
    }
}

void open_views(TileKernel *kernel)
{
    if (!kernel->checked) open_in(kernel->arena, kernel->body);
}
