// SPDX-License-Identifier: MIT
// scalar_loops.c - a few iterations over tensors that only reduce into scalars become loops.
//
// A forall divides its iterations among threads, and joins their scalars by shuffles and a barrier; what a copy's address
// or a loop's bounds need of them cannot be known before. A loop every thread runs for itself, and so does the producer of
// copies, which runs ahead.
//
// before: simplified    after: no forall of at most LOOP_ITERATIONS iterations only reduces tensors' elements into scalars
// never:  scalars in types that are computed with in a wider one, since a reduction is rounded once
#include "passes/passes.h"

enum { LOOP_ITERATIONS = 16 };

static void note_other_memory(const TileUse *use, void *context)
{
    *(bool *)context |= use->writes || use->atomic || buffer_root(use->buffer)->kind != BUFFER_TENSOR;
}

static void note_atomic(Expr **slot, void *context) { *(bool *)context |= expr_has_atomic(*slot); }

static bool only_scalars(TileOp *block)
{
    for (TileOp *op = block; op; op = op->next) {
        bool other = false;
        tile_uses(op, note_other_memory, &other);
        tile_each_expr(op, note_atomic, &other);
        if (other) return false;
        const bool is_scalar =
            op->kind == T_LET || op->kind == T_SET || op->kind == T_CONTINUE ||
            (op->kind == T_UPDATE && op->update.var && dtype_info[op->update.var->type].wide == op->update.var->type);
        const bool is_branch = op->kind == T_IF && only_scalars(op->branch.then) && only_scalars(op->branch.otherwise);
        if (!is_scalar && !is_branch) return false;
    }
    return true;
}

static bool is_short(const TileOp *forall)
{
    int64_t iterations = 1;
    for (int i = 0; i < forall->forall.n; i++) {
        int64_t lo, hi;
        if (!expr_as_int(forall->forall.indices[i].lo, &lo) || !expr_as_int(forall->forall.indices[i].hi, &hi))
            return false;
        if (hi - lo > LOOP_ITERATIONS) return false;
        iterations *= hi > lo ? hi - lo : 0;
    }
    return iterations <= LOOP_ITERATIONS;
}

// var op= value, as an assignment.
static void make_assignments(TileKernel *k, TileOp *block)
{
    for (TileOp *op = block; op; op = op->next) {
        if (op->kind == T_IF) {
            make_assignments(k, op->branch.then);
            make_assignments(k, op->branch.otherwise);
        }
        if (op->kind != T_UPDATE) continue;
        Var *const var = op->update.var;
        const DType type = op->update.value->type;
        Expr *const old = expr_convert(k->arena, type, expr_var(k->arena, var)), *const value = op->update.value;
        const bool is_extreme = op->update.op == UPDATE_MIN || op->update.op == UPDATE_MAX;
        Expr *const made = is_extreme ? expr_math(k->arena, type, op->update.op == UPDATE_MIN ? M_MIN : M_MAX, 2,
                                                  (Expr *[]){ old, value })
                                      : expr_binary(k->arena, update_operator(op->update.op), old, value);
        op->kind = T_SET;
        op->let.var = var;
        op->let.value = expr_convert(k->arena, var->type, made);
    }
}

static TileOp *loops(TileKernel *k, TileOp *forall)
{
    make_assignments(k, forall->forall.body);
    TileOp *body = forall->forall.body;
    for (int i = forall->forall.n - 1; i >= 0; i--) {
        const LoopIndex *const index = &forall->forall.indices[i];
        body = NEW(k->arena, TileOp, .kind = T_FOR, .span = forall->span,
                   .for_ = { index->var, index->lo, index->hi, int_const(k->arena, 1), body });
    }
    body->groups = forall->groups;
    body->stage = forall->stage;
    body->next = forall->next;
    return body;
}

static void visit_block(TileKernel *k, TileOp **link)
{
    for (; *link; link = &(*link)->next) {
        TileOp *const op = *link;
        TileOp **body;
        if (op->kind == T_FORALL) {
            if (op->forall.body && op->forall.n > 0 && is_short(op) && only_scalars(op->forall.body))
                *link = loops(k, op);
            continue;
        }
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) visit_block(k, body);
    }
}

void scalar_loops(TileKernel *kernel) { visit_block(kernel, &kernel->body); }
