// SPDX-License-Identifier: MIT
// store.h - stores through staging: what is decided (store.c) and printed (print_store.c).
#ifndef KILN_LOWER_GPU_DECIDE_PIPELINE_STORE_H
#define KILN_LOWER_GPU_DECIDE_PIPELINE_STORE_H

#include "lower/gpu/plans/store.h"
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/decide/pipeline/map.h"

// ---- store_again.c
bool may_store_again(Lowering *lo, const TileOp *op); // the same elements, in another turn of a loop

// ---- store.c
bool store_is_staged(Lowering *lo, TileOp *op);
bool store_is_transposed(Lowering *lo, TileOp *op); // by a whole group, of a transposed product
int staged_store_bytes(Lowering *lo, TileOp *op);
void end_stores(Lowering *lo);           // they have been read
void finish_staged_stores(Lowering *lo); // their bytes are in the tensors
void act_staged_store(Lowering *lo, TileOp *op, Action action);
void act_staging_done(Lowering *lo);

#endif
