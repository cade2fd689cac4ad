// SPDX-License-Identifier: MIT
// lowering.h - the lowering from Tile IR to CUDA C, seen from inside: what its passes know of one kernel.
//
// An instance of a kernel runs as one CTA (thread block): one or more *consumer* warp groups that compute and, on Hopper,
// when there is anything to fetch by TMA, one *producer* group that only fetches. lower.c holds the outline:
//
//   analyses      structure, bounds and partition; the cluster and warp roles; storage of tiles and kinds of products;
//                 fetches and rings; layouts in shared memory; multistage copies; registers, shared memory, barriers;
//                 what scalars the producer computes (backward slice)
//   deciding      a walk over the tree for each role, which adds actions to the schedule
//   printing      a walk over the actions of each role, which makes Loop IR
//
// Folders, and what holds between them:
//
//   schedule/     the schedule: its tables and actions, its dump and its verifier. It knows no other folder.
//   facts/        what is known of tiles, operations, rings and products, and queries on it. Both passes use it; it calls
//                 neither.
//   decide/       Tile IR to the schedule: the analyses, then the walks. It never prints.
//   cost/         how long the schedule is expected to take. It reads nothing else.
//   print/        the schedule to Loop IR. It decides nothing.
//
// Whatever has no special form runs as a map over elements, so every construct has one general, correct path; the special
// forms (TMA, wgmma, staged stores) replace it where their conditions hold.
#ifndef KILN_LOWER_GPU_FACTS_LOWERING_H
#define KILN_LOWER_GPU_FACTS_LOWERING_H

#include "base/table.h"
#include "layout/layout.h"
#include "lower/common/common.h"
#include "lower/gpu/facts/op.h"
#include "lower/gpu/facts/ring.h"
#include "lower/gpu/facts/tile.h"
#include "lower/gpu/lower.h"
#include "lower/gpu/schedule/build.h"

enum {
    WARPGROUP_THREADS = 128,
    CONSUMER_WARPS_MAX = 28, // beside a producer
    WARPS_MAX = 32,
    SHARED_ALIGN = 1024,
    MBARRIER_BYTES = 8,
    SCALAR_BYTES = 16, // of shared memory for one scalar of the CTA; more: reductions between warps
    BAR_CONSUMERS = 1,
    BAR_PRODUCER = 2,
    BAR_PING_PONG = 3,
    BAR_GROUPS = 8,
    BAR_LAST = 15, // named; 0 is __syncthreads
};

typedef struct Printer Printer;     // print/build/printer.h
typedef struct Nest Nest;           // the same
typedef struct TensorMap TensorMap; // box.h

typedef enum { ROLE_CONSUMER, ROLE_PRODUCER } Role;

// A product in flight, and the rings that may be released when it is done.
typedef struct MmaInFlight {
    const TileInfo *accumulator, *a_registers;
    Ring *releases[8];
    int n_releases;
    const TileInfo *reads[2];
    const TileOp *op;
    bool is_covered; // other statements have come since
} MmaInFlight;

typedef struct Rewritten {
    TileOp *op;
    TileOp before;
} Rewritten;

typedef struct Lowering {
    Arena *arena;
    TileKernel *kernel;
    Diags *diags;
    const Target *target;
    const GpuTarget *gpu; // what its instructions can do
    LaunchPlan *plan;
    Text *explanation;
    bool failed;               // the kernel is refused, and why was reported
    int occupancy;             // CTAs that a multiprocessor holds: as hinted or chosen, or as many as have registers
    int occupancy_chosen;      // 0: it is not
    const char *why_occupancy; // for explain, where the source leaves it open (choose_occupancy.c); NULL: it does not
    int groups_wanted;         // of consumers; 0: as hinted
    bool is_last_attempt;      // else too few registers are not reported:
    bool lacks_registers;      // it failed for that

    // ---- what the analyses found

    // operations and values
    OpInfo **infos;
    int n_infos, infos_capacity; // open addressing by op
    int n_ops;
    int64_t largest_extent;      // of a shape symbol
    uint64_t wide;               // symbols that may be larger: a bit for each bind
    const bool *several_writers; // by buffer, once they are found (several_writers.c)
    bool adds_floats;            // atomically: the order matters
    bool calls_printf;           // some statement prints or asserts
    VEC(Rewritten) rewritten;    // statements that were seen to be copies (forall_copies.c)
    VEC(const char *) notes;     // for explain
    int n_barriers;              // the same: of those that it lists

    // tiles
    TileInfo **tiles; // by buffer id; NULL for what is no tile
    VEC(TileInfo *) declared;
    int n_declared;   // tiles in the order of their declarations
    Table *kept_uses; // map_uses() by forall, while storage is chosen; else NULL
    bool needs_fence; // some tile is written by threads and read by wgmma

    // roles
    bool has_producer_group; // one group of them is the producer (producer_group.c)
    bool gathers_beside;     // a group beside them is, for statements that are not placed (gathered_tiles.c)
    bool gathers_by_list;    // whose rows a tensor lists
    bool has_producer, is_persistent;
    Expr *fetch_alignment;  // Tile IR: the strides that boxes need, of all fetched tensors; NULL: proved
    bool may_need_elements; // the producer also has a path without boxes
    bool begins_anywhere;   // not for rows that are no whole pieces alone: a slice may begin within one
    bool may_step_rows;     // there it copies rows that are walked else (stepped_rows.c)
    bool may_shift_rows;    // there it copies rows that begin anywhere (shifted_rows.c)
    bool has_boxes_alone;   // it would, but this build has none of that: launches with such rows have another (wide.c)
    int imbalance;          // the coordinate that the order of tiles goes by; -1: none
    bool in_pairs;          // long and short ones
    bool *in_backward_slice;
    int n_in_backward_slice;    // by variable id: the producer computes it
    bool has_register_prefetch; // the producer group holds rows of the next step (register_prefetch.c)
    bool remakes_addresses; // of transfers, where they are used: no registers are left to keep them (register_limits.c)

    // rings and barriers
    VEC(Ring *) rings;
    VEC(RingState *) ring_states;
    VEC(Multistage *) multistages;
    VEC(GroupBarrier *) group_barriers; // between groups where statements are placed
    int cluster, clustered;             // CTAs of one, of neighbours along this coordinate; 1: there are none
    bool shares;                        // some ring does

    // tensor maps
    Expr **lets; // by variable id: what scalars are that are set once; NULL until they are asked for (box_pieces.c)
    int n_lets;
    uint64_t no_maps; // parameters that have none: a launch carries few
    int n_cuts;       // copies of boxes that a view may end

    // shared memory
    int scratch_offset, scratch_bytes; // reductions between warps
    bool has_one_scratch;              // of products divided along k, or conversions: too much for two
    bool scratch_is_swizzled;          // in part, by conversions: it begins at a row of a panel
    int conversion_most;               // bytes that a conversion has; 0: as many as it likes
    int scratch_buffers;               // of scratch_bytes each; 2: taken in turn
    int staging_offset, staging_bytes, n_staged, n_transposed; // stores; so many, of which a whole group's
    bool no_staging, one_box; // it did not fit; of two boxes for each warp only one did
    int boxes_most;           // of each warp, where there is room for more than two; else 0
    TileOp *staged_over;      // staging lies where this op writes, from a tile on (memory.c); NULL: on its own
    TileInfo *first_under;
    int barrier_offset, shared_bytes;

    // ---- where deciding is (roles.c); printing has a copy of its own

    Role role;
    int walk;            // the group of consumers whose role it is
    Partition partition; // that divide a fragment and a statement
    Partition all;       // of the CTA; more than `partition` only where statements are placed
    bool is_specialised; // statements are placed on groups (warp_roles.c)
    struct {
        Partition partition, all;
        bool is_specialised;
    } outside;    // what it has of these outside the role
    bool by_tma;  // the producer: by boxes, else by elements
    bool by_warp; // its loop runs in a whole warp, of which one lane issues the boxes

    // ---- while deciding

    ScheduleBuilder builder;                      // what has been decided so far (actions.c)
    int warp_staging, group_staging, scratch;     // tiles of it; staging: where stores have any
    VEC(TensorMap *) maps;                        // by number (tensor_maps.c)
    VEC(MmaInFlight) in_flight;                   // issued and not yet waited for, oldest first
    VEC(const TileInfo *) made_under_mma;         // fragments that other statements have written meanwhile
    bool copies_in_flight;                        // copies by cp.async are not waited for (gather.c)
    int n_alternating;                            // copies that a cluster's CTAs take in turn
    const struct PrefetchedRows *prefetched_rows; // to convert, in registers before their step; NULL: none
    const struct SteppedRows *stepped_rows;       // of the pipeline at hand; NULL: none (stepped_rows.c)
    const struct ShiftedRows *shifted_rows;       // the same (shifted_rows.c)
    TileOp *early_issue;  // a pipeline whose next step's first products are due; NULL: none (early_issue.c)
    bool schedules_waits; // waits for products stay where they are (software_pipeline.c)
} Lowering;

#endif
