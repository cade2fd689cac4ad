// SPDX-License-Identifier: MIT
// producer.h - the producer's code, for the files that print it: producer.c, needs.c, ask.c, place_loop.c.
#ifndef KILN_LOWER_CUDA_PRODUCER_H
#define KILN_LOWER_CUDA_PRODUCER_H

#include "lower/cuda/cuda.h"

// ---- needs.c
bool is_fetch(Lowering *lo, const TileOp *op);           // a copy that the producer makes, and no filler
bool makes_needed(const Lowering *lo, const TileOp *op); // a scalar
bool has_work(Lowering *lo, TileOp *op);                 // the op, or what is inside it, does
bool declare_again(Lowering *lo, TileOp *op);            // a needed scalar, of another step; false: it is none

// ---- ask.c
void ask_ahead(Lowering *lo, TileOp *op, int first,
               int end); // for fetches of the pipeline's next step, those from `first` on

#endif
