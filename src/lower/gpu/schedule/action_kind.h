// SPDX-License-Identifier: MIT
// action_kind.h - the kinds of actions of a schedule, and the forms that some kinds have.
//
// What is said here of a kind is what it does on the machine. The numbers that belong to it (rings, arrivals, bytes) are
// members of Action (action.h).
#ifndef KILN_LOWER_GPU_SCHEDULE_ACTION_KIND_H
#define KILN_LOWER_GPU_SCHEDULE_ACTION_KIND_H

typedef enum ActionKind {
    // control flow: these have a body
    ACTION_GRID,  // for every tile of the grid that this CTA takes
    ACTION_LOOP,  // steps of a source loop: see LoopPart
    ACTION_IF,    // body, otherwise
    ACTION_SCOPE, // a body that runs once: see ScopeKind
    // control flow: without
    ACTION_JUMP, // break, continue, return
    // rings
    ACTION_ACQUIRE, // wait until the slot is empty
    ACTION_EXPECT,  // arrive at full and announce bytes
    ACTION_ARRIVE,  // arrive at full
    ACTION_WAIT,    // wait until the slot is full
    ACTION_RELEASE, // arrive at empty
    ACTION_ADVANCE, // the role's ring state: the next slot; NO_RING: the next slot of a tile without ring
    // moving data
    ACTION_COPY,        // see CopyKind
    ACTION_COPY_COMMIT, // this thread's cp.async copies since the last commit are a group
    ACTION_COPY_WAIT,   // until this thread's cp.async copies are done, but for the last `pending` groups
    ACTION_LDMATRIX,    // shared memory to registers, as an operand
    ACTION_STORE,       // registers or shared memory to a tensor
    ACTION_STORE_WAIT,  // until bulk stores have read shared memory (or, if `completes`, written)
    ACTION_PREFETCH,    // into the L2 cache
    // products
    ACTION_MMA,      // issue; is_async: in flight until a wait
    ACTION_MMA_WAIT, // until at most `pending` groups of products are in flight
    // order
    ACTION_FENCE_ASYNC,     // what threads wrote becomes visible to TMA and wgmma
    ACTION_FENCE_REGISTERS, // registers of a tile are not accessed before this
    ACTION_BARRIER_SYNC,    // wait for `threads` at a named barrier; barrier 0: __syncthreads
    ACTION_BARRIER_ARRIVE,  // arrive and go on
    ACTION_CLUSTER_SYNC,
    ACTION_WARP_SYNC,
    // computing, with its partition over the threads
    ACTION_MAP, // elementwise work, with the reductions in it
    ACTION_SCAN,
    ACTION_ATOMIC,
    ACTION_SCALAR,  // a variable's value
    ACTION_DECLARE, // variables of the role: thread numbers, pointers, ring states
} ActionKind;

typedef enum LoopPart {
    LOOP_ALL,      // all steps
    LOOP_REST,     // the steps after the first
    LOOP_ONE_MORE, // all steps and one extra iteration: SCOPE_BUT_LAST and SCOPE_BUT_FIRST guard its halves
    LOOP_AHEAD, // all steps after `ahead` iterations of a prologue: SCOPE_STEP_AHEAD and SCOPE_HAS_STEP guard its halves
} LoopPart;

typedef enum ScopeKind {
    SCOPE_ISSUE,         // by `threads` of the producer: one that is elected, a warp, or all
    SCOPE_ANY_STEP,      // if the loop has a step at all
    SCOPE_FIRST_STEP,    // the loop's first step
    SCOPE_NO_STEP,       // if it has none
    SCOPE_LAST_STEP,     // its last, in the ring state after all others; within the loop: only if this is the last
    SCOPE_PREVIOUS_STEP, // the step before the one around it
    SCOPE_NEXT_STEP,     // the one after it; after the last step: that one again, whose copies are there
    SCOPE_FURTHER_STEP,  // the one after it, if there is one
    SCOPE_BUT_LAST,      // of LOOP_ONE_MORE: every iteration but the last
    SCOPE_BUT_FIRST,     // of LOOP_ONE_MORE: every iteration but the first, for the step before
    SCOPE_HAS_STEP,      // of LOOP_AHEAD: every iteration after the prologue
    SCOPE_STEP_AHEAD,    // of LOOP_AHEAD: the step `ahead` iterations later, if there is one
    SCOPE_ONE_GROUP,     // by one warp group of the role: number `threads`
    SCOPE_ONE_THREAD,
    SCOPE_ONE_WARP,
    SCOPE_EACH_WARP, // by so many threads of the role
    SCOPE_ALIGNED,   // SCOPE_ISSUE where the launch's strides allow boxes; otherwise all threads copy elements
    SCOPE_ROW_PART,  // of a thread's two rows in 16 only number `threads`, from 1
} ScopeKind;

typedef enum CopyKind { COPY_TMA, COPY_CP_ASYNC, COPY_LANES, COPY_THREADS } CopyKind;
// Staged, transposed, reduce: registers to staging, of which boxes are sent; these are parts of the store.
typedef enum StoreKind {
    STORE_THREADS,
    STORE_STAGED,
    STORE_TRANSPOSED,
    STORE_REDUCE,
    STORE_ATOMIC,
    STORE_BOXES,
} StoreKind;
typedef enum MapKind {
    MAP_ELEMENTS,       // the source operation
    MAP_BEGIN_PARTIALS, // threads that hold the same element make partial results: its value in one, zeros in the others
    MAP_COMBINE_GROUPS,  // the warp groups' partial results are added up
    MAP_COMBINE_THREADS, // the threads' partial results become their sum or extreme
    MAP_CONVERT,         // a fragment's values go to a fragment of another layout
    MAP_STAGE,           // and to boxes of staging
} MapKind;
// What an ACTION_DECLARE prints: text that means nothing to the schedule, and is not dumped.
typedef enum DeclareKind {
    DECLARE_EARLY_LOADS,   // loads made before the copies that they belong to
    DECLARE_VALUE,         // the variable of `op`, a let or a set
    DECLARE_SLOT_POINTERS, // of the ring's tiles, to its current slot
    DECLARE_RING_STATES,   // of the role, at their first slots
    DECLARE_TILES,         // of the role
    DECLARE_SCRATCH,       // which scratch buffer is next
    DECLARE_UNWRITTEN,     // of `op`, a tile of a --check build: nothing in it is written
    DECLARE_THREADS,       // thread numbers of their own for what follows, up to the end of the body that holds them
    DECLARE_COORDINATES,   // the same of the grid's coordinates
    DECLARE_OUTER,         // the thread numbers of the action around again
    DECLARE_CROSSINGS,     // scalars that the next step needs of this one
    DECLARE_ROWS,          // the row indices of copies below
    DECLARE_FIRST_LISTS,   // of a loop with row indices: its variables, and elements of lists for its first steps,
    DECLARE_FIRST_ROW_INDICES, // what they say for the first step, and
    DECLARE_NEXT_ROW_INDICES,  // for the step after this one
} DeclareKind;

typedef enum BarrierOf { BARRIER_ONE, BARRIER_OF_GROUP, BARRIER_OF_NEXT_GROUP } BarrierOf; // ping-pong: id + group
typedef enum RingSlot { SLOT_CURRENT, SLOT_HELD, SLOT_NEXT } RingSlot; // held: the one that the step before used

#endif
