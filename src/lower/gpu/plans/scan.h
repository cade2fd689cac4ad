// SPDX-License-Identifier: MIT
// scan.h - scans.
#ifndef KILN_LOWER_GPU_PLANS_SCAN_H
#define KILN_LOWER_GPU_PLANS_SCAN_H

#include "lower/gpu/facts/lowering.h"

enum { SCAN_REGISTERS_MAX = 64 };

typedef struct ScanPlan {
    const TileOp *op;
    Partition partition;
    bool in_registers;
} ScanPlan;

#endif
