// SPDX-License-Identifier: MIT
// print_trace.c - printing: the calls of cuda/trace in a traced build.
//
// before: decide_trace() has numbered the actions       after: one lane of each warp of a role records them
#include "lower/gpu/print/roles/print_trace.h"
#include "lower/gpu/print/build/build.h"

static Expr *buffer(Printer *pr) { return literal(pr, DTYPE_U64, "kp.trace"); }

static void mark(Printer *pr, int event, bool is_end)
{
    if (!pr->trace || !event) return;
    Expr *const number = u32_const(pr, (int64_t)event * 2 + is_end);
    emit_call(pr, "trace_mark", 3, buffer(pr), var_of(pr, pr->trace), number);
}

void begin_trace(Printer *pr, const ScheduleRole *role, Expr *records)
{
    if (!pr->lo->target->trace) return;
    if (!records) records = expr_bool(pr->arena, true);
    pr->trace = emit_declare(pr, DTYPE_U32, "trace", call_expr(pr, DTYPE_U32, "trace_begin", 2, buffer(pr), records));
    mark(pr, role->trace, false);
}

void end_trace(Printer *pr)
{
    if (pr->trace) emit_call(pr, "trace_end", 2, buffer(pr), var_of(pr, pr->trace));
    pr->trace = NULL;
}

void trace_begins(Printer *pr, const Action *action) { mark(pr, action->trace, false); }
void trace_ends(Printer *pr, const Action *action) { mark(pr, action->trace, true); }
