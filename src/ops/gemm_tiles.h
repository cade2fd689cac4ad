// SPDX-License-Identifier: MIT
// gemm_tiles.h - which tiles a product is computed in, and in how many parts along K: by a cost model.
#ifndef KILN_OPS_GEMM_TILES_H
#define KILN_OPS_GEMM_TILES_H

#include "kiln/ops/gemm.h"

typedef struct GemmShape {
    int64_t batch, m, n, k;
    kiln_type type;
    kiln_precision precision; // of f32
    bool paired;              // two products of the same a, whose tiles' columns are half of one's
    int processors;
    bool on_cpu;
} GemmShape;

typedef struct GemmChoice {
    int rows, columns, depth; // of a tile; of a step along K
    int stages;
    bool turned; // computed transposed; parts: written by single elements then
    int parts;   // of each tile that does not fill a round
    double ns;   // what the model expects
} GemmChoice;

GemmChoice gemm_choose(const GemmShape *shape);

#endif
