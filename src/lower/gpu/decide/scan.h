// SPDX-License-Identifier: MIT
// scan.h - inclusive sums along a dimension: what is decided (scan.c) and printed (print_scan.c).
#ifndef KILN_LOWER_GPU_DECIDE_SCAN_H
#define KILN_LOWER_GPU_DECIDE_SCAN_H

#include "lower/gpu/decide/actions.h"

enum { SCAN_REGISTERS_MAX = 64 };

typedef struct ScanPlan {
    const TileOp *op;
    Partition partition;
    bool in_registers;
} ScanPlan;

// ---- scan.c
void act_scan(Lowering *lo, TileOp *op);
bool static_widths(const Region *region, int64_t *widths);
// The modes of a dimension, the fastest first. False: they do not count it through one after the other.
bool order_modes(const Layout *layout, int axis, int *order, int *n);
bool is_of_warps(const LayoutMode *mode);

// ---- print_scan.c, print_scan_registers.c
void print_scan(Printer *pr, const ScanPlan *plan);
void print_register_scan(Printer *pr, const TileOp *op);

#endif
