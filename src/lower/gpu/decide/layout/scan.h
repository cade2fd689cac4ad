// SPDX-License-Identifier: MIT
// scan.h - inclusive sums along a dimension: what is decided (scan.c) and printed (print_scan.c).
#ifndef KILN_LOWER_GPU_DECIDE_LAYOUT_SCAN_H
#define KILN_LOWER_GPU_DECIDE_LAYOUT_SCAN_H

#include "lower/gpu/decide/actions/actions.h"

enum { SCAN_REGISTERS_MAX = 64 };

typedef struct ScanPlan {
    const TileOp *op;
    Partition partition;
    bool in_registers;
} ScanPlan;

// ---- scan.c
void act_scan(Lowering *lo, TileOp *op);

// ---- print_scan.c, print_scan_registers.c
void print_scan(Printer *pr, const ScanPlan *plan);
void print_register_scan(Printer *pr, const TileOp *op);

// ---- scan.c: deciding
bool scans_in_registers(Lowering *lo, const TileOp *op); // as far as the layout is known
int scan_scratch_bytes(Lowering *lo, const TileOp *op);

#endif
