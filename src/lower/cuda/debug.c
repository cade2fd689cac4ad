// SPDX-License-Identifier: MIT
// debug.c - print and assert on the device; calls of its functions for their effect.
#include "lower/cuda/print.h"
#include "lower/cuda/elementwise.h"

// What a trap says: the kernel, the place in the source, and this.
Expr *trap_text(Lowering *lo, Span span, const char *message)
{
    lo->traps = true;
    return common_quoted(lo->arena,
                         arena_printf(lo->arena, "%s: %s: %s", lo->kernel->name, span_where(lo->arena, span), message));
}

Expr *fault_record(Lowering *lo) { return expr_call(lo->arena, DTYPE_U64, "kp.fault", -1, NULL); }

void emit_trap(Lowering *lo, Span span, const char *message)
{
    emit_call(lo, "trapped", 2, fault_record(lo), trap_text(lo, span, message));
}

void emit_assert(Lowering *lo, TileOp *op, const Iteration *it)
{
    if (!common_is_asserted(lo->kernel, op)) return;
    Nest nest;
    begin_if(lo, &nest, expr_unary(lo->arena, X_NOT, lower_expr(lo, op->assertion.cond, it)));
    emit_trap(lo, op->span, op->assertion.message);
    end_nest(lo, &nest);
}

// By one thread: of the iteration, or of the instance.
static void call_once(Lowering *lo, Expr *call, const Iteration *it)
{
    emit_call_if(lo, it && it->n ? replica_is_first(lo, &it->layout) : is_zero(lo, lo->thread), call);
}

void emit_print(Lowering *lo, TileOp *op, const Iteration *it)
{
    Expr **const args = NEW_ARRAY(lo->arena, Expr *, op->print.n + 1);
    int n = 0;
    args[n++] = common_quoted(lo->arena, arena_printf(lo->arena, "%s\n", common_print_format(lo->arena, op)));
    for (int i = 0; i < op->print.n; i++) {
        Expr *const x = op->print.args[i];
        args[n++] = lower_as(lo, dtype_is_float(x->type) ? DTYPE_F64 : DTYPE_I64, x, it);
    }
    call_once(lo, expr_call(lo->arena, DTYPE_NONE, "printf", n, args), it);
}

// A function of the target, for its effect.
void emit_external(Lowering *lo, TileOp *op, const Iteration *it)
{
    Expr **const args = NEW_ARRAY(lo->arena, Expr *, op->external.n + 1);
    for (int i = 0; i < op->external.n; i++)
        args[i] = lower_as(lo, op->external.args[i]->type, op->external.args[i], it);
    call_once(lo, expr_call(lo->arena, DTYPE_NONE, op->external.name, op->external.n, args), it);
}
