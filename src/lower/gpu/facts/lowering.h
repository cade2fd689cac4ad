// SPDX-License-Identifier: MIT
// lowering.h - the lowering from Tile IR to CUDA C, seen from inside.
//
// An instance of a kernel runs as one CTA (thread block): one or more *consumer* warp groups that compute, and on
// Hopper, when there is anything to fetch by TMA, one *producer* group that only fetches. lower_gpu() (kernel.c) goes
// through these steps; each is a file, and each leaves its decisions in the structs below for the next:
//
//   structure.c               jumps become structure
//   maps.c                    tensors without maps, where there would be too many
//   bounds.c                  ranges of what is known only at the launch
//   partition.c               how many threads there are
//   cluster.c                 the CTAs of a cluster, and which tiles are fetched once for all of them
//   warp_roles.c              statements placed on warp groups
//   producer_group.c          make a group that only fills tiles the producer
//     row_indices.c           which rows it gathers, known a step ahead
//   storage.c                 decide where every tile is stored: fragments in registers with a layout, or in shared
//                             memory where no layout fits
//     products.c              choose how every `@` is computed: wgmma, mma.sync, multiply-adds in registers, or a
//                             plain loop nest
//   fetch.c                   find the copies that the producer can run ahead with; group their tiles into rings
//                             (buffers with full and empty mbarriers)
//     known_values.c          what the producer can know
//   consumer_rings.c          the tiles that one group of consumers makes for others: rings, too
//   multistage.c              before Hopper: the copies that run ahead by cp.async, in rings of their own
//   preload.c                 left operands that stay in registers through a loop
//   memory.c                  place tiles, staging, scratch and barriers in shared memory, or refuse with the plan
//                             listed
//   hazards.c                 find where a barrier must be between conflicting accesses of ordinary threads
//     group_barriers.c        or a named barrier at which one group arrives and another waits
//     accesses.c              what each operation reads and writes
//   roles.c                   whose actions are decided: the producer's or a group of consumers'
//   consumer.c                decide what the consumers do: a walk over the tree, with waits and barriers around each
//                             operation
//     statements.c            the operations
//     software_pipeline.c, early_issue.c, product_loop.c
//                             pipelines whose products run under the next step
//   producer.c                decide what the producer does: another walk over the same tree; print_producer.c prints it
//     backward_slice.c        the scalars that it computes
//     box_copy.c              which part of a box is this CTA's
//     l2_prefetch.c           boxes of the next step, prefetched into the L2 cache
//     row_index_loop.c        steps of a producer group that knows its rows ahead
//   actions.c                 both walks add actions to the schedule (schedule/build.h), with what each accesses
//     action_accesses.c
//   print_action.c            print the finished schedule, action after action, deciding nothing
//     print_roles.c           the kernel's frame and the threads of each role
//     print_statements.c      loops, scalars and atomics of the source
//   parameters.c, launch.c    what the launch hands to the kernel, and the plan that makes it
//   explain.c                 say what was decided
//
// For both roles there are (print_X.c prints what X.c decides)
//
//     grid.c                  which CTA it is
//     load_balance.c          where CTAs have unequal work
//     registers.c             how many registers each group's threads have
//     rings.c, print_rings.c  mbarriers and rings
//     tiles.c                 the variables of tiles
//     map.c, print_map.c      forall, copies and fills as loops over the registers of each thread
//     iterate.c               how they are divided
//     masks.c, early.c        one test around a masked one; loads before uses
//     rows.c                  rows that a producer group gathers or converts (rows.h lists the files that move them)
//     reduce.c                what a reduction does after its loop: shuffles, then shared memory between warps
//     partial.c, print_partial.c   reductions that only the end of a loop around needs
//     scan.c                  sums along a dimension, in shared memory and in registers
//     thread.c                the statements of one iteration
//     vector.c, moves.c       several elements at a time
//     scalar.c, place.c       scalar expressions, conversions; the address of an element
//     decide_product.c        products as actions, printed by print_product.c: wgmma.c, mma.c, print_fma.c
//     in_flight.c             waiting for them where a result is first used
//     rescale.c, packed.c     what is done to accumulators between them
//     hints.c                 how the rows of a shared tile are laid out, if the source says it
//     print_sparse.c          the metadata of a sparse operand, brought to the lanes that hand it to tensor cores
//     store.c                 fragments to tensors through swizzled staging and TMA
//     transposed_store.c      the same of transposed products
//     several_writers.c       tensors that several statements write: what must stay in order
//     panels.c, print_panels.c   accumulators to shared tiles that products read
//     box.c, tma.c            slices of tensors that are boxes; copies of them
//     tensor_maps.c           the tensor maps by which boxes are copied and stored
//     debug.c                 print and assert
//     checked.c, print_checked.c   what --check adds
//     build.c, values.c       short forms of Loop IR; of both IRs
//     info.c                  what is noted about operations
//
// Whatever has no special form runs as a map over elements, so every construct has one general, correct path; the
// special forms (TMA, wgmma, staged stores) replace it where their conditions hold.
#ifndef KILN_LOWER_GPU_FACTS_LOWERING_H
#define KILN_LOWER_GPU_FACTS_LOWERING_H

#include "base/table.h"
#include "layout/layout.h"
#include "lower/common/common.h"
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

typedef enum { TILE_IN_REGISTERS, TILE_IN_SHARED } TileStorage;
typedef struct Ring Ring;
typedef struct Iteration Iteration;
typedef struct Printer Printer; // print.h
typedef struct Nest Nest;

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
    bool is_multicast;                  // each CTA of the cluster fetches a part of it for all
    bool is_exchanged;                  // or converts a part of its rows for all
    int shadow_offset;                  // of a --check build: bytes from the base, one for each element (checked.c)
    bool is_unwatched;                  // there is no room for it
    bool is_filled, is_private;         // by the producer group's statements (producer_group.c): for others, for itself
    bool producer_read, producer_wrote; // while deciding: since its threads synchronised
    bool is_double_buffered;            // of the producer group: row indices of two steps (row_indices.c)
    struct Multistage *multistage;      // it is filled by copies that run ahead of the step that reads it; else NULL
    TileOp *declared;                   // its T_TILE
    int number;                         // in the schedule
} TileInfo;

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
    bool is_released;                 // while deciding: earlier than its last use: all was taken to registers
    bool is_product_only;             // read by wgmma alone: no lane of a warp lags
    bool is_shared;                   // CTAs of a cluster write into each other's: consumers of all release a buffer
    int bytes;                        // of all tiles, when plain
    int full, empty;                  // offsets of the barriers
};

// What does not depend on what the consumers compute (known_values.c).
typedef struct KnownValues {
    struct Lowering *lo;
    bool *unknown; // by variable id: made by consumers
    bool no_tiles; // nothing that tiles hold is known
    bool changed;
} KnownValues;

// A pipeline whose copies run ahead by cp.async (multistage.c).
typedef struct Multistage {
    TileOp *pipeline;
    int n_tiles, buffers; // of each tile's ring
    KnownValues known;
} Multistage;

typedef enum { PRODUCT_LOOP, PRODUCT_WGMMA, PRODUCT_MMA, PRODUCT_FMA } ProductKind;
typedef struct Product {
    ProductKind kind;
    TileOp *op;
    int m, n, k;         // of the instruction's view
    Operand left, right; // of the product as it is computed
    bool is_swapped;     // the transpose is computed: n x m in the source
    DType type;          // of the multiplied elements
    Division division;
    bool a_in_registers;
    int n_group;                // columns of one group's instruction
    int row_blocks;             // of 64 (wgmma) or 16 * warps rows per group
    int step_k;                 // of one instruction; of the kept elements, where the left operand is sparse
    bool odd_rows, odd_columns; // bytes turned in pairs (layout_accumulator_bytes)
    bool anywhere;              // an operand's slice begins where ldmatrix can read it and wgmma cannot
    bool preloads;              // the left operand is loaded before the loop around
    bool is_preloaded;          // while deciding: it is loaded
    bool starts_tile;           // in place of the zeros before its loop, the first step overwrites the accumulator
    RegisterTile rectangle;     // of each thread, by multiply-adds
    bool keeps_rows;            // there: other products' results share row statistics with it
    const char *why_not;        // tensor cores, for explain
    const char *why_loop;       // why not even multiply-adds in registers
} Product;

typedef struct Line Line; // of a gathered row (rows.h)

// What passes note about an operation.
typedef struct OpInfo {
    const TileOp *op;
    bool fetched; // a copy that the producer makes
    bool barrier_before;
    int barrier_group;              // of one group alone; -1: of all consumers
    bool orders_tensors;            // the barrier does: staged stores are over before it
    bool fills;                     // a statement of the producer group
    bool is_row_index, loads_early; // one that works out which rows to gather, from elements loaded a step before
    bool has_row_indices;           // of a pipeline
    bool is_tail;                   // a copy that goes with the conversion before it (register_prefetch.c)
    bool syncs_all;                 // no group barrier will do
    bool staging_is_free;           // while deciding: of a transposed store, since the last barrier
    void *accesses;                 // not ordered yet after it (hazards.c)
    void *shared_accesses;          // shared buffers that it reads or writes (accesses.c)
    Product *product;
    Multistage *multistage; // of a pipeline
    TileOp *map;            // a copy, fill or tile atomic as a forall
    bool is_looked_up;      // a gather, whose lines are (gather.c)
    Iteration *loads;       // of a copy, where they are made before it (early.c)
    int order;              // pre-order number
    TileOp *block;          // first op of the block that holds it
    TileOp *parent;         // the op whose block it is in; NULL: the kernel's body
} OpInfo;

// One group of placed statements tells another what it has done: it arrives after an op, the other waits before one.
typedef struct GroupBarrier {
    TileOp *after, *before; // of one block
    int from, to;           // groups
    int barrier;            // its named barrier
    bool fences;            // what was stored, wgmma will read
} GroupBarrier;

// A TMA tensor map that the launch makes: a tensor cut into boxes.
typedef struct TensorMap {
    Buffer *tensor;
    int box[5]; // fastest dimension first
    int swizzle;
    int index;
} TensorMap;

typedef enum { ROLE_CONSUMER, ROLE_PRODUCER } Role;

// A product in flight, and the rings that may be released when it is done.
typedef struct MmaInFlight {
    const TileInfo *accumulator, *a_registers;
    Ring *releases[8];
    int n_releases;
    const TileInfo *reads[2];
    const TileOp *op;
} MmaInFlight;

// The variables that hold a thread's numbers.

typedef struct Lowering {
    Arena *arena;
    TileKernel *kernel;
    Diags *diags;
    const Target *target;
    const GpuTarget *gpu; // what its instructions can do
    LaunchPlan *plan;
    Text *explanation;

    bool has_producer_group; // one group of them is the producer (producer_group.c)
    bool has_producer, is_persistent;
    TileInfo **tiles; // by buffer id; NULL for what is no tile
    OpInfo **infos;
    int n_infos, infos_capacity; // open addressing by op

    VEC(TileInfo *) declared;
    int n_declared; // tiles in the order of their declarations
    VEC(Ring *) rings;
    VEC(RingState *) ring_states;
    VEC(Multistage *) multistages;
    uint64_t no_maps;                  // parameters that have none: a launch carries few
    Table *kept_uses;                  // map_uses() by forall, while storage are chosen; else NULL
    int scratch_offset, scratch_bytes; // reductions between warps
    bool has_one_scratch;              // of products divided along k, or conversions: too much for two
    int scratch_buffers;               // of scratch_bytes each; 2: taken in turn
    int staging_offset, staging_bytes, n_staged, n_transposed; // stores; so many, of which a whole group's
    bool no_staging, one_box; // it did not fit; of two boxes for each warp only one did
    int boxes_most;           // of each warp, where there is room for more than two; else 0
    TileOp *staged_over;      // staging lies where this op writes, from a tile on (memory.c); NULL: on its own
    TileInfo *first_under;
    int barrier_offset, shared_bytes;
    bool calls_printf; // some statement prints or asserts
    bool uses_fma;     // some product is by multiply-adds
    bool needs_fence;  // some tile is written by threads and read by wgmma
    bool *in_backward_slice;
    int n_in_backward_slice;            // by variable id: the producer computes it
    const bool *several_writers;        // by buffer, once they are found (several_writers.c)
    VEC(GroupBarrier *) group_barriers; // between groups where statements are placed
    VEC(const char *) notes;            // for explain
    int n_barriers;
    bool may_need_elements; // the producer also has a path without boxes
    int n_cuts;             // copies of boxes that a view may end
    int cluster, clustered; // CTAs of one, of neighbours along this coordinate; 1: there are none
    bool shares;            // some ring does
    int n_ops;
    int64_t largest_extent; // of a shape symbol
    uint64_t wide;          // symbols that may be larger: a bit for each bind
    bool has_rows;          // consumers copy rows by cp.async (gather.c)
    bool failed;

    // where deciding or printing is (roles.c)
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

    // while deciding
    ScheduleBuilder builder;                      // what has been decided so far (actions.c)
    VEC(TensorMap *) maps;                        // by number (tensor_maps.c)
    VEC(MmaInFlight) in_flight;                   // issued and not yet waited for, oldest first
    bool copies_in_flight;                        // copies by cp.async are not waited for (gather.c)
    int n_alternating;                            // copies that a cluster's CTAs take in turn
    const struct PrefetchedRows *prefetched_rows; // to convert, in registers before their step; NULL: none
    TileOp *early_issue;  // a pipeline whose next step's first products are due; NULL: none (early_issue.c)
    bool schedules_waits; // waits for products stay where they are (software_pipeline.c)
} Lowering;

// ---- info.c
bool unsupported(Lowering *lo, Span span, const char *format, ...) __attribute__((format(printf, 3, 4))); // false
void note(Lowering *lo, const char *format, ...) __attribute__((format(printf, 2, 3)));
OpInfo *op_info(Lowering *lo, const TileOp *op);                          // made on first use
TileInfo *tile_info(const Lowering *lo, const Buffer *buffer);            // NULL: a tensor or a view
bool is_within(Lowering *lo, const TileOp *op, const TileOp *outer);      // or the same
typedef bool OpVisit(Lowering *lo, TileOp *op, void *context);            // true: do not descend
bool is_wgmma(Lowering *lo, const TileOp *op);                            // a product of that kind
void visit_op(Lowering *lo, TileOp *op, OpVisit *visit, void *context);   // the op and what is inside it
void each_op(Lowering *lo, TileOp *block, OpVisit *visit, void *context); // all of a block
typedef bool OpTest(Lowering *lo, TileOp *op);
bool op_has(Lowering *lo, TileOp *op, OpTest *test); // the op passes the test, or what is inside it, not in foralls
bool block_has(Lowering *lo, TileOp *block, OpTest *test);
bool has_jumps(Lowering *lo, TileOp *block);                                 // outside foralls
void each_use(Lowering *lo, TileOp *op, TileUseVisit *visit, void *context); // by the op and what is inside it
typedef struct RootUses {
    const Buffer *root;
    bool reads, writes;
} RootUses;
RootUses root_uses(Lowering *lo, TileOp *op, const Buffer *root); // the same, of one tensor or tile
RootUses own_uses(TileOp *op, const Buffer *root);                // by the op alone
void note_operations(Lowering *lo);

// ---- values.c: of both IRs
DType loop_type(DType type); // how Loop IR names it: `int` is i64
Expr *zero_of(Lowering *lo, DType type);
Expr *both(Lowering *lo, Expr *a, Expr *b); // a & b; NULL: nothing to test

// ---- rings.c
void find_product_only(Lowering *lo);
const TileOp *first_use(const Lowering *lo, const Ring *ring); // by the group whose role it is
const TileOp *last_use(const Lowering *lo, const Ring *ring);
void advance_ring_states(Lowering *lo, TileOp *block, int stage); // stage -1: all
void decide_release(Lowering *lo, const Ring *ring);              // consumers are done with the current buffer
const TileOp *release_within(const Lowering *lo, const Ring *ring);
void decide_last_release(Lowering *lo, const Ring *ring, bool within);

// ---- bounds.c
void find_bounds(Lowering *lo);

// ---- partition.c
void choose_partition(Lowering *lo);
int partition_threads(Partition partition);
int consumer_threads(const Lowering *lo); // of `partition`
int all_threads(const Lowering *lo);      // of the consumers
bool has_room_for_producer(const Lowering *lo);
int producer_threads(const Lowering *lo);

// ---- launch.c

// ---- producer_group.c
void find_producer_group(Lowering *lo);
bool fills_are_known(Lowering *lo); // fetch.c: the producer group depends on nothing that consumers make
void begin_fills(Lowering *lo);
void sync_producer(Lowering *lo);    // its threads do
void sync_row_writers(Lowering *lo); // those whose rows may be another's
void decide_fill(Lowering *lo, TileOp *op);

// ---- row_indices.c: the producer group's row numbers, a step ahead
void find_row_indices(Lowering *lo);
bool rows_are_local(Lowering *lo, const TileOp *pipeline); // each accessed by the warp alone that gathers it

// ---- rows.c, decide_rows.c, gather.c, register_prefetch.c
bool fill_is_rows(Lowering *lo, TileOp *op);
bool fill_is_gather(Lowering *lo, TileOp *op); // a plain copy of rows
bool choose_row_pieces(Lowering *lo, TileOp *forall, int piece, int across, Layout *layout);
void look_up_rows(Lowering *lo, TileOp *op);                        // of a gather, before its tile is waited for
void wait_for_copies(Lowering *lo);                                 // of this thread
bool fill_divides(Lowering *lo, TileOp *op, int n, bool *converts); // among n CTAs
void find_tails(Lowering *lo); // before: it is known which tiles a cluster exchanges

// ---- warp_roles.c
void find_warp_roles(Lowering *lo);
void assign_fragment_groups(Lowering *lo);
void finish_warp_roles(Lowering *lo);

// ---- consumer_rings.c
void find_consumer_rings(Lowering *lo);
void act_consumer_acquire(Lowering *lo, const TileOp *op); // around the op, if this group makes a tile there
void act_consumer_arrive(Lowering *lo, const TileOp *op);
RingState *ring_state_of(Lowering *lo, TileOp *block, int stage, int buffers); // fetch.c

// ---- known_values.c
KnownValues new_known_values(Lowering *lo);
void find_unknown(KnownValues *values);
bool value_is_known(const KnownValues *values, const Expr *x);
bool path_is_known(const KnownValues *values, const TileOp *op); // conditions and loops around it, which no jump leaves

// ---- structure.c, maps.c, products.c, storage.c, fetch.c, memory.c, hazards.c, explain.c
void structure_kernel(Lowering *lo);
void limit_maps(Lowering *lo);
void choose_products(Lowering *lo);
bool has_products(Lowering *lo, TileOp *list);
TileOp *product_as_loops(Lowering *lo, TileOp *op); // [fill,] forall; each linked by `next`
void assign_storage(Lowering *lo);
void find_fetches(Lowering *lo);
bool tile_is_fetchable(KnownValues *values, const TileInfo *tile);
void find_multistages(Lowering *lo); // multistage.c
bool lay_out_shared_tiles(Lowering *lo);
int shared_bytes_max(const Lowering *lo); // of a CTA
bool place_memory(Lowering *lo);
void find_hazards(Lowering *lo);
const bool *find_several_writers(Lowering *lo); // several_writers.c: by buffer
const bool *find_sums(Lowering *lo);            // the same: tensors that tiles are added to, and no more
void explain(Lowering *lo);
const char *line_of(Lowering *lo, const TileOp *op); // of the source: "31", in an imported file "softmax.tile:13"

// ---- products.c
bool has_padded_rows(const Product *p);  // of an operand in shared memory
bool product_is_fixed(const Product *p); // both operands are such ranges

// ---- hints.c: layout(tile) = swizzle(n), padded(n)
void take_layout_hints(Lowering *lo);
// shared_panels() of a tile, or what its hint wants: padded rows have swizzle_bytes 0. False: none for tensor cores.
bool tile_panels(const TileInfo *tile, int rows, int columns, int element_bytes, SharedLayout *layout);

// ---- panels.c
bool copy_is_panels(Lowering *lo, const TileOp *op); // an accumulator into a tile that products read

// ---- consumer.c
void decide_consumers(Lowering *lo);
void decide_block(Lowering *lo, TileOp *block);
void decide_consumer_op(Lowering *lo, TileOp *op, TileOp *owner_block); // with its waits and releases
void act_sync_all(Lowering *lo);
void act_sync(Lowering *lo);

// ---- statements.c
bool is_flow(const TileOp *op);
void decide_body(Lowering *lo, TileOp *body); // of a loop
void decide_op(Lowering *lo, TileOp *op);

// ---- backward_slice.c, producer.c
void find_backward_slice(Lowering *lo);
void decide_producer_grid(Lowering *lo);

// scan.c
void expand_scans(Lowering *lo, TileOp **link);
bool scans_in_registers(Lowering *lo, const TileOp *op); // as far as the layout is known
int scan_scratch_bytes(Lowering *lo, const TileOp *op);

#endif
