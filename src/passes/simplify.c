// SPDX-License-Identifier: MIT
// simplify.c - drop what is never reached, read or used.
//
// before: a checked kernel                          after: the same results with fewer ops
// folds:  what the checker kept as it was written (check/written.c)
// drops:  the other side of an `if` on a constant; loops that are empty; tiles that nothing reads, with what fills
//         them; scalars that nothing uses; loops and ifs left without a body
// never:  moves an op, or drops a trap: in --check builds only unreachable code goes
#include "passes/passes.h"

typedef struct Facts {
    TileKernel *kernel;
    int *var_uses;   // by id: how often it is read
    int *tile_reads; // by id of the root
    bool changed;
} Facts;

// ---- folding

static void fold_slot(Expr **slot, void *kernel) { *slot = expr_folded(((TileKernel *)kernel)->arena, *slot); }

static void fold_block(TileKernel *kernel, TileOp *op)
{
    for (; op; op = op->next) {
        tile_each_expr(op, fold_slot, kernel);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) fold_block(kernel, *body);
    }
}

// ---- counting

static bool count_in_expr(const Expr *x, void *context)
{
    Facts *const f = context;
    if (x->kind == E_VAR) f->var_uses[x->var.var->id]++;
    return false;
}

static void count_slot(Expr **slot, void *context) { expr_any(*slot, count_in_expr, context); }

static void count_use(const TileUse *use, void *context)
{
    Facts *const f = context;
    // An update reads only what it writes itself: that alone keeps nothing alive.
    if (use->reads && !use->writes) f->tile_reads[buffer_root(use->buffer)->id]++;
    buffer_each_expr(use->buffer, count_slot, context);
}

static bool count_atomic_result(const Expr *x, void *context)
{
    Facts *const f = context;
    if (x->kind == E_ATOMIC) f->tile_reads[buffer_root(x->atomic.buffer)->id]++;
    return false;
}

static void count_atomic_slot(Expr **slot, void *context) { expr_any(*slot, count_atomic_result, context); }

static void count_block(Facts *f, TileOp *op)
{
    for (; op; op = op->next) {
        tile_each_expr(op, count_slot, f);
        tile_each_expr(op, count_atomic_slot, f);
        tile_uses(op, count_use, f);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) count_block(f, *body);
    }
}

// ---- what may go

static void note_impure(Expr **slot, void *context) { *(bool *)context |= !expr_is_pure(*slot); }

static bool is_pure(TileOp *op)
{
    bool impure = false;
    tile_each_expr(op, note_impure, &impure);
    return !impure;
}

static bool is_unread(const Facts *f, Buffer *b)
{
    const Buffer *const root = buffer_root(b);
    return root->kind != BUFFER_TENSOR && f->tile_reads[root->id] == 0;
}

// An op whose only effect is on something that nobody looks at.
static bool is_dead(const Facts *f, TileOp *op)
{
    if (f->kernel->checked || !is_pure(op)) return false;
    switch (op->kind) {
    case T_TILE: return is_unread(f, op->tile.buffer);
    case T_LET: return f->var_uses[op->let.var->id] == 0;
    case T_SET: return f->var_uses[op->let.var->id] == 0 && op->let.var->kind == VAR_LOCAL;
    case T_STORE: return is_unread(f, op->store.buffer);
    case T_UPDATE: return op->update.buffer ? is_unread(f, op->update.buffer) : f->var_uses[op->update.var->id] == 0;
    case T_ATOMIC: return is_unread(f, op->atomic.buffer);
    case T_FILL: return is_unread(f, op->fill.dst.buffer);
    case T_COPY:
    case T_ATOMIC_TILE: return is_unread(f, op->copy.dst.buffer);
    case T_MATMUL: return is_unread(f, op->matmul.dst.buffer);
    case T_SCAN: return is_unread(f, op->scan.dst.buffer);
    case T_FORALL: return !op->forall.body;
    case T_PIPELINE: return !op->pipeline.body;
    case T_FOR: return !op->for_.body;
    case T_IF: return !op->branch.then && !op->branch.otherwise;
    case T_WHILE:
    case T_BREAK:
    case T_CONTINUE:
    case T_RETURN:
    case T_PRINT:
    case T_ASSERT:
    case T_EXTERN: return false;
    }
    return false;
}

static bool is_empty_range(const LoopIndex *indices, int n)
{
    for (int i = 0; i < n; i++)
        if (expr_at_least(indices[i].lo, indices[i].hi)) return true;
    return false;
}

static bool is_never_entered(const TileOp *op)
{
    int64_t step;
    if (op->kind == T_FORALL) return is_empty_range(op->forall.indices, op->forall.n);
    if (op->kind == T_PIPELINE) return is_empty_range(op->pipeline.indices, op->pipeline.n);
    if (op->kind == T_FOR && expr_as_int(op->for_.step, &step) && step > 0)
        return expr_at_least(op->for_.lo, op->for_.hi);
    return op->kind == T_WHILE && op->while_.cond->kind == E_INT && !op->while_.cond->integer.value;
}

// ---- dropping

// Puts the taken side of an `if` in its place; placement and stage of the `if` hold for it too.
static void splice(TileOp **link, TileOp *op, TileOp *taken)
{
    TileOp **end = &taken;
    for (; *end; end = &(*end)->next) {
        if (!(*end)->groups) (*end)->groups = op->groups;
        if (!(*end)->stage) (*end)->stage = op->stage;
    }
    *end = op->next;
    *link = taken;
}

static void simplify_block(Facts *f, TileOp **link)
{
    for (TileOp *op; (op = *link) != NULL;) {
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) simplify_block(f, body);
        int64_t cond;
        if (op->kind == T_IF && expr_as_int(op->branch.cond, &cond)) {
            splice(link, op, cond ? op->branch.then : op->branch.otherwise);
            f->changed = true;
        } else if (is_never_entered(op) || is_dead(f, op)) {
            *link = op->next;
            f->changed = true;
        } else {
            if (op->kind == T_IF && !op->branch.then) { // if (c) {} else B
                op->branch.cond = expr_unary(f->kernel->arena, X_NOT, op->branch.cond);
                op->branch.then = op->branch.otherwise;
                op->branch.otherwise = NULL;
            }
            link = &op->next;
        }
    }
}

void simplify(TileKernel *kernel)
{
    bool changed = true;
    fold_block(kernel, kernel->body);
    // Each round may free what the one before kept alive; chains are short, and what is left over is only slower.
    for (int round = 0; changed && round < 8; round++) {
        Facts f = { .kernel = kernel,
                    .var_uses = NEW_ARRAY(kernel->arena, int, kernel->n_vars + 1),
                    .tile_reads = NEW_ARRAY(kernel->arena, int, kernel->n_buffers + 1) };
        count_block(&f, kernel->body);
        simplify_block(&f, &kernel->body);
        changed = f.changed;
    }
}
