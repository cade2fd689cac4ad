// SPDX-License-Identifier: MIT
// panels.h - accumulators stored into shared tiles that products read.
#ifndef KILN_LOWER_GPU_DECIDE_PANELS_H
#define KILN_LOWER_GPU_DECIDE_PANELS_H

#include "lower/gpu/decide/actions.h"

typedef struct PanelsPlan {
    PlanForm form; // PLAN_PANELS
    const TileInfo *from, *to;
    Division division;
    int row_blocks, columns; // of one group
} PanelsPlan;

const PanelsPlan *plan_panels(Lowering *lo, const TileOp *op); // panels.c; NULL: it is no such copy
void print_panels(Printer *pr, const PanelsPlan *plan);        // print_panels.c

// ---- panels.c: deciding
bool copy_is_panels(Lowering *lo, const TileOp *op); // an accumulator into a tile that products read

#endif
