// SPDX-License-Identifier: MIT
// convert_layout.h - fragments copied to fragments of another layout, and to tiles in shared memory.
#ifndef KILN_LOWER_GPU_DECIDE_LAYOUT_CONVERT_LAYOUT_H
#define KILN_LOWER_GPU_DECIDE_LAYOUT_CONVERT_LAYOUT_H

#include "layout/convert.h"
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/facts/elementwise.h"

typedef struct ConversionPlan {
    PlanForm form; // PLAN_CONVERSION
    const TileInfo *from, *to;
    Conversion how;
    bool by_pieces;  // through shared memory by `store` and `load`; else element by element
    int rows, parts; // of those so many rows at a time
    SharedTransfer store, load;
} ConversionPlan;

// One side of it: what goes to the scratch, or comes from there.
typedef struct ConversionPart {
    PlanForm form; // PLAN_CONVERSION_PART
    const ConversionPlan *plan;
    int part;
    bool is_load;
} ConversionPart;

// A whole fragment stored by stmatrix into a tile that products read.
typedef struct TransferPlan {
    PlanForm form; // PLAN_TRANSFER
    const TileInfo *from, *to;
    SharedTransfer how;
} TransferPlan;

// ---- convert_layout.c: deciding
bool copy_is_transfer(Lowering *lo, const TileOp *op);
const TransferPlan *plan_copy_transfer(Lowering *lo, const TileOp *op); // NULL: it is none
// Between two whole fragments: such a copy leaves each the layout that its other uses give it.
bool copies_fragment(Lowering *lo, const TileOp *op);
// Whether both have layouts, which differ, and the values can get from one to the other. plan: NULL, if unwanted.
bool plan_conversion(Lowering *lo, const TileOp *op, ConversionPlan *plan);
// ---- convert_reads.c
// Of the forall's fragments this one does not follow the others: one of them is read from a copy. False: none can be.
bool convert_read(Lowering *lo, TileOp *forall, const MapUses *uses, TileInfo *tile);
// The same of this fragment alone, which no product fixed: by vectors, or within warps, or not at all.
bool convert_fragment(Lowering *lo, TileOp *forall, const TileInfo *tile, const Layout *wanted);

void explain_conversion(Lowering *lo, const TileOp *op); // nothing, if it is none
int conversion_scratch_bytes(Lowering *lo, const TileOp *op);
void act_conversion(Lowering *lo, TileOp *op, const ConversionPlan *plan);

// ---- print_convert_layout.c
void print_layout_conversion(Printer *pr, const ConversionPlan *plan);
void print_conversion_part(Printer *pr, const ConversionPart *side);

// ---- print_transfer.c
void print_copy_transfer(Printer *pr, const TransferPlan *plan);

#endif
