// SPDX-License-Identifier: MIT
// tile.c - building Tile IR, and the questions every pass asks of it: what an op touches, computes and contains.
#include "ir/tile.h"

#include <assert.h>

// ---- building

Var *tile_new_var(TileKernel *k, VarKind kind, DType type, const char *name, Span span)
{
    return NEW(k->arena, Var, .name = name, .id = k->n_vars++, .kind = kind, .type = type, .span = span);
}

Buffer *tile_new_buffer(TileKernel *k, BufferKind kind, DType type, const char *name, int rank, Span span)
{
    assert(rank >= 0 && rank <= MAX_RANK && "the checker refuses more dimensions");
    return NEW(k->arena, Buffer, .name = name, .id = k->n_buffers++, .kind = kind, .type = type, .rank = rank,
               .span = span, .param = -1);
}

Region region_whole(Arena *a, Buffer *buffer, Span span)
{
    Region r = { .buffer = buffer, .subs = NEW_ARRAY(a, Sub, buffer->rank > 0 ? buffer->rank : 1), .span = span };
    for (int d = 0; d < buffer->rank; d++)
        r.subs[d] = (Sub){ .is_range = true, .start = int_const(a, 0), .width = buffer->shape[d] };
    return r;
}

// ---- regions

int region_rank(const Region *r)
{
    int rank = 0;
    for (int d = 0; d < r->buffer->rank; d++) rank += r->subs[d].is_range;
    return rank;
}

Expr *region_extent(const Region *r, int axis)
{
    for (int d = 0; d < r->buffer->rank; d++)
        if (r->subs[d].is_range && axis-- == 0) return r->subs[d].width;
    assert(!"a region has this axis");
    return NULL;
}

void region_element(Arena *arena, const Region *r, Expr *const *along, Expr **subs)
{
    for (int d = 0; d < r->buffer->rank; d++) {
        const Sub *const sub = &r->subs[d];
        subs[d] = sub->start;
        if (sub->is_range) {
            subs[d] = int_add(arena, sub->start, sub->step ? int_mul(arena, *along, sub->step) : *along);
            along++;
        }
    }
}

bool region_is_whole(const Region *r)
{
    for (int d = 0; d < r->buffer->rank; d++) {
        const Sub *const sub = &r->subs[d];
        if (!sub->is_range) {
            if (!expr_is_int(r->buffer->shape[d], 1) || !expr_is_int(sub->start, 0)) return false;
            continue;
        }
        if (!expr_is_int(sub->start, 0) || (sub->step && !expr_is_int(sub->step, 1))) return false;
        if (!expr_equal(sub->width, r->buffer->shape[d])) return false;
    }
    return true;
}

bool buffer_is_tile(const Buffer *b) { return b->kind == BUFFER_SHARED || b->kind == BUFFER_FRAGMENT; }

Buffer *buffer_root(Buffer *b)
{
    while (b->kind == BUFFER_VIEW) b = b->base.buffer;
    return b;
}

// ---- what an op contains

static void each_sub(Expr **subs, int n, TileExprVisit *visit, void *context)
{
    for (int i = 0; i < n; i++) visit(&subs[i], context);
}

static void each_in_region(Region *r, TileExprVisit *visit, void *context)
{
    for (int d = 0; d < r->buffer->rank; d++) {
        Sub *const sub = &r->subs[d];
        visit(&sub->start, context);
        if (sub->is_range) visit(&sub->width, context);
        if (sub->is_range && sub->step) visit(&sub->step, context);
    }
}

static void each_index(LoopIndex *indices, int n, TileExprVisit *visit, void *context)
{
    for (int i = 0; i < n; i++) {
        visit(&indices[i].lo, context);
        visit(&indices[i].hi, context);
    }
}

void tile_each_expr(TileOp *op, TileExprVisit *visit, void *context)
{
    switch (op->kind) {
    case T_TILE:
    case T_BREAK:
    case T_CONTINUE:
    case T_RETURN: break;
    case T_LET:
    case T_SET:
        if (op->let.value) visit(&op->let.value, context);
        break;
    case T_STORE:
        each_sub(op->store.subs, op->store.buffer->rank, visit, context);
        visit(&op->store.value, context);
        break;
    case T_UPDATE:
        if (op->update.buffer) each_sub(op->update.subs, op->update.buffer->rank, visit, context);
        visit(&op->update.value, context);
        break;
    case T_ATOMIC:
        each_sub(op->atomic.subs, op->atomic.buffer->rank, visit, context);
        visit(&op->atomic.value, context);
        break;
    case T_FILL:
        each_in_region(&op->fill.dst, visit, context);
        visit(&op->fill.value, context);
        break;
    case T_COPY:
    case T_ATOMIC_TILE:
        each_in_region(&op->copy.dst, visit, context);
        each_in_region(&op->copy.src, visit, context);
        break;
    case T_MATMUL:
        each_in_region(&op->matmul.dst, visit, context);
        each_in_region(&op->matmul.a.region, visit, context);
        each_in_region(&op->matmul.b.region, visit, context);
        break;
    case T_SCAN:
        each_in_region(&op->scan.dst, visit, context);
        each_in_region(&op->scan.src, visit, context);
        break;
    case T_FORALL: each_index(op->forall.indices, op->forall.n, visit, context); break;
    case T_PIPELINE: each_index(op->pipeline.indices, op->pipeline.n, visit, context); break;
    case T_FOR:
        visit(&op->for_.lo, context);
        visit(&op->for_.hi, context);
        visit(&op->for_.step, context);
        break;
    case T_WHILE: visit(&op->while_.cond, context); break;
    case T_IF: visit(&op->branch.cond, context); break;
    case T_PRINT: each_sub(op->print.args, op->print.n, visit, context); break;
    case T_ASSERT: visit(&op->assertion.cond, context); break;
    case T_EXTERN: each_sub(op->external.args, op->external.n, visit, context); break;
    }
}

void buffer_each_expr(Buffer *b, TileExprVisit *visit, void *context)
{
    for (; b->kind == BUFFER_VIEW; b = b->base.buffer) {
        for (int d = 0; d < b->rank; d++) visit(&b->shape[d], context);
        each_in_region(&b->base, visit, context);
    }
}

TileOp **tile_bodies(TileOp *op, int index)
{
    switch (op->kind) {
    case T_FORALL: return index == 0 ? &op->forall.body : NULL;
    case T_PIPELINE: return index == 0 ? &op->pipeline.body : NULL;
    case T_FOR: return index == 0 ? &op->for_.body : NULL;
    case T_WHILE: return index == 0 ? &op->while_.body : index == 1 ? &op->while_.step : NULL;
    case T_IF: return index == 0 ? &op->branch.then : index == 1 ? &op->branch.otherwise : NULL;
    case T_TILE:
    case T_LET:
    case T_SET:
    case T_STORE:
    case T_UPDATE:
    case T_ATOMIC:
    case T_ATOMIC_TILE:
    case T_FILL:
    case T_COPY:
    case T_MATMUL:
    case T_SCAN:
    case T_BREAK:
    case T_CONTINUE:
    case T_RETURN:
    case T_PRINT:
    case T_ASSERT:
    case T_EXTERN: break;
    }
    return NULL;
}

// ---- what an op touches

typedef struct Walk {
    TileUseVisit *visit;
    void *context;
} Walk;

static bool visit_loads(const Expr *x, void *context);

static void visit_slot(Expr **slot, void *context) { expr_any(*slot, visit_loads, context); }

// A view's address is computed where the view is used, so what its base region loads is read there too.
static void visit_use(const Walk *walk, TileUse use)
{
    walk->visit(&use, walk->context);
    buffer_each_expr(use.buffer, visit_slot, (void *)walk);
}

static bool visit_loads(const Expr *x, void *context)
{
    const Walk *const walk = context;
    if (x->kind != E_LOAD && x->kind != E_ATOMIC) return false;
    if (x->kind == E_LOAD) visit_use(walk, (TileUse){ .buffer = x->load.buffer, .subs = x->load.subs, .reads = true });
    if (x->kind == E_ATOMIC)
        visit_use(
            walk,
            (TileUse){
                .buffer = x->atomic.buffer, .subs = x->atomic.subs, .reads = true, .writes = true, .atomic = true });
    return false;
}

static void visit_region(const Walk *walk, const Region *r, bool reads, bool writes, bool atomic)
{
    visit_use(walk, (TileUse){ .buffer = r->buffer, .region = r, .reads = reads, .writes = writes, .atomic = atomic });
}

void tile_uses(TileOp *op, TileUseVisit *visit, void *context)
{
    const Walk walk = { visit, context };
    tile_each_expr(op, visit_slot, (void *)&walk);
    switch (op->kind) {
    case T_STORE:
        visit_use(&walk, (TileUse){ .buffer = op->store.buffer, .subs = op->store.subs, .writes = true });
        break;
    case T_UPDATE:
        if (op->update.buffer)
            visit_use(&walk,
                      (TileUse){ .buffer = op->update.buffer, .subs = op->update.subs, .reads = true, .writes = true });
        break;
    case T_ATOMIC:
        visit_use(
            &walk,
            (TileUse){
                .buffer = op->atomic.buffer, .subs = op->atomic.subs, .reads = true, .writes = true, .atomic = true });
        break;
    case T_ATOMIC_TILE:
        visit_region(&walk, &op->copy.src, true, false, false);
        visit_region(&walk, &op->copy.dst, true, true, true);
        break;
    case T_FILL: visit_region(&walk, &op->fill.dst, false, true, false); break;
    case T_COPY:
        visit_region(&walk, &op->copy.src, true, false, false);
        visit_region(&walk, &op->copy.dst, false, true, false);
        break;
    case T_MATMUL: {
        visit_region(&walk, &op->matmul.a.region, true, false, false);
        visit_region(&walk, &op->matmul.b.region, true, false, false);
        if (op->matmul.meta) visit_use(&walk, (TileUse){ .buffer = op->matmul.meta, .reads = true });
        visit_region(&walk, &op->matmul.dst, op->matmul.accumulate, true, false);
        break;
    }
    case T_SCAN:
        visit_region(&walk, &op->scan.src, true, false, false);
        visit_region(&walk, &op->scan.dst, false, true, false);
        break;
    case T_TILE:
    case T_LET:
    case T_SET:
    case T_FORALL:
    case T_FOR:
    case T_WHILE:
    case T_PIPELINE:
    case T_IF:
    case T_BREAK:
    case T_CONTINUE:
    case T_RETURN:
    case T_PRINT:
    case T_ASSERT:
    case T_EXTERN: break; // their expressions have been visited
    }
}

typedef struct WriteQuestion {
    const Buffer *root;
    bool found;
} WriteQuestion;

static void note_write(const TileUse *use, void *context)
{
    WriteQuestion *const question = context;
    question->found |= use->writes && buffer_root(use->buffer) == question->root;
}

static void note_touch(const TileUse *use, void *context)
{
    WriteQuestion *const question = context;
    question->found |= buffer_root(use->buffer) == question->root;
}

bool tile_touches(TileOp *op, const Buffer *root)
{
    WriteQuestion question = { root, false };
    tile_uses(op, note_touch, &question);
    TileOp **body;
    for (int i = 0; !question.found && (body = tile_bodies(op, i)) != NULL; i++)
        for (TileOp *inner = *body; inner && !question.found; inner = inner->next)
            question.found = tile_touches(inner, root);
    return question.found;
}

bool tile_only_reduces(const TileOp *block)
{
    for (const TileOp *op = block; op; op = op->next)
        if (op->kind != T_UPDATE || !op->update.reduces) return false;
    return true;
}

bool tile_block_writes(TileOp *block, const Buffer *root)
{
    for (TileOp *op = block; op; op = op->next) {
        WriteQuestion question = { root, false };
        tile_uses(op, note_write, &question);
        if (question.found) return true;
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
            if (tile_block_writes(*body, root)) return true;
    }
    return false;
}

ExprOp update_operator(UpdateOp op)
{
    static const ExprOp operators[] = {
        [UPDATE_ADD] = X_ADD,    [UPDATE_SUB] = X_SUB,    [UPDATE_MUL] = X_MUL, [UPDATE_DIV] = X_DIV,
        [UPDATE_MOD] = X_MOD,    [UPDATE_SHL] = X_SHL,    [UPDATE_SHR] = X_SHR, [UPDATE_OR] = X_BITOR,
        [UPDATE_AND] = X_BITAND, [UPDATE_XOR] = X_BITXOR,
    };
    return operators[op];
}
