// SPDX-License-Identifier: MIT
// warp_roles.h - which groups hold a tile, where the source places statements on groups: found while tiles are stored.
#ifndef KILN_LOWER_GPU_DECIDE_LAYOUT_WARP_ROLES_H
#define KILN_LOWER_GPU_DECIDE_LAYOUT_WARP_ROLES_H

#include "lower/gpu/facts/lowering.h"

void assign_fragment_groups(Lowering *lo);
void finish_warp_roles(Lowering *lo);

#endif
