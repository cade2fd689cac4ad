// SPDX-License-Identifier: MIT
// limits.c - how much a kernel may become: counted while inlining and unrolling go on, and how deep it may nest.
//
// Walks of the operations are recursive, here and in both lowerings, so nesting has a limit. A statement that leaves
// early counts, too: what follows it comes to stand in the other side of its `if`, on some targets at least.
#include "check/context.h"

static bool report_too_much(Checker *cx, Span span, const char *what, int most)
{
    if (!cx->too_much) check_error(cx, span, "the kernel grows past %d %s; unroll less", most, what);
    cx->too_much = true;
    return false;
}

bool count_op(Checker *cx, Span span)
{
    return ++cx->n_ops <= OPS_MAX || report_too_much(cx, span, "operations", OPS_MAX);
}

bool count_step(Checker *cx, Span span)
{
    if (cx->too_much) return false;
    return ++cx->n_steps <= STEPS_MAX || report_too_much(cx, span, "statements and operands", STEPS_MAX);
}

void report_nesting(Checker *cx, Span span)
{
    check_error(cx, span, "nested more than %d levels deep, counting functions and what follows an early leave",
                NESTING_MAX);
}

static bool ends_in_jump(const TileOp *block)
{
    while (block && block->next) block = block->next;
    return block && (block->kind == T_RETURN || block->kind == T_CONTINUE);
}

static bool leaves_early(const TileOp *op)
{
    return op->kind == T_IF && (ends_in_jump(op->branch.then) || ends_in_jump(op->branch.otherwise));
}

// Each index of a loop becomes a loop.
static int levels_of(const TileOp *op)
{
    return op->kind == T_PIPELINE ? op->pipeline.n : op->kind == T_FORALL ? op->forall.n : 1;
}

// The first op that stands deeper than the limit; NULL: none.
static const TileOp *too_deep(TileOp *block, int depth)
{
    for (TileOp *op = block; op; op = op->next) {
        if (depth > NESTING_MAX) return op;
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) {
            const TileOp *const found = too_deep(*body, depth + levels_of(op));
            if (found) return found;
        }
        depth += leaves_early(op);
    }
    return NULL;
}

bool check_nesting(Checker *cx, TileOp *block)
{
    const TileOp *const found = too_deep(block, 1);
    if (found) report_nesting(cx, found->span);
    return !found;
}
