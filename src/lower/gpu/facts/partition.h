// SPDX-License-Identifier: MIT
// partition.h - how many threads a CTA has, and how they divide into groups.
#ifndef KILN_LOWER_GPU_FACTS_PARTITION_H
#define KILN_LOWER_GPU_FACTS_PARTITION_H

#include "lower/gpu/facts/lowering.h"

void choose_partition(Lowering *lo);
bool may_have_groups(const Lowering *lo, int groups); // so many it could have
int partition_threads(Partition partition);
int consumer_threads(const Lowering *lo); // of `partition`
int all_threads(const Lowering *lo);      // of the consumers
bool has_room_for_producer(const Lowering *lo);
int producer_threads(const Lowering *lo);

#endif
