// SPDX-License-Identifier: MIT
// print_trace.h - the statements of a traced build that record when a warp waits. Without a trace they print nothing.
#ifndef KILN_LOWER_GPU_PRINT_ROLES_PRINT_TRACE_H
#define KILN_LOWER_GPU_PRINT_ROLES_PRINT_TRACE_H

#include "lower/gpu/print/build/printer.h"

// Of a role's warps, by the lane of which `records` is true; NULL: it is alone.
void begin_trace(Printer *pr, const ScheduleRole *role, Expr *records);
void end_trace(Printer *pr);
// Around a wait; a loop has the first at the beginning of its body, and the last after itself.
void trace_begins(Printer *pr, const Action *action);
void trace_ends(Printer *pr, const Action *action);

#endif
