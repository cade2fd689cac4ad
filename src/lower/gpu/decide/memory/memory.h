// SPDX-License-Identifier: MIT
// memory.h - how much shared memory a CTA can have.
#ifndef KILN_LOWER_GPU_DECIDE_MEMORY_MEMORY_H
#define KILN_LOWER_GPU_DECIDE_MEMORY_MEMORY_H

#include "lower/gpu/facts/lowering.h"

int shared_bytes_max(const Lowering *lo);     // of a CTA
int ctas_of_shared_bytes(const Lowering *lo); // that a multiprocessor has room for, once all is placed

#endif
