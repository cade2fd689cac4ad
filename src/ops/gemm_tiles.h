// SPDX-License-Identifier: MIT
// gemm_tiles.h - which tiles a product is computed in, and in how many parts along K: by a cost model.
#ifndef KILN_OPS_GEMM_TILES_H
#define KILN_OPS_GEMM_TILES_H

#include "kiln/ops/gemm.h"

typedef enum GemmForm {
    GEMM_PLAIN,
    GEMM_TURNED, // computed transposed: instructions have 8 rows and 64 columns, not 64 and 8
    GEMM_TWIN,   // two, one below the other, fetch their columns of b together
} GemmForm;

typedef struct GemmShape {
    int64_t batch, m, n, k;
    kiln_type type;
    kiln_precision precision; // of f32
    bool paired;              // two products of the same a, whose tiles' columns are half of one's
    int processors;
    bool on_cpu;
    bool no_twins; // b's rows are not columns of c, or rows are copied first
} GemmShape;

typedef struct GemmChoice {
    int rows, columns, depth; // of a tile; of a step along K
    int stages;
    GemmForm form;
    int parts; // of each tile that does not fill a round
    double ns; // what the model expects
} GemmChoice;

GemmChoice gemm_choose(const GemmShape *shape);

// ---- the data of the model: gemm_costs.c, which `kiln tune --gemm-table` writes

typedef struct GemmTile {
    int rows, columns, steps, stages; // steps: of 128 bytes along K, in one
    GemmForm form;
    double factor; // of what a step takes by the other figures
} GemmTile;

// ns, and what one ns brings.
typedef struct GemmMachine {
    double tensor_flops[5];             // of one processor, by bytes of an element
    double flops_f32, flops_f64;        // by multiply-adds
    double l2_bytes, latency, step;     // of one processor; of a step of 128 bytes; of any step
    double launch, end, end_element;    // of the whole; of a tile
    double divided, part, part_element; // if there are parts: once, and of a part
    double join_bytes;                  // read by the second kernel
    double l2_all, each, bytes, memory; // L2 to all processors; memory to one and to all; once
    double straddle;                    // more bytes move where rows do not begin at lines
} GemmMachine;

// What was the fastest of those measured for a shape without a batch.
typedef struct GemmKnown {
    int bytes, m, n, k; // of an element; ascending
    int tile, parts;    // its place in gemm_tiles
} GemmKnown;

// ns that a product is expected to take by a tile in so many parts.
double gemm_cost(const GemmMachine *machine, const GemmShape *shape, const GemmTile *tile, int parts);
// The most parts that a tile may be divided into; 0: it is not considered for such a shape.
int gemm_most_parts(const GemmShape *shape, const GemmTile *tile);

extern const GemmMachine gemm_machine;
extern const GemmTile gemm_tiles[]; // for elements of 1 or 2 bytes and tf32, by tensor cores
extern const int gemm_n_tiles;
extern const GemmKnown gemm_known[];
extern const int gemm_n_known;

#endif
