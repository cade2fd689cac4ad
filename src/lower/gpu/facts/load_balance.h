// SPDX-License-Identifier: MIT
// load_balance.h - grids whose instances have unequal work.
#ifndef KILN_LOWER_GPU_FACTS_LOAD_BALANCE_H
#define KILN_LOWER_GPU_FACTS_LOAD_BALANCE_H

#include "lower/gpu/facts/lowering.h"

int find_imbalance(Lowering *lo, bool *in_pairs); // the coordinate that the order goes by; -1: none

#endif
