// SPDX-License-Identifier: MIT
// schedule.h - what one kernel does on a GPU, said completely, before a character of CUDA is printed.
//
// A kernel's CTA is a set of *roles*: the producer, which copies ahead, and the consumers, which compute; where the source
// places statements on warp groups, every group of consumers is a role of its own. A role is a tree of *actions* in
// structured control flow. Roles share tiles in shared memory, through rings (slots with a full and an empty mbarrier each)
// and through barriers. The tables beside the roles say where everything lies and how many arrivals complete what.
//
// Deciding makes the schedule from Tile IR with build.h; schedule_verify() (verify.h) refuses one that is wrong;
// schedule_dump() (dump.h) shows it; printing walks each role once and decides nothing. A schedule is not changed once it is
// made.
//
//     before: Tile IR, storage assigned, rings and barriers found, shared memory placed
//     after:  Loop IR is a function of the schedule and of the tables of the deciding passes
//
// Words: a *fill* of a ring is one pass of its slots through full and empty; fill number n lies in slot n modulo the number of
// slots. Every role counts the fills of a ring for itself (its ring state), from 0, and advances at the end of the block
// that declares the ring's tiles.
#ifndef KILN_LOWER_GPU_SCHEDULE_SCHEDULE_H
#define KILN_LOWER_GPU_SCHEDULE_SCHEDULE_H

#include "layout/layout.h"
#include "lower/gpu/schedule/action.h"

// ---- tables

typedef enum TilePlace { TILE_REGISTERS, TILE_SHARED } TilePlace;
typedef enum TileOwner { OWNER_CTA, OWNER_GROUP, OWNER_WARP } TileOwner;

typedef struct ScheduleTile {
    const char *name;     // of the source
    const Buffer *buffer; // NULL in schedules made by hand
    Span span;
    TilePlace place;
    DType type;
    int rank;
    int64_t shape[MAX_RANK];
    const char *layout; // in words: "swizzle 128", "m64n128 accumulator"
    const char *why;    // of a fragment in shared memory: the reason; NULL: none was needed
    // in registers
    int registers;          // of a thread, 32 bits each
    const Layout *fragment; // which thread holds which element; NULL in schedules made by hand
    // in shared memory
    const SharedLayout *shared; // where an element lies; NULL: staging, scratch, schedules made by hand
    int offset, bytes, slots;   // of one slot; the tile takes bytes * slots from offset on
    int ring;                   // that fills it; NO_RING: the consumers' threads do, between barriers
    const TileOp *loop;         // several slots and no ring: slot = step of this source loop, modulo slots
    TileOwner owner;            // who has a part of its own that nobody else accesses
    int parts, part_bytes;      // so many parts, of the warp groups, one after the other; 0: it is not divided
    bool is_over;               // it may lie where other tiles do, while their contents are not needed
    uint32_t groups;            // of consumers that hold it; 0: all
} ScheduleTile;

typedef struct ScheduleRing {
    const char *name; // of its tiles: "k", "k v"
    int slots;
    int full_count, empty_count;   // arrivals that complete a phase
    int elements_count;            // of full, where the launch's strides allow no boxes; 0: the same
    int full_offset, empty_offset; // of the first slot's mbarriers in shared memory
    int bytes;                     // that a fill's copies bring, where one arrival announces all; else 0
    bool by_consumers;             // one group of consumers fills it for others
    bool across_cluster;           // CTAs of the cluster write into each other's
} ScheduleRing;

// ---- roles

typedef enum RoleKind { ROLE_OF_PRODUCER, ROLE_OF_CONSUMERS } RoleKind;

typedef struct ScheduleRole {
    RoleKind kind;
    const char *name; // "producer", "consumers", "consumer 1"
    int first_thread, threads;
    int group;     // of consumers that have roles of their own; -1: all of them are one role
    int registers; // of a thread (setmaxnreg); 0: as at launch
    int trace;     // of a traced build: number of the event that names the role; else 0
    bool sets_own; // the role sets them itself; else all roles of consumers have the same, and set them together
    Action *body;
} ScheduleRole;

// ---- what a traced build records

// A wait, or the steps of a loop. Steps hold what they contain, waits hold nothing. One of kind "role" says whose track it is.
typedef struct TraceEvent {
    const char *kind; // "full", "empty", "copies", "stores", "products", "barrier", "cluster"; "step", "tile"; "role"
    const char *what; // "full slot of a b", "step of k"
    const char *role; // of ScheduleRole
    Span span;        // the statement that waits or has the steps; source NULL: none
} TraceEvent;

typedef struct Schedule {
    Arena *arena;
    const char *kernel, *target;
    VEC(ScheduleTile *) tiles;
    VEC(ScheduleRing *) rings;
    VEC(ScheduleRole *) roles;
    VEC(TraceEvent) trace;                   // Action.trace - 1 is the place of its event; empty: nothing is recorded
    int threads, shared_bytes, shared_limit; // of a CTA
    int register_limit;                      // of a multiprocessor, for each of the CTAs that it holds
    int launch_registers;                    // of a thread, where roles set none
    int cluster;                             // CTAs; 1: none
    bool is_persistent;                      // ACTION_GRID may have more than one iteration
    bool has_async_proxy;                    // sm_90 and later: fences matter
} Schedule;

#endif
