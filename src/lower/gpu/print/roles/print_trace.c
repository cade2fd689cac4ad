// SPDX-License-Identifier: MIT
// print_trace.c - printing: the calls of cuda/trace in a traced build.
//
// before: decide_trace() has numbered the actions       after: one lane of each warp of a role records them
#include "lower/gpu/print/roles/print_trace.h"
#include "lower/gpu/print/build/build.h"

static Expr *buffer(Printer *pr) { return literal(pr, DTYPE_U64, "kp.trace"); }

void begin_trace(Printer *pr, Expr *records)
{
    if (!pr->lo->target->trace) return;
    if (!records) records = expr_bool(pr->arena, true);
    pr->trace = emit_declare(pr, DTYPE_U32, "trace", call_expr(pr, DTYPE_U32, "trace_begin", 2, buffer(pr), records));
}

void end_trace(Printer *pr)
{
    if (pr->trace) emit_call(pr, "trace_end", 2, buffer(pr), var_of(pr, pr->trace));
    pr->trace = NULL;
}

static void mark(Printer *pr, const Action *action, bool is_end)
{
    if (!pr->trace || !action->trace) return;
    const uint32_t event = (uint32_t)action->trace * 2 + is_end;
    emit_call(pr, "trace_mark", 3, buffer(pr), var_of(pr, pr->trace), u32_const(pr, event));
}

void trace_begins(Printer *pr, const Action *action) { mark(pr, action, false); }
void trace_ends(Printer *pr, const Action *action) { mark(pr, action, true); }
