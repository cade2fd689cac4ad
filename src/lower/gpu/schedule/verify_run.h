// SPDX-License-Identifier: MIT
// verify_run.h - the parts of schedule_verify(): a bounded run of the roles against each other, and what it keeps.
//
// An *agent* is a warp group that runs a role: a role of several groups is several agents. Agents run one at a time until
// they wait; each counts its actions. What one knows of the others is a vector clock: of each agent, the last action whose
// effects it may rely on. Its own entry is the last action that all its threads have seen together (a barrier). So what is
// found does not depend on the order in which agents happen to run.
#ifndef KILN_LOWER_GPU_SCHEDULE_VERIFY_RUN_H
#define KILN_LOWER_GPU_SCHEDULE_VERIFY_RUN_H

#include "lower/gpu/schedule/verify.h"
#include "lower/gpu/schedule/verify_program.h"

enum { AGENTS_MAX = 12, NAMED_BARRIERS = 16, CLUSTER_BARRIER = NAMED_BARRIERS };

typedef struct VectorClock {
    int at[AGENTS_MAX];
} VectorClock;

// ---- the run

typedef enum Blocked { IS_RUNNING, ON_EMPTY, ON_FULL, ON_BARRIER, HAS_ENDED } Blocked;

// What an operation in flight accesses.
typedef struct InFlightAccess {
    int tile, cell, n_cells, fill;
    bool reads, writes;
} InFlightAccess;
typedef struct InFlight {
    const Action *action;
    int group; // of cp.async: the commit that it belongs to
    InFlightAccess accesses[4];
    int n;
} InFlight;
typedef VEC(InFlight) InFlightList; // the oldest first

// An agent's view of a ring: the fill at hand, the next to acquire, to wait for; of the last 64, which it has released.
typedef struct RingView {
    int fill, acquired, waited;
    uint64_t released;
    bool uses, fills, releases; // has actions of that sort
} RingView;

typedef struct Agent {
    const ScheduleRole *role;
    const Program *program;
    const char *name;
    int number, agents, group, groups, threads, warps; // agents: how many there are
    int pc, now;                                       // the next step; actions done
    VectorClock seen, fenced;
    int warp_seen;                 // the last of its actions that all threads of each of its warps have seen
    int *step, *iteration, *saved; // of source loops: the step at hand, the iteration; saved: by step of the program
    bool *is_inside;
    int next_of; // within SCOPE_NEXT_STEP, if there is a next: the source loop; else -1
    RingView *rings;
    int *advances; // of tiles with slots and no ring
    InFlightList mmas, stores, copies;
    int commits;
    bool comes[NAMED_BARRIERS + 1]; // has actions at that barrier
    Blocked blocked;
    int on, fill; // ring and fill, or barrier, that it waits for
} Agent;

typedef struct Phase {
    int arrivals, bytes, done;        // of the phase at hand; phases that are over
    VectorClock seen, fenced;         // what arrived with
    VectorClock all_seen, all_fenced; // of the latest phase that is over
} Phase;
typedef VEC(int) TileNumbers;
typedef struct RingRun {
    Phase *full, *empty; // a slot each
    TileNumbers tiles;   // in shared memory
} RingRun;

typedef struct BarrierRun {
    int threads, arrived;                   // of the phase at hand; threads 0: none is
    int came[AGENTS_MAX], last[AGENTS_MAX]; // by agent, the action with which it came to this one, to the last; 0: none
    bool waits[AGENTS_MAX], last_waited[AGENTS_MAX];
    VectorClock seen, fenced;
} BarrierRun;

// An agent's last access to a cell, its action, and when the one before was; groups have elements of their own.
typedef struct CellAccess {
    int last, before;
    const Action *action;
} CellAccess;

// A slot of a shared tile.
typedef struct Cell {
    int fill, copying; // 1 + the fill that lies in it, of a ring's tile; cp.async copies that nobody has waited for
    bool is_added;     // somebody has added to it
    CellAccess written[AGENTS_MAX], read[AGENTS_MAX], added[AGENTS_MAX];
    int stored[AGENTS_MAX];               // the last write by threads that TMA has not replaced
    int loaded[AGENTS_MAX];               // the last read by each thread for itself, not by a warp together
    int fetched[AGENTS_MAX];              // the last read that is not the async proxy's
    const ScheduleTile *lost[AGENTS_MAX]; // what has been written in its place since; of divided tiles an agent's part
} Cell;

// Where an access of the action at hand is: the cell of its first slot; in registers -1.
typedef struct AccessPlace {
    const ScheduleTile *tile;
    int fill, cell;
} AccessPlace;

typedef struct Run {
    const Schedule *schedule;
    ScheduleTile *const *tiles; // its
    Programs programs;
    Agent *agents;
    RingRun *rings;
    BarrierRun barriers[NAMED_BARRIERS + 1];
    Cell *cells;
    int n_agents, n_cells, *first_cell;      // first_cell: of a tile
    int *in_flight_reads, *in_flight_writes; // of a tile: accesses of all agents' operations in flight
    AccessPlace *places;                     // of the action at hand: its accesses
    TileNumbers *overlaps;                   // of a tile: the others that may lie where it does
    int pattern;                             // of conditions: 0 all hold, 1 none, 2 and 3 alternate
    bool is_reversed;                        // the last agents run first
    int budget;                              // actions that may still be run
    ScheduleFault fault;
} Run;

// In half of the runs the launch's strides allow no boxes.
static inline bool is_unaligned(const Run *run) { return run->pattern % 2 == 1; }

static inline bool is_released(const RingView *view, int fill)
{
    return fill >= 0 && fill < view->waited && (view->released >> (fill & 63) & 1);
}

static inline int fill_of(const Run *run, const Agent *agent, int ring, int ahead)
{
    const bool is_next = agent->next_of >= 0 && agent->next_of == run->programs.ring_loop[ring];
    return agent->rings[ring].fill + is_next + ahead;
}

// Where what a fill of a tile holds is noted.
static inline int cell_of(const Run *run, int tile, int fill)
{
    const int slots = run->tiles[tile]->slots, slot = slots > 1 ? fill % slots : 0;
    return run->first_cell[tile] + (slot < 0 ? slot + slots : slot);
}

// The first fault is kept. Returns false.
bool found(Run *run, ScheduleFaultKind kind, const Action *action, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

void clock_join(VectorClock *into, const VectorClock *from, int agents);
// What others learn from what the agent does now; all: all its warps take part, so that it speaks for all its threads.
void clock_publish(const Agent *agent, bool all, VectorClock *seen, VectorClock *fenced);
void clock_learn(Agent *agent, const VectorClock *seen, const VectorClock *fenced);

// verify_rings.c. False: a fault. An agent that has to wait is blocked, and comes again to the same action.
bool run_ring_action(Run *run, Agent *agent, const Action *action);
bool complete_bytes(Run *run, Agent *agent, const Action *copy);
bool check_rings_at_end(Run *run);
int full_count(const Run *run, int ring); // arrivals
bool is_full(const Run *run, int ring, int fill);
bool is_empty(const Run *run, int ring, int fill);

// verify_barriers.c
int barrier_of(const Agent *agent, const Action *action);
bool run_barrier_action(Run *run, Agent *agent, const ProgramStep *step);

// verify_accesses.c
bool run_accesses(Run *run, Agent *agent, const Action *action);
bool check_lanes(Run *run, const Agent *agent, const Action *action, int ring, int fill);
bool check_release(Run *run, const Agent *agent, const Action *action, int ring, int fill);
void retire(Run *run, Agent *agent, InFlightList *flights, int pending);
void retire_copies(Run *run, Agent *agent, int pending);
void fence_async(Agent *agent);

// verify_overlaps.c: tiles that lie where others do
void find_overlaps(Run *run);
bool tiles_overlap(const ScheduleTile *tile, const ScheduleTile *other);
bool check_overlaps(Run *run, const Agent *agent, const Action *action, const TileAccess *access);
void note_overlaps(Run *run, const Agent *agent, const TileAccess *access);

// verify_run.c
void run_roles(Run *run);        // until all have ended, nobody can go on, or a fault
void explain_deadlock(Run *run); // verify_deadlock.c
int tile_end(const ScheduleTile *tile);
bool check_held_registers(Run *run, const Agent *agent, const Action *action);
bool check_tables(Run *run); // verify_tables.c: memory, registers, barriers' numbers; false: a fault

#endif
