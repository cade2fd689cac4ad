// SPDX-License-Identifier: MIT
// printer.h - the state of printing, and the Loop IR variables of tiles, rings, products and operations.
//
// What was decided does not change while it is printed, and has no variables: these stand beside it, in tables of the
// printer. What a header of facts/ or decide/ calls a Printer is this one. Files that decide do not include it.
#ifndef KILN_LOWER_GPU_PRINT_BUILD_PRINTER_H
#define KILN_LOWER_GPU_PRINT_BUILD_PRINTER_H

#include "lower/gpu/facts/lowering.h"

typedef struct Line Line; // facts/row_pieces.h

enum { LANE_ROWS = -1 }; // of four lanes the first one's first row, the next one's second

// A statement whose inside is being printed.
struct Nest {
    LoopList *outer;
    LoopList inner;
    LoopStmt *stmt;
};

typedef struct Threads {
    Var *lane, *warp, *thread, *of_all;
} Threads;

// Prints an action with all that belongs to it: the walk (print_action.c), for the parts of one that is being printed.
typedef void PrintTree(Printer *pr, const Action *action);

// All that changes while printing. What was decided does not: printing reads it through `lo`. Only where it is, the role
// and the partition of the statement at hand (roles.c), is its own: of a copy that the roles set, and set_partition().
struct Printer {
    Arena *arena;
    const Lowering *lo;
    Lowering own; // what `lo` is
    LoopUnit *unit;
    LoopList *out;
    Text helpers; // instruction wrappers of exactly the shapes in use
    bool traps;   // some code may stop the kernel
    Var **vars;
    int n_vars; // by Tile IR variable id: the variable that stands for it
    Table tile_vars, ring_vars, product_vars, op_vars, early_loads; // by what they belong to: see below
    PrintTree *print_tree;
    const Action *next_part;           // of the action at hand
    VEC(Nest *) nests;                 // of the actions around
    VEC(Threads) threads;              // before each of the actions around
    Var *lane, *warp, *group, *thread; // numbers among the consumers (or in the producer)
    Var *thread_of_all, *group_of_all; // `thread` counts within the group where statements are placed
    Var *rank;                         // within the cluster
    Var *trace;                        // of a traced build: where the role's next record goes (print_trace.c)
    Var **tensors;                     // by buffer id: pointer variables
    Var **grid_extents, **numbered_extents, *tiles_total; // numbered: neighbours in a cluster count as one
    Expr *fetch_aligned;                                  // boxes can be used at all; NULL: always
    bool is_muted;                                        // another group makes this statement's stores
    int row_part;                                         // 1 or 2: of a thread's two rows in 16 only this one; 0: both
    Var *scratch_buffer;                                  // bytes to the buffer in use; NULL: there is one
    Var *row_index_buffer, *end; // of the row indices of this step, of the steps (print_row_index_loop.c)
    struct RegisterPrefetch *register_prefetch; // there: the rows of prefetched_rows
    const struct RowIndexLoop *row_index_loop;  // of the loop at hand
    int lane_row;                               // of the rows of a lane that has their row indices; or LANE_ROWS
    bool divides_by_sizes;                      // where it works out row indices: a quotient's latency is the step's
    Var *held_slot;                             // the slot that the step before used (print_product_loop.c)
    struct RowAddress *row_address;             // of the row that a store's loop is at (place.c); NULL: none
    struct SteppedVars *stepped_vars;           // of the pipeline at hand (print_stepped_rows.c)
    struct ShiftedVars *shifted_vars;           // the same (print_shifted_rows.c)
    struct RoundVars *round_vars;               // of the innermost loop with rounds that are no steps (rounds.h)
    struct PipelineVars *pipeline_vars;         // of the innermost software pipeline
    struct StepVars *step_vars;                 // this step's, in SCOPE_NEXT_STEP
    Var *conversion_scratch;                    // a pointer, of elements that a conversion moves one by one
    const struct StagingVars *staging_vars;     // of the store through staging at hand
};

// ---- variables of what was decided (printer.c)

typedef struct TileVars {
    Var *registers;     // an array of each thread
    Var *buffer_offset; // bytes to the buffer in use
    Var *pointer;       // to it
    Var *shadow;        // of a --check build: says which elements are written; a pointer or registers
} TileVars;
typedef struct RingVars {
    Var *slot, *phase;
} RingVars;
typedef struct ProductVars {
    Var *preloaded; // the left operand's words
    Expr *adds;     // is this a later step than that which begins the sum?
} ProductVars;
typedef struct OpVars {
    Var *early, *first; // a row index loaded a step before; that of a pipeline's first step
    Line *lines;        // of a gather, looked up already
} OpVars;

Printer *new_printer(const Lowering *lo, PrintTree *print_tree);
void set_partition(Printer *pr, Partition partition);
TileVars *tile_vars(Printer *pr, const TileInfo *tile); // all of them are zero at first
RingVars *ring_vars(Printer *pr, const RingState *ring_state);
ProductVars *product_vars(Printer *pr, const Product *product);
OpVars *op_vars(Printer *pr, const OpInfo *info);
Iteration *early_loads(Printer *pr, const Iteration *planned); // the same with variables, once its loads are printed

#endif
