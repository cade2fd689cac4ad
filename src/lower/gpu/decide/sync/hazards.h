// SPDX-License-Identifier: MIT
// hazards.h - what accesses are not ordered yet, as the walk of hazards.c sees it.
#ifndef KILN_LOWER_GPU_DECIDE_SYNC_HAZARDS_H
#define KILN_LOWER_GPU_DECIDE_SYNC_HAZARDS_H

#include "lower/gpu/facts/lowering.h"

// Accesses that have not been ordered since: [shared buffer][group of the access], bits are groups. Without placed
// statements all consumers count as one group.
enum { GROUPS = 8 };
typedef struct Accesses {
    uint8_t read, written;               // in this pass through the blocks around
    uint8_t read_before, written_before; // in an earlier turn of a loop around
    uint8_t read_other, written_other;   // in the turn before, of the tile's other buffer
    uint8_t added, added_before;         // by atomic additions alone, which need no order among themselves
    int read_at, written_at, added_at;   // the number of the last op that did, in this pass
} Accesses;
typedef Accesses (*State)[GROUPS];

// Whom the op at hand must wait for: by group of the earlier access.
typedef struct Conflict {
    uint32_t waits[GROUPS];
    int at;
    bool any, from_before;
} Conflict;

// What a loop made of a state, while no barrier or group barrier has come since.
typedef struct Passage {
    State before, after;
    int version, last;
} Passage;
enum { PASSAGES_MAX = 8 };
typedef struct Passages {
    Passage kept[PASSAGES_MAX];
    int n;
} Passages; // n: so many in all; the latest are kept

typedef struct Walk {
    Lowering *lo;
    State state;
    State breaks, continues; // of the loop at hand: what they leave with; NULL: there was none
    VEC(State) spare;        // to be used again
    Table passages;          // by loop
    int version;             // so many barriers of either kind have come
    const Buffer **shared;   // those that are followed: tiles in shared memory, tensors; n of them
    int n;
    int *places;     // among them, by buffer; -1: not shared
    bool changed;    // a barrier of either kind has come
    uint32_t groups; // that run the op at hand
    TileOp *op;
    Conflict conflict;
    VEC(TileOp *) in_flight; // products that may still be reading, oldest first; not where statements are placed
    int retired;             // how many of them the op at hand waits for
    int last;                // the number of the op passed last
} Walk;

// What an op, with all in it, does to the shared buffer in that place. Walks come by an op many times: it is kept.
typedef struct SharedAccess {
    int at;
    bool reads, writes, adds, stages;
} SharedAccess;
typedef struct SharedAccesses {
    VEC(SharedAccess) list;
} SharedAccesses;

// accesses.c
void find_shared(Walk *walk);
int place_of(const Walk *walk, Buffer *buffer);
const TileInfo *tile_at(const Walk *walk, int at);                // NULL: a tensor
bool only_reads(Walk *walk, TileOp *loop);                        // what is shared
const SharedAccesses *shared_accesses_of(Walk *walk, TileOp *op); // of a loop or branch, its bounds and condition alone

// group_barriers.c
int end_order(Lowering *lo, TileOp *op);          // the number of the last op inside
void pass_group_barriers(Walk *walk, TileOp *op); // that it waits for
bool use_group_barrier(Walk *walk, TileOp *op);   // of a barrier; false: one must stand
bool drop_unanswered(Lowering *lo);

#endif
