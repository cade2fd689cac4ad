// SPDX-License-Identifier: MIT
// passes.h - passes on Tile IR that know no target. Each is a file of its own that says what holds before and after.
//
// Computing once per row what a forall does not change per column is no pass: both lowerings do it where they choose
// the order of the loops (lower/cpu/expr.c) or have the registers (the assembler, after unrolling).
#ifndef KILN_PASSES_PASSES_H
#define KILN_PASSES_PASSES_H

#include "ir/tile.h"

typedef struct Pass {
    const char *name; // a stage of `kiln dump`
    void (*run)(TileKernel *kernel);
} Pass;

void simplify(TileKernel *kernel);        // drop what is never reached, read or used
void join_indices(TileKernel *kernel);    // two indices that only occur as one number become that number
void open_views(TileKernel *kernel);      // a view that leaves out dimensions becomes what it is a view of
void whole_slices(TileKernel *kernel);    // a slice as wide as its tile begins at 0
void lift_branches(TileKernel *kernel);   // a branch that is the same for all iterations of a forall stands around it
void make_copies(TileKernel *kernel);     // a forall that copies element by element becomes a copy
void forward_copies(TileKernel *kernel);  // what reads a copy of a tile reads the tile
void sink_tiles(TileKernel *kernel);      // a tile that only a loop's body uses is one of the body
void pack_tiles(TileKernel *kernel);      // GPUs with boxes: a tile of packed elements is one of bytes
void halve_steps(TileKernel *kernel);     // GPUs: a product's step that is too large for shared memory becomes two
void split_groups(TileKernel *kernel);    // GPUs: a forall over fragments of different groups becomes one for each
void index_constants(TileKernel *kernel); // GPUs: a constant that subscripts a fragment becomes an index
void cover_fragments(TileKernel *kernel); // GPUs: a forall over part of a fragment runs over all of it
void forward_indices(TileKernel *kernel); // addresses that arithmetic makes, worked out where rows are fetched
void split_bounds(TileKernel *kernel);    // one uniform test around a forall in place of one per element
void scalar_loops(TileKernel *kernel);    // a few iterations that reduce tensors into scalars become loops
void split_quotients(TileKernel *kernel); // an index for groups of columns in place of a quotient
void widen_sums(TileKernel *kernel);      // sums that no order of loops completes together get wide tiles
void hoist_choices(TileKernel *kernel);   // branches that choose a number become choices, whose reads come first
void trace_foralls(TileKernel *kernel);   // --check: stop where iterations depend on each other

#endif
