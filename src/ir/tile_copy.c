// SPDX-License-Identifier: MIT
// tile_copy.c - copying a block of Tile IR, as a pass needs it that keeps two versions of a statement.
#include "ir/tile.h"

typedef struct VarPair {
    const Var *from;
    Var *to;
} VarPair;
typedef struct BufferPair {
    const Buffer *from;
    Buffer *to;
} BufferPair;
typedef struct Copier {
    TileKernel *kernel;
    Arena *arena;
    VEC(VarPair) vars; // declared inside the block
    VEC(BufferPair) buffers;
} Copier;

static Expr *copy_expr(Copier *c, Expr *x);
static Region copy_region(Copier *c, const Region *r);

static Var *copied_var(const Copier *c, Var *var)
{
    for (int i = c->vars.count - 1; i >= 0; i--)
        if (c->vars.items[i].from == var) return c->vars.items[i].to;
    return var;
}

static Var *declare_copy(Copier *c, Var *var)
{
    Var *const copy = tile_new_var(c->kernel, var->kind, var->type, var->name, var->span);
    const int id = copy->id;
    *copy = *var;
    copy->id = id;
    if (var->lo) copy->lo = copy_expr(c, var->lo);
    if (var->hi) copy->hi = copy_expr(c, var->hi);
    VEC_PUSH(c->arena, &c->vars, (VarPair){ var, copy });
    return copy;
}

static Buffer *declare_buffer_copy(Copier *c, Buffer *b)
{
    Buffer *const copy = tile_new_buffer(c->kernel, b->kind, b->type, b->name, b->rank, b->span);
    const int id = copy->id;
    *copy = *b;
    copy->id = id;
    VEC_PUSH(c->arena, &c->buffers, (BufferPair){ b, copy });
    return copy;
}

static bool is_declared_inside(const Expr *x, void *context)
{
    const Copier *const c = context;
    return x->kind == E_VAR && copied_var(c, x->var.var) != x->var.var;
}

static void note_inside(Expr **slot, void *context)
{
    struct {
        Copier *c;
        bool found;
    } *const search = context;
    search->found |= expr_any(*slot, is_declared_inside, search->c);
}

// A view is copied if its base or anything it is computed from was.
static Buffer *copied_buffer(Copier *c, Buffer *b)
{
    for (int i = c->buffers.count - 1; i >= 0; i--)
        if (c->buffers.items[i].from == b) return c->buffers.items[i].to;
    if (b->kind != BUFFER_VIEW) return b;
    struct {
        Copier *c;
        bool found;
    } search = { c, copied_buffer(c, b->base.buffer) != b->base.buffer };
    buffer_each_expr(b, note_inside, &search);
    if (!search.found) return b;
    Buffer *const copy = declare_buffer_copy(c, b);
    for (int d = 0; d < b->rank; d++) copy->shape[d] = copy_expr(c, b->shape[d]);
    copy->base = copy_region(c, &b->base);
    return copy;
}

static Expr *copy_node(Expr *x, void *context)
{
    Copier *const c = context;
    if (x->kind == E_VAR) {
        Var *const var = copied_var(c, x->var.var);
        return var == x->var.var ? x : expr_var(c->arena, var);
    }
    if (x->kind == E_LOAD) {
        Buffer *const buffer = copied_buffer(c, x->load.buffer);
        if (buffer == x->load.buffer) return x;
        Expr *const load = expr_load(c->arena, buffer, x->load.subs);
        load->span = x->span;
        return load;
    }
    if (x->kind == E_ATOMIC) {
        Expr *const copy = NEW(c->arena, Expr, .kind = E_ATOMIC, .type = x->type, .span = x->span);
        copy->atomic = x->atomic;
        copy->atomic.buffer = copied_buffer(c, x->atomic.buffer);
        return copy;
    }
    return x;
}

static Expr *copy_expr(Copier *c, Expr *x) { return x ? expr_map(c->arena, x, copy_node, c) : NULL; }

static Expr **copy_exprs(Copier *c, Expr *const *items, int n)
{
    Expr **const copy = NEW_ARRAY(c->arena, Expr *, n > 0 ? n : 1);
    for (int i = 0; i < n; i++) copy[i] = copy_expr(c, items[i]);
    return copy;
}

static Region copy_region(Copier *c, const Region *r)
{
    Region copy = { copied_buffer(c, r->buffer), NEW_ARRAY(c->arena, Sub, r->buffer->rank + 1), r->span };
    for (int d = 0; d < r->buffer->rank; d++)
        copy.subs[d] = (Sub){ r->subs[d].is_range, copy_expr(c, r->subs[d].start), copy_expr(c, r->subs[d].width),
                              copy_expr(c, r->subs[d].step) };
    return copy;
}

static LoopIndex *copy_indices(Copier *c, const LoopIndex *indices, int n)
{
    LoopIndex *const copy = NEW_ARRAY(c->arena, LoopIndex, n + 1);
    for (int i = 0; i < n; i++) {
        copy[i].lo = copy_expr(c, indices[i].lo);
        copy[i].hi = copy_expr(c, indices[i].hi);
        copy[i].var = declare_copy(c, indices[i].var);
    }
    return copy;
}

static TileOp *copy_block(Copier *c, const TileOp *op);

static void copy_update(Copier *c, TileOp *op)
{
    if (op->update.buffer) {
        op->update.subs = copy_exprs(c, op->update.subs, op->update.buffer->rank);
        op->update.buffer = copied_buffer(c, op->update.buffer);
    } else {
        op->update.var = copied_var(c, op->update.var);
    }
    op->update.value = copy_expr(c, op->update.value);
}

static void copy_matmul(Copier *c, TileOp *op)
{
    op->matmul.dst = copy_region(c, &op->matmul.dst);
    op->matmul.a.region = copy_region(c, &op->matmul.a.region);
    op->matmul.b.region = copy_region(c, &op->matmul.b.region);
    if (op->matmul.meta) op->matmul.meta = copied_buffer(c, op->matmul.meta);
}

static void copy_contents(Copier *c, TileOp *op)
{
    switch (op->kind) {
    case T_TILE: op->tile.buffer = declare_buffer_copy(c, op->tile.buffer); break;
    case T_LET:
    case T_SET:
        op->let.value = copy_expr(c, op->let.value);
        op->let.var = op->kind == T_LET ? declare_copy(c, op->let.var) : copied_var(c, op->let.var);
        break;
    case T_STORE:
        op->store.subs = copy_exprs(c, op->store.subs, op->store.buffer->rank);
        op->store.buffer = copied_buffer(c, op->store.buffer);
        op->store.value = copy_expr(c, op->store.value);
        break;
    case T_UPDATE: copy_update(c, op); break;
    case T_ATOMIC:
        op->atomic.subs = copy_exprs(c, op->atomic.subs, op->atomic.buffer->rank);
        op->atomic.buffer = copied_buffer(c, op->atomic.buffer);
        op->atomic.value = copy_expr(c, op->atomic.value);
        break;
    case T_FILL:
        op->fill.dst = copy_region(c, &op->fill.dst);
        op->fill.value = copy_expr(c, op->fill.value);
        break;
    case T_COPY:
    case T_ATOMIC_TILE:
        op->copy.dst = copy_region(c, &op->copy.dst);
        op->copy.src = copy_region(c, &op->copy.src);
        break;
    case T_MATMUL: copy_matmul(c, op); break;
    case T_SCAN:
        op->scan.dst = copy_region(c, &op->scan.dst);
        op->scan.src = copy_region(c, &op->scan.src);
        break;
    case T_FORALL: op->forall.indices = copy_indices(c, op->forall.indices, op->forall.n); break;
    case T_PIPELINE: op->pipeline.indices = copy_indices(c, op->pipeline.indices, op->pipeline.n); break;
    case T_FOR:
        op->for_.lo = copy_expr(c, op->for_.lo);
        op->for_.hi = copy_expr(c, op->for_.hi);
        op->for_.step = copy_expr(c, op->for_.step);
        op->for_.var = declare_copy(c, op->for_.var);
        break;
    case T_WHILE: op->while_.cond = copy_expr(c, op->while_.cond); break;
    case T_IF: op->branch.cond = copy_expr(c, op->branch.cond); break;
    case T_PRINT: op->print.args = copy_exprs(c, op->print.args, op->print.n); break;
    case T_ASSERT: op->assertion.cond = copy_expr(c, op->assertion.cond); break;
    case T_EXTERN: op->external.args = copy_exprs(c, op->external.args, op->external.n); break;
    case T_BREAK:
    case T_CONTINUE:
    case T_RETURN: break;
    }
    TileOp **body;
    for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) *body = copy_block(c, *body);
}

static TileOp *copy_block(Copier *c, const TileOp *op)
{
    TileOp *first = NULL, **last = &first;
    for (; op; op = op->next) {
        TileOp *const copy = NEW(c->arena, TileOp, .kind = op->kind);
        *copy = *op;
        copy->next = NULL;
        copy_contents(c, copy);
        *last = copy;
        last = &copy->next;
    }
    return first;
}

TileOp *tile_copy_block(TileKernel *k, const TileOp *block)
{
    return copy_block(&(Copier){ .kernel = k, .arena = k->arena }, block);
}

TileOp *tile_copy_replacing(TileKernel *k, const TileOp *block, const Buffer *from, Buffer *to)
{
    Copier c = { .kernel = k, .arena = k->arena };
    VEC_PUSH(c.arena, &c.buffers, (BufferPair){ from, to });
    return copy_block(&c, block);
}
