// SPDX-License-Identifier: MIT
// store.h - stores of fragments through staging in shared memory.
#ifndef KILN_LOWER_GPU_PLANS_STORE_H
#define KILN_LOWER_GPU_PLANS_STORE_H

#include "layout/convert.h"
#include "lower/gpu/plans/map.h"

// Of transposed stores.
enum { GROUP_COLUMNS = 64, BOX_ROW_BYTES = 128 };

// Each box of it is filled alike.
typedef struct Staging {
    const TileInfo *tile;
    bool turned;       // of a transposed product: a warp has 16 columns of all rows
    int rows, columns; // of a chunk
    int chunks;        // of a warp's 16 rows in one block of rows; turned: of its 16 columns in one block of columns
    int blocks;        // of 64 rows; turned: of 64 columns
    int boxes, box_bytes, swizzle;
} Staging;

typedef struct StorePlan {
    PlanForm form; // PLAN_STORE
    TileOp *op;
    Staging staging; // unless it is transposed
    bool is_transposed;
    SharedTransfer fill;     // of a warp's box, transposed: of a group's
    int map;                 // of its boxes
    bool frees_staging;      // of warps' boxes, with parts: the group waits until its staging is free
    Expr *aligned;           // of Tile IR: the launch's strides allow boxes; NULL: always
    const MapPlan *elements; // otherwise
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
