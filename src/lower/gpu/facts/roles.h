// SPDX-License-Identifier: MIT
// roles.h - whose code is decided or printed, and the frame around the roles.
#ifndef KILN_LOWER_GPU_FACTS_ROLES_H
#define KILN_LOWER_GPU_FACTS_ROLES_H

#include "lower/gpu/decide/actions.h"

// ---- roles.c
Expr *fetch_alignment(Lowering *lo); // Tile IR: the strides that boxes need, of all fetched tensors; NULL: proved
void enter_role(Lowering *lo, const ScheduleRole *role);
void use_elements(Lowering *lo); // the producer, where strides allow no boxes: all its threads move elements
void leave_role(Lowering *lo);

// ---- print_roles.c
LoopUnit *print_kernel(Lowering *lo);                // with the launch plan; NULL: a diagnostic was reported
void begin_boxes(Printer *pr, const Action *action); // SCOPE_ALIGNED; SCOPE_PLAIN: boxes always can be used
void begin_elements(Printer *pr);
void end_boxes(Printer *pr, const Action *action);

#endif
