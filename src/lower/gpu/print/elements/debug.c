// SPDX-License-Identifier: MIT
// debug.c - print and assert on the device; calls of its functions for their effect.
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/facts/elementwise.h"

void emit_assert(Printer *pr, TileOp *op, const Iteration *it)
{
    if (!common_is_asserted(pr->lo->kernel, op)) return;
    Nest nest;
    begin_if(pr, &nest, expr_unary(pr->arena, X_NOT, lower_expr(pr, op->assertion.cond, it)));
    emit_trap(pr, op->span, op->assertion.message);
    end_nest(pr, &nest);
}

// By one thread: of the iteration, or of the instance.
static void call_once(Printer *pr, Expr *call, const Iteration *it)
{
    emit_call_if(pr, it && it->n ? replica_is_first(pr, &it->layout) : is_zero(pr, pr->thread), call);
}

void emit_print(Printer *pr, TileOp *op, const Iteration *it)
{
    Expr **const args = NEW_ARRAY(pr->arena, Expr *, op->print.n + 1);
    int n = 0;
    args[n++] = common_quoted(pr->arena, arena_printf(pr->arena, "%s\n", common_print_format(pr->arena, op)));
    for (int i = 0; i < op->print.n; i++) {
        Expr *const x = op->print.args[i];
        args[n++] = lower_as(pr, dtype_is_float(x->type) ? DTYPE_F64 : DTYPE_I64, x, it);
    }
    call_once(pr, expr_call(pr->arena, DTYPE_NONE, "printf", n, args), it);
}

// A function of the target, for its effect.
void emit_external(Printer *pr, TileOp *op, const Iteration *it)
{
    Expr **const args = NEW_ARRAY(pr->arena, Expr *, op->external.n + 1);
    for (int i = 0; i < op->external.n; i++)
        args[i] = lower_as(pr, op->external.args[i]->type, op->external.args[i], it);
    call_once(pr, expr_call(pr->arena, DTYPE_NONE, op->external.name, op->external.n, args), it);
}
