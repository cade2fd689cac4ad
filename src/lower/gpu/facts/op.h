// SPDX-License-Identifier: MIT
// op.h - what is noted about operations of Tile IR, and where one group of warps must wait for another.
#ifndef KILN_LOWER_GPU_FACTS_OP_H
#define KILN_LOWER_GPU_FACTS_OP_H

#include "ir/tile.h"

typedef struct Product Product;       // product.h
typedef struct Iteration Iteration;   // elementwise.h
typedef struct Multistage Multistage; // plans/multistage.h
typedef struct Im2col Im2col;         // im2col.h

// What a view has of a slice that a tile is stored to. NULL: it has all.
typedef struct Window {
    Expr *fits; // a test
    Expr *rows; // so many of the tile's first rows
} Window;

// What passes note about an operation.
typedef struct OpInfo {
    const TileOp *op;
    bool fetched; // a copy that the producer makes
    bool barrier_before;
    int barrier_group;              // of one group alone; -1: of all consumers
    bool orders_tensors;            // the barrier does: staged stores are over before it
    bool fills;                     // a statement of the producer group
    bool is_row_index, loads_early; // one that works out which rows to gather, from elements loaded a step before
    bool has_row_indices;           // of a pipeline
    bool is_tail;                   // a copy that goes with the conversion before it (register_prefetch.c)
    bool syncs_all;                 // no group barrier will do
    bool staging_is_free;           // while deciding: of a transposed store, since the last barrier
    void *accesses;                 // not ordered yet after it (hazards.c)
    void *shared_accesses;          // shared buffers that it reads or writes (accesses.c)
    Product *product;
    Multistage *multistage; // of a pipeline
    TileOp *map;            // a copy, fill or tile atomic as a forall
    bool merges_rows;       // a copy: the tile's rows are the tensor's dimensions but the last, one after the other
    const Window *window;   // of a store to a tensor in place of a view; else NULL
    const Im2col *im2col;   // of a copy whose rows a linear index counts, and of its map; else NULL
    bool is_looked_up;      // a gather, whose lines are (gather.c)
    bool went_ahead;        // while deciding: with the first box of a run (producer.c)
    const Iteration *loads; // of a copy, where they are made before it (early.c)
    int order;              // pre-order number
    TileOp *block;          // first op of the block that holds it
    TileOp *parent;         // the op whose block it is in; NULL: the kernel's body
} OpInfo;

// One group of placed statements tells another what it has done: it arrives after an op, the other waits before one.
typedef struct GroupBarrier {
    TileOp *after, *before; // of one block
    int from, to;           // groups
    int barrier;            // its named barrier
    bool fences;            // what was stored, wgmma will read
} GroupBarrier;

#endif
