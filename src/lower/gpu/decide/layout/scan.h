// SPDX-License-Identifier: MIT
// scan.h - inclusive sums along a dimension: what is decided (scan.c) and printed (print_scan.c).
#ifndef KILN_LOWER_GPU_DECIDE_LAYOUT_SCAN_H
#define KILN_LOWER_GPU_DECIDE_LAYOUT_SCAN_H

#include "lower/gpu/plans/scan.h"
#include "lower/gpu/decide/actions/actions.h"

// ---- scan.c
void act_scan(Lowering *lo, TileOp *op);

// ---- scan.c: deciding
bool scans_in_registers(Lowering *lo, const TileOp *op); // as far as the layout is known
int scan_scratch_bytes(Lowering *lo, const TileOp *op);

#endif
