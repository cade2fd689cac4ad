// SPDX-License-Identifier: MIT
// choose_occupancy.h - how many CTAs a multiprocessor should hold of a kernel, from its schedule for one.
#ifndef KILN_LOWER_GPU_DECIDE_MEMORY_CHOOSE_OCCUPANCY_H
#define KILN_LOWER_GPU_DECIDE_MEMORY_CHOOSE_OCCUPANCY_H

#include "lower/gpu/facts/lowering.h"

bool is_occupancy_open(const Lowering *lo); // before it is analysed: the source and the target leave it open
int choose_occupancy(Lowering *lo);         // 1: as it is; sets why_occupancy where the source leaves the choice

#endif
