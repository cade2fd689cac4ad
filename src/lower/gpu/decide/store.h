// SPDX-License-Identifier: MIT
// store.h - stores through staging: what is decided (store.c) and printed (print_store.c and
// print_transposed_store.c).
#ifndef KILN_LOWER_GPU_DECIDE_STORE_H
#define KILN_LOWER_GPU_DECIDE_STORE_H

#include "lower/gpu/decide/actions.h"
#include "lower/gpu/decide/map.h"

// Of transposed stores.
enum { GROUP_COLUMNS = 64, BOX_ROW_BYTES = 128 };

typedef struct Staging {
    const TileInfo *tile;
    DType type;        // as stored
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
    int map;                 // of its boxes
    bool frees_staging;      // with a part: the group waits until its staging is free
    bool issues_early;       // with a part: the next step's first products (early_issue.c)
    Expr *aligned;           // of Tile IR: the launch's strides allow boxes; NULL: always
    const MapPlan *elements; // otherwise
} StorePlan;

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

// ---- store.c
const TileInfo *staged_fragment(Lowering *lo, const TileOp *op); // that a copy stores whole; NULL: it is none
bool store_is_staged(Lowering *lo, TileOp *op);
int staged_store_bytes(Lowering *lo, TileOp *op);
void end_stores(Lowering *lo);           // they have been read
void finish_staged_stores(Lowering *lo); // their bytes are in the tensors
void act_staged_store(Lowering *lo, TileOp *op, Action action);
void act_staging_done(Lowering *lo);

// ---- store_again.c
bool may_store_again(Lowering *lo, const TileOp *op); // the same elements, in another turn of a loop

// ---- transposed_store.c
bool store_is_transposed(Lowering *lo, TileOp *op); // by a whole group, of a transposed product
int transposed_store_bytes(const Lowering *lo, const TileOp *op);

// ---- print_store.c
void print_store(Printer *pr, const StorePlan *plan);
void print_store_wait(Printer *pr, const Action *action);
void print_group_done(Printer *pr);
Expr *staging_address(Printer *pr, Expr *offset); // of the group's part; offset: NULL or more
void emit_box_store(Printer *pr, const TileOp *op, int map, Expr *box, Expr **coordinates);

// ---- print_transposed_store.c
void print_transposed(Printer *pr, const StorePlan *plan);

#endif
