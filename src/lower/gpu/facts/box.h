// SPDX-License-Identifier: MIT
// box.h - slices of tensors as boxes, for the files that move them (box.c finds them, box_copy.c says what of them a CTA
// copies, tensor_maps.c which map they go by, print/copies/tma.c prints the copies).
#ifndef KILN_LOWER_GPU_FACTS_BOX_H
#define KILN_LOWER_GPU_FACTS_BOX_H

#include "lower/gpu/facts/im2col.h"
#include "lower/gpu/facts/lowering.h"

enum {
    BOX_RANK = 5, // dimensions, at most
    BOX_ALIGN = 128
}; // bytes, of a box's place in shared memory

// A slice that is fetched, as a box of the tensor under it.
typedef struct Box {
    Buffer *tensor;
    Expr *start[MAX_RANK];
    int64_t width[MAX_RANK]; // 1 for indices
    bool is_range[MAX_RANK];
    Expr *step[MAX_RANK]; // from one element to the next, known at launch; NULL: 1
    int cut;              // the dimension of which only `skip` .. `rows` may be inside the views; -1: none
    Expr *skip, *rows;
} Box;

// A TMA tensor map that the launch makes: a tensor cut into boxes.
struct TensorMap {
    Buffer *tensor;
    int box[5];    // fastest dimension first; columns and rows where they are walked
    Expr *step[5]; // as in Box; of all that are walked
    const Im2col *im2col;
    int swizzle;
    int index;
};

// Which part of a copy is this CTA's, where the cluster fetches it once: an n-th of the panels or of the slowest
// dimension that is wider than 1. Where neither divides, and where a view may end within the box, so that each part
// would take registers of its own, the CTAs take copies in turn.
typedef struct Share {
    int n;                   // CTAs; 1: it is not shared
    int panels;              // of each CTA, where panels are divided; else 0
    int along, width, bytes; // the divided dimension, a part of it, and the bytes that one fills; -1: none is
    int whole;               // the CTA that fetches all; -1: each fetches a part
} Share;

// What printing must know of a copy.
typedef struct BoxCopy {
    const TileInfo *tile;
    const Ring *ring; // that it fills; NULL: the box is only prefetched
    Box box;          // this CTA's part
    Share share;
    const Im2col *im2col; // its rows are walked; else NULL
    Expr *first;          // row of the tile; NULL: 0
    bool of_tensor;       // the slice is a tensor's, not a view's
    bool opens;           // it waits for its slot itself, once what its box needs is worked out
    int map;              // of a cut box the first
    struct BoxCopy *next; // of a run; NULL: it is the last
} BoxCopy;

// ---- box_copy.c: deciding
bool copy_opens_ring(Lowering *lo, const TileOp *op, const Ring *ring);
const BoxCopy *plan_box_copy(Lowering *lo, TileOp *op, const Ring *ring);
const BoxCopy *plan_box_run(Lowering *lo, const Ring *ring, int *boxes); // all that fill it, so many

// ---- tensor_maps.c: deciding
int map_of_copy(Lowering *lo, const BoxCopy *copy);
bool maps_suffice(Lowering *lo); // false: a launch cannot carry them all, which is reported
// The map of boxes of this slice whose rows are `columns` elements; when rows > 0 a box has so many: of the dimension nearest
// the last, and where that has fewer, of the next ones.
int map_of_slice(Lowering *lo, const Region *region, int columns, int rows, int swizzle);

// ---- box.c
bool copy_is_box(Lowering *lo, const TileOp *op);   // tensor to shared tile, by TMA
bool copy_is_cut(Lowering *lo, const TileOp *op);   // of a view that may end within the box
bool copy_is_small(Lowering *lo, const TileOp *op); // a few 4-byte elements in a row, at any stride
bool is_copy_into(const TileOp *op, const Buffer *tile);
int tma_bytes(Lowering *lo, const TileOp *op);
bool slice_is_box(Lowering *lo, const Region *region, int rows, int columns);
// Whether each box of so many rows is whole ones of the slice's fastest dimensions of rows, or a part of one.
bool boxes_divide_rows(const Buffer *tensor, const Sub *subs, int64_t rows);
bool find_box(Lowering *lo, const Region *region, Box *box);
Expr *steps_fit(Lowering *lo, const Box *box); // what the launch's numbers must be for its tensor map; NULL: proved
bool box_has_steps(const Box *box);
bool box_widths(Lowering *lo, const Region *region,
                int64_t *widths);                      // of a tensor, in any shape; slowest dimension first
bool is_rows_of_tile(const Region *dst, Expr **first); // all of a tile (NULL), or some of its rows, from `first` on
bool is_not_negative(const Lowering *lo, const Expr *x);
bool is_known_at_launch(const Expr *x); // a function of symbols and scalar arguments

// ---- box_pieces.c: Tile IR that tests the launch's numbers; NULL: proved
Expr *copy_is_aligned(Lowering *lo, const TileOp *op); // all that its box needs
Expr *strides_are_aligned(Lowering *lo, const Buffer *tensor);
Expr *slice_is_aligned(Lowering *lo, const Region *region); // and a box may begin where it does
// False: neither proved nor known at launch.
bool begins_at_piece(Lowering *lo, const Buffer *tensor, Expr *start, Expr **test);

#endif
