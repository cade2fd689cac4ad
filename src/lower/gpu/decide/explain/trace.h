// SPDX-License-Identifier: MIT
// trace.h - which actions of a schedule a traced build records (plan/trace.h says how).
#ifndef KILN_LOWER_GPU_DECIDE_EXPLAIN_TRACE_H
#define KILN_LOWER_GPU_DECIDE_EXPLAIN_TRACE_H

#include "lower/gpu/facts/lowering.h"

// Gives numbers to what makes a warp wait and to the loops that such waits are in, if the target is traced. For
// Target.places gives each action a place in the source. Everything else of the schedule stays as it is.
void decide_trace(Lowering *lo);

#endif
