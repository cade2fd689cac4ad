// SPDX-License-Identifier: MIT
// known_values.c - what does not depend on what the consumers compute: the producer can know it.
//
// Known are functions of launch arguments, indices, read-only tensors, and of tiles that the producer fills. A scalar
// is known if everything that is ever put into it is, under conditions and loops that are, and that no jump leaves.
#include "lower/gpu/facts/lowering.h"
#include "lower/gpu/decide/iteration/known_values.h"
#include "lower/gpu/facts/info.h"

static bool is_unknown(const Expr *x, void *context)
{
    const KnownValues *const values = context;
    if (x->kind == E_VAR) return values->unknown[x->var.var->id];
    if (x->kind == E_ATOMIC || x->kind == E_CALL) return true;
    if (x->kind == E_LOAD) {
        const Buffer *const root = buffer_root(x->load.buffer);
        const TileInfo *const tile = tile_info(values->lo, root);
        if (tile && !values->no_tiles && (tile->is_filled || tile->is_private)) return false;
        return root->kind != BUFFER_TENSOR || root->access != ACCESS_IN;
    }
    return false;
}

bool value_is_known(const KnownValues *values, const Expr *x) { return !x || !expr_any(x, is_unknown, (void *)values); }

KnownValues new_known_values(Lowering *lo)
{
    return (KnownValues){ .lo = lo, .unknown = NEW_ARRAY(lo->arena, bool, lo->kernel->n_vars + 1) };
}

static void mark(KnownValues *values, const Var *var)
{
    if (!values->unknown[var->id]) values->unknown[var->id] = values->changed = true;
}

static bool jumps(TileOp *block)
{
    for (TileOp *op = block; op; op = op->next) {
        if (op->kind == T_BREAK || op->kind == T_CONTINUE || op->kind == T_RETURN) return true;
        if (op->kind == T_IF && (jumps(op->branch.then) || jumps(op->branch.otherwise))) return true;
    }
    return false;
}

static void mark_block(KnownValues *values, TileOp *block, bool certain);

// How often a loop that jumps leave goes round, and what of its body it does, the producer does not find out.
static void mark_body(KnownValues *values, TileOp *body, bool certain)
{
    mark_block(values, body, certain && !jumps(body));
}

static void mark_op(KnownValues *values, TileOp *op, bool certain)
{
    switch (op->kind) {
    case T_LET:
    case T_SET:
        if (!certain || !value_is_known(values, op->let.value)) mark(values, op->let.var);
        return;
    case T_UPDATE:
        if (op->update.var && (op->update.reduces || !certain || !value_is_known(values, op->update.value)))
            mark(values, op->update.var);
        return;
    case T_FORALL: // scalars set in iterations are private to them
        mark_block(values, op->forall.body, op_info(values->lo, op)->fills);
        return;
    case T_FOR:
        if (!certain || !value_is_known(values, op->for_.lo) || !value_is_known(values, op->for_.hi)) {
            mark(values, op->for_.var);
            certain = false;
        }
        mark_body(values, op->for_.body, certain);
        return;
    case T_PIPELINE:
        for (int i = 0; i < op->pipeline.n; i++)
            if (!certain || !value_is_known(values, op->pipeline.indices[i].lo) ||
                !value_is_known(values, op->pipeline.indices[i].hi)) {
                mark(values, op->pipeline.indices[i].var);
                certain = false;
            }
        mark_body(values, op->pipeline.body, certain);
        return;
    case T_WHILE:
        certain = certain && value_is_known(values, op->while_.cond) && !jumps(op->while_.body);
        mark_block(values, op->while_.body, certain);
        mark_block(values, op->while_.step, certain);
        return;
    case T_IF:
        mark_block(values, op->branch.then, certain && value_is_known(values, op->branch.cond));
        mark_block(values, op->branch.otherwise, certain && value_is_known(values, op->branch.cond));
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

static void mark_block(KnownValues *values, TileOp *block, bool certain)
{
    for (TileOp *op = block; op; op = op->next) mark_op(values, op, certain);
}

void find_unknown(KnownValues *values)
{
    do {
        values->changed = false;
        mark_block(values, values->lo->kernel->body, true);
    } while (values->changed);
}

// All enclosing conditions and loops are known to the producer and left by no jump.
bool path_is_known(const KnownValues *values, const TileOp *op)
{
    for (TileOp *parent = op_info(values->lo, op)->parent; parent; parent = op_info(values->lo, parent)->parent) {
        switch (parent->kind) {
        case T_IF:
            if (!value_is_known(values, parent->branch.cond)) return false;
            break;
        case T_FOR:
            if (!value_is_known(values, parent->for_.lo) || !value_is_known(values, parent->for_.hi) ||
                jumps(parent->for_.body))
                return false;
            break;
        case T_PIPELINE:
            for (int i = 0; i < parent->pipeline.n; i++)
                if (!value_is_known(values, parent->pipeline.indices[i].lo) ||
                    !value_is_known(values, parent->pipeline.indices[i].hi))
                    return false;
            if (jumps(parent->pipeline.body)) return false;
            break;
        case T_WHILE:
            if (!value_is_known(values, parent->while_.cond) || jumps(parent->while_.body)) return false;
            break;
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
        case T_FORALL:
        case T_BREAK:
        case T_CONTINUE:
        case T_RETURN:
        case T_PRINT:
        case T_ASSERT:
        case T_EXTERN: return false;
        }
    }
    return true;
}
