// SPDX-License-Identifier: MIT
// tile.h - what is decided of one tile: where it is stored, in which layout, and who fills it.
//
// A tile is a fragment in registers, or lies in shared memory. Of a fragment: its layout says which thread holds which
// element in which register. In shared memory: the offset and layout of its bytes, and what makes their contents
// visible (a ring, a multistage pipeline, barriers).
#ifndef KILN_LOWER_GPU_FACTS_TILE_H
#define KILN_LOWER_GPU_FACTS_TILE_H

#include "layout/layout.h"
#include "ir/tile.h"

typedef struct Ring Ring;             // ring.h
typedef struct Multistage Multistage; // plans/multistage.h

typedef enum { TILE_IN_REGISTERS, TILE_IN_SHARED } TileStorage;

// Everything decided about one tile (not views, not tensors).
typedef struct TileInfo {
    Buffer *buffer;
    TileStorage storage;
    const char *why; // why a fragment lives in shared memory, for explain
    // in registers
    bool has_layout, is_accumulator;
    bool is_partial; // while deciding: the sum (or extreme) over the threads that hold it is its value
    UpdateOp partial_with;
    bool is_split_k;    // a product's result, of which groups add up parts of the contraction
    TileOp *partial_in; // the loop for which it is
    Layout layout;
    bool is_converted;     // a copy of a fragment of another layout, which a forall reads (convert_reads.c)
    const TileOp *laid_by; // the statement that it comes from; NULL: none in particular
    bool is_packed;        // of words that hold two 16-bit elements: written by conversion, read by products
    // in shared memory
    uint32_t groups; // groups that hold it, where statements are placed; 0: every group its own copy
    bool group_writes;
    bool wants_panels; // read by a tensor-core product or moved by swizzled TMA
    int panel_most;    // columns of a panel, where groups begin at panels; 0: as many as fit
    bool is_async;     // read or written by wgmma or TMA: stores need a proxy fence
    SharedLayout shared;
    int offset;                         // bytes from the base
    int buffers;                        // of its ring
    bool alternates;                    // the threads write it to two buffers in turn (memory.c)
    Ring *ring;                         // it is filled by the producer; else NULL
    const char *why_in_place;           // its copies from tensors do not run ahead, for explain; NULL: no reason noted
    bool is_multicast;                  // each CTA of the cluster fetches a part of it for all
    bool is_exchanged;                  // or converts a part of its rows for all
    bool is_from_registers;             // its rows are converted out of a register prefetch
    int shadow_offset;                  // of a --check build: bytes from the base, one for each element (checked.c)
    bool is_unwatched;                  // there is no room for it
    bool is_filled, is_private;         // by the producer group's statements (producer_group.c): for others, for itself
    bool producer_read, producer_wrote; // while deciding: since its threads synchronised
    bool is_double_buffered;            // of the producer group: row indices of two steps (row_indices.c)
    bool has_rows_beside;               // four lanes beside each other move a row of it (choose_row_pieces)
    bool is_of_lanes;                   // or of the rows that a lane gathers, in its registers (register_prefetch.c)
    Multistage *multistage;             // it is filled by copies that run ahead of the step that reads it; else NULL
    TileOp *declared;                   // its T_TILE
    int number;                         // in the schedule
} TileInfo;

#endif
