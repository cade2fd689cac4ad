// SPDX-License-Identifier: MIT
// print_action.c - Loop IR for each kind of action.
//
// before: the action is decided, its ring states, tiles and thread numbers are declared
// after:  its statements are at the end of lo->out; nothing was decided
#include "lower/cuda/actions.h"
#include "lower/cuda/checked.h"
#include "lower/cuda/grid.h"
#include "lower/cuda/convert_layout.h"
#include "lower/cuda/map.h"
#include "lower/cuda/multistage.h"
#include "lower/cuda/panels.h"
#include "lower/cuda/print.h"
#include "lower/cuda/print_action.h"
#include "lower/cuda/print_rings.h"
#include "lower/cuda/print_rows.h"
#include "lower/cuda/print_statements.h"
#include "lower/cuda/pipeline.h"
#include "lower/cuda/producer.h"
#include "lower/cuda/product.h"
#include "lower/cuda/reduce.h"
#include "lower/cuda/roles.h"
#include "lower/cuda/rows.h"
#include "lower/cuda/scan.h"
#include "lower/cuda/store.h"

#include <assert.h>

static const Ring *ring_of(const Lowering *lo, const Action *action) { return lo->rings.items[action->ring.ring]; }

// The groups ping-pong at the tensor cores: each waits on its own named barrier, which the group before it arrives at.
static Expr *barrier_id(Lowering *lo, const Action *action)
{
    const int first = action->barrier.barrier;
    if (action->barrier.of == BARRIER_ONE) return i32_const(lo, first);
    if (action->barrier.of == BARRIER_OF_GROUP) return i32_add(lo, var_of(lo, lo->group), i32_const(lo, first));
    Expr *const is_last = i32_op(lo, X_EQ, var_of(lo, lo->group), lo->partition.groups - 1);
    Expr *const next = i32_add(lo, var_of(lo, lo->group), i32_const(lo, first + 1));
    return expr_select(lo->arena, is_last, i32_const(lo, first), next);
}

static void print_barrier(Lowering *lo, const char *how, const Action *action)
{
    if (action->barrier.barrier == 0) emit_call(lo, "__syncthreads", 0);
    else emit_call(lo, how, 2, barrier_id(lo, action), i32_const(lo, action->barrier.threads));
}

static void print_copy_wait(Lowering *lo, const Action *action)
{
    if (action->wait.is_by_groups) emit_call(lo, "copy_wait", 1, i32_const(lo, action->wait.pending));
    else emit_call(lo, "cp_async_wait", 0);
}

static void print_declare(Lowering *lo, const Action *action)
{
    switch (action->declare.what) {
    case DECLARE_EARLY_LOADS: print_early_loads(lo, action->print); return;
    case DECLARE_RING_STATES: print_ring_states(lo); return;
    case DECLARE_TILES: print_tiles(lo); return;
    case DECLARE_SCRATCH: declare_scratch_buffer(lo); return;
    case DECLARE_UNWRITTEN: print_unwritten(lo, tile_info(lo, action->op->tile.buffer)); return;
    case DECLARE_THREADS: print_threads(lo); return;
    case DECLARE_COORDINATES: print_coordinates(lo); return;
    case DECLARE_OUTER: return_to_threads(lo); return;
    case DECLARE_VALUE: print_value(lo, action->op); return;
    case DECLARE_SLOT_POINTERS: print_slot_pointers(lo, lo->rings.items[action->declare.ring]); return;
    case DECLARE_CROSSINGS: keep_crossings(lo, action); return;
    case DECLARE_ROWS: print_look_ups(lo, action->print); return;
    case DECLARE_FIRST_LISTS: print_first_lists(lo, action->print); return;
    case DECLARE_FIRST_ROW_INDICES: print_first_indices(lo, action->print); return;
    case DECLARE_NEXT_ROW_INDICES: print_next_indices(lo, action->print); return;
    }
}

// A copy, store or map of elements.
static void print_plan(Lowering *lo, const Action *action)
{
    switch (*(const PlanForm *)action->print) {
    case PLAN_MAP: print_map(lo, action->print); return;
    case PLAN_PANELS: print_panels(lo, action->print); return;
    case PLAN_ROWS: print_rows(lo, action->print); return;
    case PLAN_ROW_ELEMENTS: print_row_elements(lo, action->print); return;
    case PLAN_PIECES: print_pieces(lo, action->print); return;
    case PLAN_STORE: print_store(lo, action->print); return;
    case PLAN_CONVERSION: print_layout_conversion(lo, action->print); return;
    }
}

static void print_copy(Lowering *lo, const Action *action)
{
    if (action->copy.how == COPY_TMA || action->copy.how == COPY_LANES) print_fetch(lo, action);
    else print_plan(lo, action);
}

// One without control flow, with its parts.
static void print_leaf(Lowering *lo, const Action *action)
{
    switch (action->kind) {
    case ACTION_STORE_WAIT: print_store_wait(lo, action); return;
    case ACTION_SCALAR: print_scalar(lo, action); return;
    case ACTION_ATOMIC: print_atomic(lo, action); return;
    case ACTION_ADVANCE: print_advance(lo, action); return;
    case ACTION_JUMP: print_jump(lo, action); return;
    case ACTION_DECLARE: print_declare(lo, action); return;
    case ACTION_WAIT: print_wait_full(lo, ring_of(lo, action)); return;
    case ACTION_RELEASE:
        print_release(lo, ring_of(lo, action), action->ring.slot == SLOT_HELD ? lo->held_slot : NULL);
        return;
    case ACTION_ACQUIRE:
        if (ring_of(lo, action)->is_consumer_ring) print_consumer_acquire(lo, ring_of(lo, action));
        else print_acquire(lo, action);
        return;
    case ACTION_EXPECT: print_expect(lo, action); return;
    case ACTION_ARRIVE:
        if (ring_of(lo, action)->is_consumer_ring) print_consumer_arrive(lo, ring_of(lo, action));
        else print_arrive(lo, action);
        return;
    case ACTION_COPY: print_copy(lo, action); return;
    case ACTION_COPY_COMMIT: print_commit(lo, action); return;
    case ACTION_COPY_WAIT: print_copy_wait(lo, action); return;
    case ACTION_MMA_WAIT: emit_call(lo, "wgmma_wait", 1, i32_const(lo, action->wait.pending)); return;
    case ACTION_FENCE_ASYNC: emit_call(lo, "fence_async", 0); return;
    case ACTION_LDMATRIX: print_preload(lo, action); return;
    case ACTION_MMA: print_product(lo, action); return;
    case ACTION_PREFETCH: print_l2_prefetch(lo, action->print); return;
    case ACTION_STORE: print_plan(lo, action); return;
    case ACTION_MAP:
        if (action->map.how == MAP_ELEMENTS || action->map.how == MAP_CONVERT) print_plan(lo, action);
        else print_partial(lo, action);
        return;
    case ACTION_SCAN: print_scan(lo, action->print); return;
    case ACTION_FENCE_REGISTERS: print_register_fence(lo, action); return;
    case ACTION_BARRIER_SYNC: print_barrier(lo, "bar_sync", action); return;
    case ACTION_BARRIER_ARRIVE: print_barrier(lo, "bar_arrive", action); return;
    case ACTION_CLUSTER_SYNC: emit_call(lo, "cluster_sync", 0); return;
    case ACTION_WARP_SYNC: emit_call(lo, "__syncwarp", 0); return;
    case ACTION_GRID:
    case ACTION_LOOP:
    case ACTION_IF:
    case ACTION_SCOPE: return;
    }
}

static void print_action(Lowering *lo, const Action *action)
{
    const Action *const outer = lo->next_part;
    lo->next_part = action->body;
    print_leaf(lo, action);
    assert(!lo->next_part && "every part is printed");
    lo->next_part = outer;
}

// ---- actions with a body

Nest *push_nest(Lowering *lo)
{
    Nest *const nest = NEW(lo->arena, Nest);
    VEC_PUSH(lo->arena, &lo->nests, nest);
    return nest;
}

Nest *top_nest(Lowering *lo) { return lo->nests.items[lo->nests.count - 1]; }

void pop_nest(Lowering *lo)
{
    end_nest(lo, top_nest(lo));
    lo->nests.count--;
}

static void print_if(Lowering *lo, const Action *action)
{
    begin_if(lo, push_nest(lo), lower_expr(lo, action->branch.source->branch.cond, NULL));
}

// Loops and scopes of which a pass has a plan of its own.
static void begin_planned(Lowering *lo, const Action *action)
{
    switch (*(const StepsForm *)action->print) {
    case STEPS_SOFTWARE_PIPELINE: begin_software_pipeline(lo, action); return;
    case STEPS_EARLY_ISSUE: begin_early_issue(lo, action); return;
    case STEPS_PRODUCT_LOOP: begin_product_loop(lo, action); return;
    case STEPS_OF_PRODUCER: begin_producer_stages(lo, action); return;
    case STEPS_OF_ROW_INDICES: begin_row_index_loop(lo); return;
    case STEPS_MULTISTAGE: begin_multistage(lo, action); return;
    }
}

static void end_planned(Lowering *lo, const Action *action)
{
    switch (*(const StepsForm *)action->print) {
    case STEPS_SOFTWARE_PIPELINE: end_software_pipeline(lo, action); return;
    case STEPS_EARLY_ISSUE: end_early_issue(lo, action); return;
    case STEPS_PRODUCT_LOOP: end_product_loop(lo, action); return;
    case STEPS_OF_PRODUCER: end_producer_stages(lo, action); return;
    case STEPS_OF_ROW_INDICES: end_row_index_loop(lo); return;
    case STEPS_MULTISTAGE: end_multistage(lo, action); return;
    }
}

static bool is_scope(const Action *action, ScopeKind kind)
{
    return action->kind == ACTION_SCOPE && action->scope.kind == kind;
}

// Of the producer.
static bool is_of_boxes(const Action *action)
{
    return is_scope(action, SCOPE_ALIGNED) || is_scope(action, SCOPE_PLAIN);
}

static void print_begin(Lowering *lo, const Action *action)
{
    save_threads(lo);
    if (action->print) begin_planned(lo, action);
    else if (action->kind == ACTION_GRID) begin_grid(lo, push_nest(lo));
    else if (action->kind == ACTION_IF) print_if(lo, action);
    else if (action->kind == ACTION_LOOP) print_loop(lo, action);
    else if (is_scope(action, SCOPE_ONE_GROUP))
        begin_if(lo, push_nest(lo), i32_op(lo, X_EQ, var_of(lo, lo->group), action->scope.threads));
    else if (is_scope(action, SCOPE_ROW_PART)) lo->row_part = action->scope.threads;
    else if (is_release_scope(action)) print_release_scope(lo, action);
    else if (is_of_boxes(action)) begin_boxes(lo, action);
}

static void print_otherwise(Lowering *lo, const Action *action)
{
    return_to_threads(lo);
    if (action->kind == ACTION_IF) begin_else(lo, top_nest(lo));
    else if (is_of_boxes(action)) begin_elements(lo);
}

static void print_end(Lowering *lo, const Action *action)
{
    if (action->print) end_planned(lo, action);
    else if (action->kind == ACTION_IF || action->kind == ACTION_GRID || is_scope(action, SCOPE_ONE_GROUP))
        pop_nest(lo);
    else if (action->kind == ACTION_LOOP) end_loop(lo, action);
    else if (is_scope(action, SCOPE_ROW_PART)) lo->row_part = 0;
    else if (is_release_scope(action)) pop_nest(lo);
    else if (is_of_boxes(action)) end_boxes(lo, action);
    restore_threads(lo);
}

// ---- actions in the course of another

static bool has_control_flow(const Action *action) { return action->kind <= ACTION_SCOPE; }

// An empty arm is one, too.
static bool has_otherwise(const Action *action)
{
    return action->otherwise || (action->kind == ACTION_IF && action->branch.source->branch.otherwise);
}

static void print_tree(Lowering *lo, const Action *action)
{
    if (!has_control_flow(action)) {
        print_action(lo, action);
        return;
    }
    print_begin(lo, action);
    print_block(lo, action->body);
    if (has_otherwise(action)) {
        print_otherwise(lo, action);
        print_block(lo, action->otherwise);
    }
    print_end(lo, action);
}

void print_block(Lowering *lo, const Action *action)
{
    for (; action; action = action->next) print_tree(lo, action);
}

void print_part(Lowering *lo, ActionKind kind)
{
    const Action *const part = lo->next_part;
    assert(part && part->kind == kind && "printing follows the schedule");
    (void)kind;
    lo->next_part = part->next;
    print_tree(lo, part);
}

void print_parts_through(Lowering *lo, ActionKind kind)
{
    for (const Action *part = lo->next_part; part; part = lo->next_part) {
        print_part(lo, part->kind);
        if (part->kind == kind) return;
    }
    assert(false && "printing follows the schedule");
}

void print_parts(Lowering *lo)
{
    while (lo->next_part) print_part(lo, lo->next_part->kind);
}
