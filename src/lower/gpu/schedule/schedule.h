// SPDX-License-Identifier: MIT
// schedule.h - what one kernel does on a GPU, said completely, before a character of CUDA is printed.
//
// A kernel's CTA is a set of *roles*: the producer, which copies ahead, and the consumers, which compute; where the source
// places statements on warp groups, every group of consumers is a role of its own. A role is a tree of *actions* in
// structured control flow. Roles share tiles in shared memory, through rings (slots with a full and an empty mbarrier each)
// and through barriers. The tables beside the roles say where everything lies and how many arrivals complete what.
//
// Deciding makes the schedule from Tile IR; schedule_verify() refuses one that is wrong; schedule_dump() shows it; printing
// walks each role once and decides nothing. A schedule is not changed once it is made.
//
//     before: Tile IR, storage assigned, rings and barriers found, shared memory placed
//     after:  Loop IR is a function of the schedule and of the tables of the deciding passes
//
// Words: a *fill* of a ring is one pass of its slots through full and empty; fill number n lies in slot n modulo the number of
// slots. Every role counts the fills of a ring for itself (its ring state), from 0, and advances at the end of the block
// that declares the ring's tiles.
#ifndef KILN_LOWER_GPU_SCHEDULE_SCHEDULE_H
#define KILN_LOWER_GPU_SCHEDULE_SCHEDULE_H

#include "base/text.h"
#include "ir/tile.h"

enum { NO_RING = -1, NO_TILE = -1 };

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
    // in registers
    int registers; // of a thread, 32 bits each
    // in shared memory
    int offset, bytes, slots; // of one slot; the tile takes bytes * slots from offset on
    int ring;                 // that fills it; NO_RING: the consumers' threads do, between barriers
    const TileOp *loop;       // several slots and no ring: slot = step of this source loop, modulo slots
    TileOwner owner;          // who has a part of its own that nobody else touches
    int first, last;          // where it is alive: positions of actions in the order of the source (TileOp order);
                              // two tiles whose lives do not meet may lie at one place
    uint32_t groups;          // of consumers that hold it; 0: all
} ScheduleTile;

typedef struct ScheduleRing {
    const char *name; // of its tiles: "k", "k v"
    int slots;
    int full_count, empty_count;   // arrivals that complete a phase
    int full_offset, empty_offset; // of the first slot's mbarriers in shared memory
    int bytes;                     // that a fill's copies bring, where one arrival announces all; else 0
    bool by_consumers;             // one group of consumers fills it for others
    bool across_cluster;           // CTAs of the cluster write into each other's
} ScheduleRing;

// ---- actions

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
    ACTION_FENCE_REGISTERS, // registers of a tile are not touched before this
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
    LOOP_ONE_MORE, // all steps and one round more: SCOPE_BUT_LAST and SCOPE_BUT_FIRST guard its halves
    LOOP_AHEAD,    // all steps and `ahead` rounds before: SCOPE_STEP_AHEAD and SCOPE_HAS_STEP guard its halves
} LoopPart;

typedef enum ScopeKind {
    SCOPE_PLAIN,
    SCOPE_ANY_STEP,      // if the loop has a step at all
    SCOPE_FIRST_STEP,    // the loop's first step
    SCOPE_NO_STEP,       // if it has none
    SCOPE_LAST_STEP,     // its last, in the ring state after all others; within the loop: only if this is the last
    SCOPE_PREVIOUS_STEP, // the step before the one around it
    SCOPE_NEXT_STEP,     // the one after it; behind the last step: that one again, whose copies are there
    SCOPE_BUT_LAST,      // of LOOP_ONE_MORE: every round but the last
    SCOPE_BUT_FIRST,     // of LOOP_ONE_MORE: every round but the first; it is the step before
    SCOPE_HAS_STEP,      // of LOOP_AHEAD: every round that is a step
    SCOPE_STEP_AHEAD,    // of LOOP_AHEAD: the step `ahead` rounds later, if there is one
    SCOPE_ONE_GROUP,     // by one warp group of the role: number `threads`
    SCOPE_ONE_THREAD,
    SCOPE_ONE_WARP,
    SCOPE_EACH_WARP, // by so many threads of the role
    SCOPE_ALIGNED,   // where the launch's strides allow boxes; otherwise: elements
    SCOPE_ROW_PART,  // of a thread's two rows in 16 only number `threads`, from 1
} ScopeKind;

typedef enum CopyKind { COPY_TMA, COPY_CP_ASYNC, COPY_LANES, COPY_THREADS } CopyKind;
typedef enum StoreKind { STORE_THREADS, STORE_STAGED, STORE_TRANSPOSED, STORE_REDUCE, STORE_ATOMIC } StoreKind;
typedef enum MapKind {
    MAP_ELEMENTS,     // the source operation
    MAP_KEEP_FIRST,   // a tile that threads hold copies of: its value stays in the first copy, zeros in the others
    MAP_JOIN_GROUPS,  // the warp groups' copies of a tile are added up
    MAP_JOIN_THREADS, // the threads' copies of its elements become their sum or extreme
    MAP_CONVERT,      // a fragment's values go to a fragment of another layout
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
    DECLARE_ROWS,          // the places of rows that are copied below
    DECLARE_FIRST_LISTS,   // of a loop with row indices: its variables, and elements of lists for its first steps,
    DECLARE_FIRST_ROW_INDICES, // what they say for the first step, and
    DECLARE_NEXT_ROW_INDICES,  // for the step after this one
} DeclareKind;

typedef enum BarrierOf { BARRIER_ONE, BARRIER_OF_GROUP, BARRIER_OF_NEXT_GROUP } BarrierOf; // ping-pong: id + group
typedef enum RingSlot { SLOT_CURRENT, SLOT_HELD, SLOT_NEXT } RingSlot; // held: the one that the step before used

// What an action touches of a tile. Async: by TMA or by wgmma's reading of shared memory.
typedef struct TileAccess {
    int tile;
    bool reads, writes, is_async;
    bool is_addition; // atomic, and nothing else: in any order among themselves
    int ahead;        // slots from the current one: -1 is the step before's
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
    const void *print; // what printing needs beside `op`: of the file that made the action
};

typedef enum RoleKind { ROLE_OF_PRODUCER, ROLE_OF_CONSUMERS } RoleKind;

typedef struct ScheduleRole {
    RoleKind kind;
    const char *name; // "producer", "consumers", "consumer 1"
    int first_thread, threads;
    int group;     // of consumers that have roles of their own; -1: all of them are one role
    int registers; // of a thread (setmaxnreg); 0: as the compiler likes
    Action *body;
} ScheduleRole;

typedef struct Schedule {
    Arena *arena;
    const char *kernel, *target;
    VEC(ScheduleTile *) tiles;
    VEC(ScheduleRing *) rings;
    VEC(ScheduleRole *) roles;
    int threads, shared_bytes, shared_limit; // of a CTA
    int register_limit;                      // of a multiprocessor, for its CTA
    int cluster;                             // CTAs; 1: none
    bool is_persistent;                      // ACTION_GRID may go round more than once
    bool has_async_proxy;                    // sm_90 and later: fences matter
} Schedule;

// ---- schedule.c: making one

Schedule *schedule_new(Arena *arena, const char *kernel, const char *target);
int schedule_add_tile(Schedule *schedule, ScheduleTile tile); // returns its number
int schedule_add_ring(Schedule *schedule, ScheduleRing ring);

// Where actions are added: the end of a role's body, or of the innermost open action's.
typedef struct OpenAction {
    Action *action; // NULL: the role itself
    Action **end;   // where the next one goes
} OpenAction;

typedef struct ScheduleBuilder {
    Schedule *schedule;
    ScheduleRole *role;
    VEC(OpenAction) open; // the innermost last
} ScheduleBuilder;

void schedule_begin_role(ScheduleBuilder *builder, ScheduleRole role);
void schedule_end_role(ScheduleBuilder *builder);
Action *schedule_add(ScheduleBuilder *builder, Action action);  // one without a body
Action *schedule_open(ScheduleBuilder *builder, Action action); // what follows is its body,
void schedule_otherwise(ScheduleBuilder *builder);              // from here on the other arm of an ACTION_IF,
Action *schedule_innermost(ScheduleBuilder *builder); // the open action that holds what follows; NULL: the role
void schedule_close(ScheduleBuilder *builder);        // up to here
void schedule_access(Schedule *schedule, Action *action, TileAccess access);

// ---- dump.c

// The schedule as text, for people who know the machine and not Kiln: `kiln dump --stage=schedule`.
void schedule_dump(const Schedule *schedule, Text *text);
const char *action_name(ActionKind kind); // "mma.issue"

// ---- verify.c

typedef enum ScheduleFaultKind {
    FAULT_NONE,
    FAULT_NOT_VISIBLE, // 1. a tile is read that no wait or barrier has made visible to the role
    FAULT_RING,        // 2. a slot filled too early, released twice or never; counts; trip counts
    FAULT_PROXY,       // 3. threads' stores read by the async proxy without a fence, or the reverse
    FAULT_IN_FLIGHT,   // 4. operands or accumulators of an MMA in flight are touched
    FAULT_MEMORY,      // 5. tiles alive at once overlap; shared memory or registers exceed the device's
    FAULT_BARRIER,     // 6. a named barrier used by two meetings that can overlap, or by part of a warp
    FAULT_DEADLOCK,    // 7. a wait whose arrival depends on that wait
} ScheduleFaultKind;

typedef struct ScheduleFault {
    ScheduleFaultKind kind;
    Span span;
    const char *message; // names the tile, ring or barrier, the role, and what was expected
} ScheduleFault;

// The first fault, or FAULT_NONE. Runs the roles against each other with few steps of every loop and both arms of every
// condition; never changes the schedule.
ScheduleFault schedule_verify(const Schedule *schedule);

#endif
