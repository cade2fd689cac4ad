// SPDX-License-Identifier: MIT
// ring_counts.h - how many arrive at a ring's barriers, and what the producer group fills rings with.
#ifndef KILN_LOWER_GPU_FACTS_RING_COUNTS_H
#define KILN_LOWER_GPU_FACTS_RING_COUNTS_H

#include "lower/gpu/facts/lowering.h"

int ring_full_count(const Ring *ring); // arrivals that fill a buffer, where boxes can be used
// Warps that arrive each for its own rows, where no boxes can be used; 0: they do not.
int shifting_warps(const Lowering *lo, const Ring *ring);
int ring_empty_count(const Lowering *lo, const Ring *ring);
bool readers_fence(const TileInfo *tile); // of what threads stored, not its writers
bool only_gathers(const Lowering *lo);    // the producer group computes nothing but which rows

#endif
