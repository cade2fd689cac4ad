// SPDX-License-Identifier: MIT
// slice.c - what does not depend on what the consumers compute: the producer can know it.
//
// Known are functions of launch arguments, indices, read-only tensors, and of tiles that the producer fills. A scalar is
// known if everything that is ever put into it is, under conditions and loops that are.
#include "lower/cuda/cuda.h"

static bool is_unknown(const Expr *x, void *context)
{
    const Slice *const s = context;
    if (x->kind == E_VAR) return s->unknown[x->var.var->id];
    if (x->kind == E_ATOMIC || x->kind == E_CALL) return true;
    if (x->kind == E_LOAD) {
        const Buffer *const root = buffer_root(x->load.buffer);
        const TileInfo *const tile = tile_info(s->lo, root);
        if (tile && !s->no_tiles && (tile->is_filled || tile->is_private)) return false;
        return root->kind != BUFFER_TENSOR || root->access != ACCESS_IN;
    }
    return false;
}

bool slice_knows(const Slice *s, const Expr *x) { return !x || !expr_any(x, is_unknown, (void *)s); }

Slice new_slice(Lowering *lo)
{
    return (Slice){ .lo = lo, .unknown = NEW_ARRAY(lo->arena, bool, lo->kernel->n_vars + 1) };
}

static void mark(Slice *s, const Var *var)
{
    if (!s->unknown[var->id]) s->unknown[var->id] = s->changed = true;
}

static void mark_block(Slice *s, TileOp *block, bool certain);

static void mark_op(Slice *s, TileOp *op, bool certain)
{
    switch (op->kind) {
    case T_LET:
    case T_SET:
        if (!certain || !slice_knows(s, op->let.value)) mark(s, op->let.var);
        return;
    case T_UPDATE:
        if (op->update.var && (op->update.reduces || !certain || !slice_knows(s, op->update.value)))
            mark(s, op->update.var);
        return;
    case T_FORALL: // scalars set in iterations are private to them
        mark_block(s, op->forall.body, op_info(s->lo, op)->fills);
        return;
    case T_FOR:
        if (!certain || !slice_knows(s, op->for_.lo) || !slice_knows(s, op->for_.hi)) {
            mark(s, op->for_.var);
            certain = false;
        }
        mark_block(s, op->for_.body, certain);
        return;
    case T_PIPELINE:
        for (int i = 0; i < op->pipeline.n; i++)
            if (!certain || !slice_knows(s, op->pipeline.indices[i].lo) ||
                !slice_knows(s, op->pipeline.indices[i].hi)) {
                mark(s, op->pipeline.indices[i].var);
                certain = false;
            }
        mark_block(s, op->pipeline.body, certain);
        return;
    case T_WHILE:
        mark_block(s, op->while_.body, certain && slice_knows(s, op->while_.cond));
        mark_block(s, op->while_.step, certain && slice_knows(s, op->while_.cond));
        return;
    case T_IF:
        mark_block(s, op->branch.then, certain && slice_knows(s, op->branch.cond));
        mark_block(s, op->branch.otherwise, certain && slice_knows(s, op->branch.cond));
        return;
    case T_TILE:
    case T_STORE:
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
    case T_EXTERN: return;
    }
}

static void mark_block(Slice *s, TileOp *block, bool certain)
{
    for (TileOp *op = block; op; op = op->next) mark_op(s, op, certain);
}

void find_unknown(Slice *slice)
{
    do {
        slice->changed = false;
        mark_block(slice, slice->lo->kernel->body, true);
    } while (slice->changed);
}

static bool jumps(TileOp *block)
{
    for (TileOp *op = block; op; op = op->next) {
        if (op->kind == T_BREAK || op->kind == T_CONTINUE || op->kind == T_RETURN) return true;
        if (op->kind == T_IF && (jumps(op->branch.then) || jumps(op->branch.otherwise))) return true;
    }
    return false;
}

// All enclosing conditions and loops are known to the producer and left by no jump.
bool path_is_known(const Slice *s, const TileOp *op)
{
    for (TileOp *parent = op_info(s->lo, op)->parent; parent; parent = op_info(s->lo, parent)->parent) {
        switch (parent->kind) {
        case T_IF:
            if (!slice_knows(s, parent->branch.cond)) return false;
            break;
        case T_FOR:
            if (!slice_knows(s, parent->for_.lo) || !slice_knows(s, parent->for_.hi) || jumps(parent->for_.body))
                return false;
            break;
        case T_PIPELINE:
            for (int i = 0; i < parent->pipeline.n; i++)
                if (!slice_knows(s, parent->pipeline.indices[i].lo) || !slice_knows(s, parent->pipeline.indices[i].hi))
                    return false;
            if (jumps(parent->pipeline.body)) return false;
            break;
        case T_WHILE:
            if (!slice_knows(s, parent->while_.cond) || jumps(parent->while_.body)) return false;
            break;
        default: return false;
        }
    }
    return true;
}
