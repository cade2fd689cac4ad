// SPDX-License-Identifier: MIT
// roles.h - whose code is decided or printed: the role at hand, of which a walk sets what Lowering says.
#ifndef KILN_LOWER_GPU_FACTS_ROLES_H
#define KILN_LOWER_GPU_FACTS_ROLES_H

#include "lower/gpu/facts/lowering.h"

Expr *fetch_alignment(Lowering *lo); // Tile IR: the strides that boxes need, of all fetched tensors; NULL: proved
void enter_role(Lowering *lo, const ScheduleRole *role);
void use_elements(Lowering *lo);          // the producer, where strides allow no boxes: all its threads move elements
bool moves_elements(const Lowering *lo);  // the producer of boxes, where the launch allows none
int producer_issuers(const Lowering *lo); // of its threads: one issues boxes, a warp copies rows, or all fill tiles
void leave_role(Lowering *lo);

#endif
