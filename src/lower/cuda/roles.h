// SPDX-License-Identifier: MIT
// roles.h - whose code is decided or printed, and the frame around the roles.
#ifndef KILN_LOWER_CUDA_ROLES_H
#define KILN_LOWER_CUDA_ROLES_H

#include "lower/cuda/actions.h"

// ---- roles.c
Expr *fetch_alignment(Lowering *lo); // Tile IR: the strides that boxes need, of all fetched tensors; NULL: proved
void enter_role(Lowering *lo, const ScheduleRole *role);
void use_elements(Lowering *lo); // the producer, where strides allow no boxes: all its threads move elements
void leave_role(Lowering *lo);

// ---- print_roles.c
LoopStmt *print_kernel(Lowering *lo, int *words);     // words: of parameters
void begin_boxes(Lowering *lo, const Action *action); // SCOPE_ALIGNED; SCOPE_PLAIN: boxes always can be used
void begin_elements(Lowering *lo);
void end_boxes(Lowering *lo, const Action *action);

#endif
