// SPDX-License-Identifier: MIT
// ring.h - rings: buffers of tiles in shared memory, each with a full and an empty mbarrier.
//
// The producer, or one group of consumers, fills a buffer and the consumers release it. What a ring is in the schedule:
// ScheduleRing (schedule/schedule.h).
#ifndef KILN_LOWER_GPU_FACTS_RING_H
#define KILN_LOWER_GPU_FACTS_RING_H

#include "lower/gpu/facts/tile.h"

// A position in a ring: advances once per pass through the block that declares the ring's tiles (per stage label).
typedef struct RingState {
    TileOp *block; // first op of the block
    int stage;     // label, when the block is a rotated pipeline's body
    int buffers;
} RingState;

// Tiles that are filled together, first used together and released together: one pair of mbarriers per buffer.
struct Ring {
    int index;
    TileInfo *tiles[8];
    int n_tiles;
    RingState *ring_state;
    TileOp *first_use, *last_use;     // ops of the declaring block
    TileOp *first_of[8], *last_of[8]; // of each group where statements are placed; NULL: no use
    TileOp
        *done_in[8]; // of each: its last use is a pipeline, whose steps are done with it after this product; else NULL
    TileOp *first_fetch, *last_fetch; // ops of the declaring block around all copies into it
    bool is_filled;                   // by statements of the producer's threads (producer_group.c)
    bool is_gathered;                 // all by cp.async: every thread arrives when its own are done (gather.c)
    bool is_consumer_ring;            // filled by a group of consumers (consumer_rings.c)
    int source_group;                 // that one
    TileOp *first_fill, *last_fill;   // its first store, and the op after which it tells the others
    bool has_gathers;                 // some are: so does it, beside the warps that arrive for the rest
    bool by_lanes;                    // filled element by element by the producer's first warp
    bool is_plain;                    // every copy is made in every pass: one arrival announces all bytes
    bool is_run;                      // by boxes one after another of its block, as one copy (fetch.c)
    bool is_released;                 // while deciding: earlier than its last use: all was taken to registers
    bool is_product_only;             // read by wgmma alone: no lane of a warp lags
    bool is_loaded;                   // read by loads, too: the async proxy overwrites it after a fence
    bool is_shared;                   // CTAs of a cluster write into each other's: consumers of all release a buffer
    int bytes;                        // of all tiles, when plain
    int full, empty;                  // offsets of the barriers
};

#endif
