// SPDX-License-Identifier: MIT
// cluster.c - `cluster shared`: a tile made once for all instances of a cluster may not depend on the coordinate
// that tells them apart. What depends on it is found by following values through variables and tiles until nothing
// new is found; conditions and trip counts around a statement count as its inputs.
#include "check/context.h"

typedef struct Taint {
    Checker *cx;
    bool *vars, *buffers; // by id
    bool changed;
    int depth; // tainted conditions around the op
    bool report;
    bool reported;
    bool reads_taint; // of the op at hand
} Taint;

static bool is_tainted(const Expr *x, void *context)
{
    const Taint *const taint = context;
    if (x->kind == E_VAR) return taint->vars[x->var.var->id];
    if (x->kind == E_LOAD) return taint->buffers[buffer_root(x->load.buffer)->id];
    if (x->kind == E_ATOMIC) return true; // another instance, another result
    return false;
}

static void note_expr(Expr **slot, void *context)
{
    Taint *const taint = context;
    if (*slot && expr_any(*slot, is_tainted, taint)) taint->reads_taint = true;
}

static void note_read(const TileUse *use, void *context)
{
    Taint *const taint = context;
    if (use->reads && taint->buffers[buffer_root(use->buffer)->id]) taint->reads_taint = true;
    buffer_each_expr(use->buffer, note_expr, taint);
}

static void mark(Taint *taint, bool *flag)
{
    taint->changed |= !*flag;
    *flag = true;
}

static void note_write(const TileUse *use, void *context)
{
    Taint *const taint = context;
    Buffer *const root = buffer_root(use->buffer);
    if (use->writes && root->kind != BUFFER_TENSOR) mark(taint, &taint->buffers[root->id]);
}

static void report_write(const TileUse *use, void *context)
{
    Taint *const taint = context;
    Buffer *const root = buffer_root(use->buffer);
    if (!use->writes || !root->cluster_shared || taint->reported) return;
    taint->reported = true;
}

static void taint_op(Taint *taint, TileOp *op)
{
    taint->reads_taint = taint->depth > 0;
    tile_each_expr(op, note_expr, taint);
    tile_uses(op, note_read, taint);
    if (!taint->reads_taint) return;
    if (taint->report) {
        taint->reported = false;
        tile_uses(op, report_write, taint);
        if (taint->reported)
            check_error(taint->cx, op->span, "this makes a 'cluster shared' tile depend on the cluster's coordinate");
        return;
    }
    if (op->kind == T_LET || op->kind == T_SET) mark(taint, &taint->vars[op->let.var->id]);
    if (op->kind == T_UPDATE && op->update.var) mark(taint, &taint->vars[op->update.var->id]);
    if (op->kind == T_FOR) mark(taint, &taint->vars[op->for_.var->id]);
    if (op->kind == T_PIPELINE)
        for (int i = 0; i < op->pipeline.n; i++) mark(taint, &taint->vars[op->pipeline.indices[i].var->id]);
    tile_uses(op, note_write, taint);
}

static bool is_control(TileKind kind)
{
    return kind == T_IF || kind == T_FOR || kind == T_WHILE || kind == T_PIPELINE || kind == T_FORALL;
}

static void taint_block(Taint *taint, TileOp *block)
{
    for (TileOp *op = block; op; op = op->next) {
        taint_op(taint, op);
        const int inside = is_control(op->kind) && taint->reads_taint ? 1 : 0;
        taint->depth += inside;
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) taint_block(taint, *body);
        taint->depth -= inside;
    }
}

static bool has_cluster_tile(TileOp *block)
{
    for (TileOp *op = block; op; op = op->next) {
        if (op->kind == T_TILE && op->tile.buffer->cluster_shared) return true;
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
            if (has_cluster_tile(*body)) return true;
    }
    return false;
}

void check_cluster(Checker *cx)
{
    TileKernel *const k = cx->kernel;
    if (!has_cluster_tile(k->body)) return;
    Taint taint = { .cx = cx,
                    .vars = NEW_ARRAY(cx->arena, bool, k->n_vars + 1),
                    .buffers = NEW_ARRAY(cx->arena, bool, k->n_buffers + 1) };
    for (int i = 0; i < k->n_grid; i++)
        if (k->grid[i].cluster > 1) taint.vars[k->grid[i].var->id] = true;
    do {
        taint.changed = false;
        taint_block(&taint, k->body);
    } while (taint.changed);
    taint.report = true;
    taint_block(&taint, k->body);
}
