// SPDX-License-Identifier: MIT
// action.h - one action of a role: its kind, what it accesses of the schedule's tiles, and the numbers of its kind.
//
// Actions are a tree. `next` is the action that follows in the same body; an action with a body is control flow, or does what
// its body says in the course of its work. Tiles and rings are numbers: places in the schedule's tables (schedule.h).
#ifndef KILN_LOWER_GPU_SCHEDULE_ACTION_H
#define KILN_LOWER_GPU_SCHEDULE_ACTION_H

#include "ir/tile.h"
#include "lower/gpu/schedule/action_kind.h"
#include "lower/gpu/schedule/work.h"

enum { NO_RING = -1, NO_TILE = -1 }; // in place of a number

// What an action accesses of a tile. Async: by TMA or by wgmma's reading of shared memory.
typedef struct TileAccess {
    int tile;
    bool reads, writes, is_async;
    bool is_addition; // atomic, and nothing else: in any order among themselves
    int ahead; // slots from the current one: -1 is the step before's; of a tile whose slots are numbered: the slot
    int slots; // so many from there on; 0: one
} TileAccess;

typedef struct Action Action;
struct Action {
    ActionKind kind;
    const TileOp *op; // of the source; NULL: made by a pass
    Span span;
    Action *next;
    Action *body, *otherwise; // of an action without control flow: what it does in the course of its work
    TileAccess *accesses;
    int n_accesses;
    union {
        struct {
            LoopPart part;
            int ahead; // of LOOP_AHEAD
            const TileOp *source;
        } loop; // source: the same pointer in all roles
        struct {
            const TileOp *source;
            bool is_uniform;
        } branch; // is_uniform: the same for all threads of the role
        struct {
            ScopeKind kind;
            const TileOp *source;
            int threads;
        } scope;
        struct {
            TileKind how;
        } jump; // T_BREAK, T_CONTINUE, T_RETURN
        // arrivals: how many this action makes in all, over the threads of its role (and of the cluster)
        struct {
            int ring;
            RingSlot slot;
            int arrivals, bytes;
            int tile; // of ACTION_ADVANCE with NO_RING
        } ring;
        struct {
            CopyKind how;
            int ring, bytes;
            int boxes;          // of a run; 0: it is one, or none
            bool walks;         // im2col: from a row on those that follow in a linear index
            bool shifts, ahead; // rows that begin anywhere; they are fetched a step before they are shifted
            const char *predicate;
        } copy; // ring: NO_RING, or the one it fills
        struct {
            int pending;
            bool completes;
            bool fences;       // of ACTION_STORE_WAIT: threads see the tensors as they are then
            bool is_by_groups; // of ACTION_COPY_WAIT: the copies are committed
        } wait;
        struct {
            StoreKind how;
            int bytes;
        } store;
        struct {
            const char *instruction;
            int count;
            bool is_async;
            int accumulator;
        } mma;
        struct {
            int tile;
        } registers;
        struct {
            MapKind how;
            int tile; // of all but MAP_ELEMENTS
        } map;
        struct {
            int barrier, threads;
            BarrierOf of;
        } barrier; // threads: that the barrier counts
        struct {
            DeclareKind what;
            int ring;
        } declare;
    };
    int trace;              // of a traced build: number of the event in Schedule.trace, from 1; 0: it is not recorded
    const void *print;      // what printing needs beside `op`: of the file that made the action
    const ActionWork *work; // NULL: next to nothing (control flow, barriers)
};

// Where who runs a schedule is in a loop of n steps: in step `at`, if inside. Of LOOP_AHEAD, its iterations ahead.
typedef struct LoopPlace {
    int n, at;
    bool is_inside;
    int ahead;
} LoopPlace;

// The step for which a scope's body runs there; -1: it does not run (scope_step.c).
int scope_step(ScopeKind kind, LoopPlace place);
static inline bool is_of_next_step(ScopeKind kind) { return kind == SCOPE_NEXT_STEP || kind == SCOPE_FURTHER_STEP; }

#endif
