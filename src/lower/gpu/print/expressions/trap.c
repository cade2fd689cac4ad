// SPDX-License-Identifier: MIT
// trap.c - a failed test on the device says where it stands in the source, and stops the kernel.
#include "lower/gpu/print/expressions/expressions.h"

// What a trap says: the kernel, the place in the source, and this.
Expr *trap_text(Printer *pr, Span span, const char *message)
{
    pr->traps = true;
    return common_quoted(
        pr->arena, arena_printf(pr->arena, "%s: %s: %s", pr->lo->kernel->name, span_where(pr->arena, span), message));
}

Expr *fault_record(Printer *pr) { return expr_call(pr->arena, DTYPE_U64, "kp.fault", -1, NULL); }

void emit_trap(Printer *pr, Span span, const char *message)
{
    emit_call(pr, "trapped", 2, fault_record(pr), trap_text(pr, span, message));
}
