// SPDX-License-Identifier: MIT
// known_values.h - what does not depend on what the consumers compute: the producer can know it.
#ifndef KILN_LOWER_GPU_DECIDE_ITERATION_KNOWN_VALUES_H
#define KILN_LOWER_GPU_DECIDE_ITERATION_KNOWN_VALUES_H

#include "lower/gpu/plans/multistage.h"

KnownValues new_known_values(Lowering *lo);
void find_unknown(KnownValues *values);
bool value_is_known(const KnownValues *values, const Expr *x);
bool path_is_known(const KnownValues *values, const TileOp *op); // conditions and loops around it, which no jump leaves

// ---- fetch.c
bool tile_is_fetchable(KnownValues *values, const TileInfo *tile);

#endif
