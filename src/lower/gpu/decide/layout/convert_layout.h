// SPDX-License-Identifier: MIT
// convert_layout.h - fragments copied to fragments of another layout, and to tiles in shared memory.
#ifndef KILN_LOWER_GPU_DECIDE_LAYOUT_CONVERT_LAYOUT_H
#define KILN_LOWER_GPU_DECIDE_LAYOUT_CONVERT_LAYOUT_H

#include "lower/gpu/plans/convert_layout.h"
#include "lower/gpu/decide/actions/actions.h"

// ---- convert_layout.c: deciding
bool copy_is_transfer(Lowering *lo, const TileOp *op);
const TransferPlan *plan_copy_transfer(Lowering *lo, const TileOp *op); // NULL: it is none
// Between two whole fragments: such a copy leaves each the layout that its other uses give it.
bool copies_fragment(Lowering *lo, const TileOp *op);
// How values get from one layout to another by what this GPU has and printing can print; false: not at all.
bool find_conversion(const Lowering *lo, const TileInfo *from, const Layout *to, Conversion *how);
// Through shared memory: words in vectors or 16-bit matrices, part by part; else element by element.
bool converts_in_pieces(const Conversion *how, DType type);
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

#endif
