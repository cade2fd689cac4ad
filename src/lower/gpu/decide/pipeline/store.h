// SPDX-License-Identifier: MIT
// store.h - stores through staging: what is decided (store.c) and printed (print_store.c).
#ifndef KILN_LOWER_GPU_DECIDE_PIPELINE_STORE_H
#define KILN_LOWER_GPU_DECIDE_PIPELINE_STORE_H

#include "lower/gpu/decide/actions/actions.h"
#include "layout/convert.h"
#include "lower/gpu/decide/pipeline/map.h"

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
    SharedTransfer fill;     // of a warp's box, transposed: of a group's; not of 8-bit elements
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

// ---- store_again.c
bool may_store_again(Lowering *lo, const TileOp *op); // the same elements, in another turn of a loop

// ---- store.c
const TileInfo *staged_fragment(Lowering *lo, const TileOp *op); // that a copy stores whole; NULL: it is none
bool store_is_staged(Lowering *lo, TileOp *op);
bool store_is_transposed(Lowering *lo, TileOp *op); // by a whole group, of a transposed product
int staged_store_bytes(Lowering *lo, TileOp *op);
void end_stores(Lowering *lo);           // they have been read
void finish_staged_stores(Lowering *lo); // their bytes are in the tensors
void act_staged_store(Lowering *lo, TileOp *op, Action action);
void act_staging_done(Lowering *lo);

// ---- print_store.c
void print_store(Printer *pr, const StorePlan *plan);
void print_store_wait(Printer *pr, const Action *action);
void print_boxes(Printer *pr, const Action *action);

#endif
