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
int begin_kernel(Lowering *lo); // returns the words of parameters
void end_kernel(Lowering *lo);
void print_role_begin(Lowering *lo, const ScheduleRole *role); // enters it, too
void print_role_end(Lowering *lo, const ScheduleRole *role);
void begin_boxes(Lowering *lo, const Action *action); // SCOPE_ALIGNED; SCOPE_PLAIN: boxes always can be used
void begin_elements(Lowering *lo);
void end_boxes(Lowering *lo, const Action *action);

#endif
