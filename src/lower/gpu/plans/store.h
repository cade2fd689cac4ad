// SPDX-License-Identifier: MIT
// store.h - stores of fragments through staging in shared memory.
#ifndef KILN_LOWER_GPU_PLANS_STORE_H
#define KILN_LOWER_GPU_PLANS_STORE_H

#include "layout/convert.h"
#include "lower/gpu/plans/map.h"

// Of transposed stores.
enum { GROUP_COLUMNS = 64, BOX_ROW_BYTES = 128 };

// Each box of it is filled alike, from as many registers.
typedef struct Staging {
    const TileInfo *tile;
    bool transposed;   // of a transposed product: a warp has 16 columns of all rows, else 16 rows
    int rows, columns; // of a box
    int n;             // boxes of a warp
    int boxes;         // for which there is room
    int box_bytes, swizzle;
} Staging;

// Where a warp's box stands, from its first one on; and the first of its registers.
typedef struct BoxCoordinates {
    int row, column, first;
} BoxCoordinates;

typedef struct StorePlan {
    PlanForm form; // PLAN_STORE
    TileOp *op;
    Staging staging; // unless it is transposed
    bool is_transposed;
    SharedTransfer fill;     // of a warp's box; transposed: of a group's, each a panel
    Layout threads;          // where each warp's first box stands in the tile; transposed: each group's
    BoxCoordinates *place;   // of a warp's boxes
    int map;                 // of its boxes
    bool frees_staging;      // of warps' boxes, with parts: the group waits until its staging is free
    Expr *aligned;           // of Tile IR: the launch's strides, and the view, allow boxes; NULL: always
    Expr *rows;              // of Tile IR: so many of the tile are stored, others are outside the view; NULL: all
    int warp_rows;           // of a warp, from its first to its last: it sends boxes where all of them are stored
    const MapPlan *elements; // where there are no boxes
} StorePlan;

// Boxes that are filled and sent together: of the parts of a store that fill and that send them.
typedef struct BoxesPlan {
    PlanForm form; // PLAN_BOXES
    const StorePlan *store;
    int first, n; // of a warp; transposed: all of a group's
} BoxesPlan;

// Between boxes: swizzled ones begin at multiples of 1024 bytes.
static inline int box_stride(const Staging *plan)
{
    return plan->box_bytes < SHARED_ALIGN ? SHARED_ALIGN : plan->box_bytes;
}

// So many are sent by one commit.
static inline int sent_together(const Staging *plan) { return plan->boxes > 2 ? plan->boxes : 1; }

// Columns of one box of a transposed store.
static inline int transposed_columns(const TileOp *op)
{
    return BOX_ROW_BYTES * 8 / dtype_bits(op->copy.dst.buffer->type);
}

#endif
