// SPDX-License-Identifier: MIT
// print_action.c - Loop IR for each kind of action.
//
// before: the action is decided, its ring states, tiles and thread numbers are declared
// after:  its statements are at the end of pr->out; nothing was decided
#include "lower/gpu/print/roles/print_action.h"
#include "lower/gpu/print/build/parts.h"
#include "lower/gpu/print/layout/print_convert_layout.h"
#include "lower/gpu/print/layout/print_transfer.h"
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/print/elements/print_reduce.h"
#include "lower/gpu/print/products/print_product.h"
#include "lower/gpu/print/rings/print_rings.h"
#include "lower/gpu/print/control/grid.h"
#include "lower/gpu/print/control/print_statements.h"
#include "lower/gpu/print/control/print_steps.h"
#include "lower/gpu/print/copies/print_multistage.h"
#include "lower/gpu/print/copies/print_producer.h"
#include "lower/gpu/print/copies/print_rows.h"
#include "lower/gpu/print/copies/print_store.h"
#include "lower/gpu/print/roles/print_roles.h"
#include "lower/gpu/print/roles/print_trace.h"
#include "lower/gpu/plans/forms.h"
#include "lower/gpu/plans/pipeline.h"
#include "lower/gpu/facts/info.h"

#include <assert.h>

static const Ring *ring_of(Printer *pr, const Action *action) { return pr->lo->rings.items[action->ring.ring]; }

// The groups ping-pong at the tensor cores: each waits on its own named barrier, which the group before it arrives at.
static Expr *barrier_id(Printer *pr, const Action *action)
{
    const int first = action->barrier.barrier;
    if (action->barrier.of == BARRIER_ONE) return i32_const(pr, first);
    if (action->barrier.of == BARRIER_OF_GROUP) return i32_add(pr, var_of(pr, pr->group), i32_const(pr, first));
    Expr *const is_last = i32_op(pr, X_EQ, var_of(pr, pr->group), pr->lo->partition.groups - 1);
    Expr *const next = i32_add(pr, var_of(pr, pr->group), i32_const(pr, first + 1));
    return expr_select(pr->arena, is_last, i32_const(pr, first), next);
}

static void print_barrier(Printer *pr, const char *how, const Action *action)
{
    if (action->barrier.barrier == 0) emit_call(pr, "__syncthreads", 0);
    else emit_call(pr, how, 2, barrier_id(pr, action), i32_const(pr, action->barrier.threads));
}

static void print_copy_wait(Printer *pr, const Action *action)
{
    if (action->wait.is_by_groups) emit_call(pr, "copy_wait", 1, i32_const(pr, action->wait.pending));
    else emit_call(pr, "cp_async_wait", 0);
}

static void print_declare(Printer *pr, const Action *action)
{
    switch (action->declare.what) {
    case DECLARE_EARLY_LOADS: print_early_loads(pr, action->print); return;
    case DECLARE_RING_STATES: print_ring_states(pr); return;
    case DECLARE_TILES: print_tiles(pr); return;
    case DECLARE_SCRATCH: declare_scratch_buffer(pr); return;
    case DECLARE_UNWRITTEN: print_unwritten(pr, tile_info(pr->lo, action->op->tile.buffer)); return;
    case DECLARE_THREADS: print_threads(pr); return;
    case DECLARE_COORDINATES: print_coordinates(pr); return;
    case DECLARE_OUTER: return_to_threads(pr); return;
    case DECLARE_VALUE: print_value(pr, action->op); return;
    case DECLARE_SLOT_POINTERS: print_slot_pointers(pr, pr->lo->rings.items[action->declare.ring]); return;
    case DECLARE_CROSSINGS: keep_crossings(pr, action); return;
    case DECLARE_ROWS: print_look_ups(pr, action->print); return;
    case DECLARE_FIRST_LISTS: print_first_lists(pr, action->print); return;
    case DECLARE_FIRST_ROW_INDICES: print_first_indices(pr, action->print); return;
    case DECLARE_NEXT_ROW_INDICES: print_next_indices(pr, action->print); return;
    }
}

// A copy, store or map of elements.
static void print_plan(Printer *pr, const Action *action)
{
    switch (*(const PlanForm *)action->print) {
    case PLAN_MAP: print_map(pr, action->print); return;
    case PLAN_TRANSFER: print_copy_transfer(pr, action->print); return;
    case PLAN_ROWS: print_rows(pr, action->print); return;
    case PLAN_ROW_ELEMENTS: print_row_elements(pr, action->print); return;
    case PLAN_STEPPED_ROWS: print_stepped_copy(pr, action->print); return;
    case PLAN_SHIFTED_ROWS: print_shifted_copy(pr, action->print); return;
    case PLAN_PIECES: print_pieces(pr, action->print); return;
    case PLAN_STORE: print_store(pr, action->print); return;
    case PLAN_BOXES: print_boxes(pr, action); return;
    case PLAN_CONVERSION: print_layout_conversion(pr, action->print); return;
    case PLAN_CONVERSION_PART: print_conversion_part(pr, action->print); return;
    case PLAN_MATRIX_LOAD: print_matrix_load(pr, action->print); return;
    }
}

static void print_copy(Printer *pr, const Action *action)
{
    if (action->copy.how == COPY_TMA || action->copy.how == COPY_LANES) print_fetch(pr, action);
    else print_plan(pr, action);
}

// One without control flow, with its parts.
static void print_leaf(Printer *pr, const Action *action)
{
    switch (action->kind) {
    case ACTION_STORE_WAIT: print_store_wait(pr, action); return;
    case ACTION_SCALAR: print_scalar(pr, action); return;
    case ACTION_ATOMIC: print_atomic(pr, action); return;
    case ACTION_ADVANCE: print_advance(pr, action); return;
    case ACTION_JUMP: print_jump(pr, action); return;
    case ACTION_DECLARE: print_declare(pr, action); return;
    case ACTION_WAIT: print_wait_full(pr, ring_of(pr, action)); return;
    case ACTION_RELEASE:
        print_release(pr, ring_of(pr, action), action->ring.slot == SLOT_HELD ? pr->held_slot : NULL);
        return;
    case ACTION_ACQUIRE:
        if (ring_of(pr, action)->is_consumer_ring) print_consumer_acquire(pr, ring_of(pr, action));
        else print_acquire(pr, action);
        return;
    case ACTION_EXPECT: print_expect(pr, action); return;
    case ACTION_ARRIVE:
        if (ring_of(pr, action)->is_consumer_ring) print_consumer_arrive(pr, ring_of(pr, action));
        else print_arrive(pr, action);
        return;
    case ACTION_COPY: print_copy(pr, action); return;
    case ACTION_COPY_COMMIT: print_commit(pr, action); return;
    case ACTION_COPY_WAIT: print_copy_wait(pr, action); return;
    case ACTION_MMA_WAIT: emit_call(pr, "wgmma_wait", 1, i32_const(pr, action->wait.pending)); return;
    case ACTION_FENCE_ASYNC: emit_call(pr, "fence_async", 0); return;
    case ACTION_LDMATRIX: print_preload(pr, action); return;
    case ACTION_MMA: print_product(pr, action); return;
    case ACTION_PREFETCH: print_l2_prefetch(pr, action->print); return;
    case ACTION_STORE: print_plan(pr, action); return;
    case ACTION_MAP:
        if (action->map.how == MAP_ELEMENTS || action->map.how >= MAP_CONVERT) print_plan(pr, action);
        else print_partial(pr, action);
        return;
    case ACTION_SCAN: print_scan(pr, action->print); return;
    case ACTION_FENCE_REGISTERS: print_register_fence(pr, action); return;
    case ACTION_BARRIER_SYNC: print_barrier(pr, "bar_sync", action); return;
    case ACTION_BARRIER_ARRIVE: print_barrier(pr, "bar_arrive", action); return;
    case ACTION_CLUSTER_SYNC: emit_call(pr, "cluster_sync", 0); return;
    case ACTION_WARP_SYNC: emit_call(pr, "__syncwarp", 0); return;
    case ACTION_GRID:
    case ACTION_LOOP:
    case ACTION_IF:
    case ACTION_SCOPE: return;
    }
}

static void print_action(Printer *pr, const Action *action)
{
    const Action *const outer = pr->next_part;
    pr->next_part = action->body;
    print_leaf(pr, action);
    assert(!pr->next_part && "every part is printed");
    pr->next_part = outer;
}

// ---- actions with a body

static void print_if(Printer *pr, const Action *action)
{
    begin_if(pr, push_nest(pr), lower_expr(pr, action->branch.source->branch.cond, NULL));
}

// Loops and scopes of which a pass has a plan of its own.
static void begin_planned(Printer *pr, const Action *action)
{
    switch (*(const StepsForm *)action->print) {
    case STEPS_SOFTWARE_PIPELINE: begin_software_pipeline(pr, action); return;
    case STEPS_EARLY_ISSUE: begin_early_issue(pr, action); return;
    case STEPS_PRODUCT_LOOP: begin_product_loop(pr, action); return;
    case STEPS_OF_PRODUCER: begin_producer_stages(pr, action); return;
    case STEPS_OF_ROW_INDICES: begin_row_index_loop(pr); return;
    case STEPS_OF_STEPPED_ROWS: begin_stepped_rows(pr, action); return;
    case STEPS_OF_SHIFTED_ROWS: begin_shifted_rows(pr, action); return;
    case STEPS_WITH_THE_LOOP: return;
    case STEPS_MULTISTAGE: begin_multistage(pr, action); return;
    }
}

static void end_planned(Printer *pr, const Action *action)
{
    switch (*(const StepsForm *)action->print) {
    case STEPS_SOFTWARE_PIPELINE: end_software_pipeline(pr, action); return;
    case STEPS_EARLY_ISSUE: end_early_issue(pr, action); return;
    case STEPS_PRODUCT_LOOP: end_product_loop(pr, action); return;
    case STEPS_OF_PRODUCER: end_producer_stages(pr, action); return;
    case STEPS_OF_ROW_INDICES: end_row_index_loop(pr); return;
    case STEPS_OF_STEPPED_ROWS: end_stepped_rows(pr, action); return;
    case STEPS_OF_SHIFTED_ROWS: end_shifted_rows(pr, action); return;
    case STEPS_WITH_THE_LOOP: return;
    case STEPS_MULTISTAGE: end_multistage(pr, action); return;
    }
}

static bool is_scope(const Action *action, ScopeKind kind)
{
    return action->kind == ACTION_SCOPE && action->scope.kind == kind;
}

// Of the producer.
static bool is_of_boxes(const Action *action)
{
    return is_scope(action, SCOPE_ALIGNED) || is_scope(action, SCOPE_ISSUE);
}

static void print_begin(Printer *pr, const Action *action)
{
    save_threads(pr);
    if (action->print) begin_planned(pr, action);
    else if (action->kind == ACTION_GRID) begin_grid(pr, push_nest(pr));
    else if (action->kind == ACTION_IF) print_if(pr, action);
    else if (action->kind == ACTION_LOOP) print_loop(pr, action);
    else if (is_scope(action, SCOPE_ONE_GROUP))
        begin_if(pr, push_nest(pr), i32_op(pr, X_EQ, var_of(pr, pr->group), action->scope.threads));
    else if (is_scope(action, SCOPE_ROW_PART)) pr->row_part = action->scope.threads;
    else if (is_release_scope(action)) print_release_scope(pr, action);
    else if (is_of_boxes(action)) begin_boxes(pr, action);
}

static void print_otherwise(Printer *pr, const Action *action)
{
    return_to_threads(pr);
    if (action->kind == ACTION_IF) begin_else(pr, top_nest(pr));
    else if (is_of_boxes(action)) begin_elements(pr, action);
}

static void print_end(Printer *pr, const Action *action)
{
    if (action->print) end_planned(pr, action);
    else if (action->kind == ACTION_IF || action->kind == ACTION_GRID || is_scope(action, SCOPE_ONE_GROUP))
        pop_nest(pr);
    else if (action->kind == ACTION_LOOP) end_loop(pr, action);
    else if (is_scope(action, SCOPE_ROW_PART)) pr->row_part = 0;
    else if (is_release_scope(action)) pop_nest(pr);
    else if (is_of_boxes(action)) end_boxes(pr, action);
    restore_threads(pr);
}

// ---- trees of actions

static bool has_control_flow(const Action *action) { return action->kind <= ACTION_SCOPE; }

// An empty arm is one, too.
static bool has_otherwise(const Action *action)
{
    return action->otherwise || (action->kind == ACTION_IF && action->branch.source->branch.otherwise);
}

void print_tree(Printer *pr, const Action *action)
{
    if (is_printed_with_loop(action)) return;
    print_place(pr, action->span);
    if (!has_control_flow(action)) {
        trace_begins(pr, action);
        print_action(pr, action);
        trace_ends(pr, action);
        return;
    }
    print_begin(pr, action);
    trace_begins(pr, action);
    print_block(pr, action->body);
    if (has_otherwise(action)) {
        print_otherwise(pr, action);
        print_block(pr, action->otherwise);
    }
    print_end(pr, action);
    trace_ends(pr, action);
}

void print_block(Printer *pr, const Action *action)
{
    for (; action; action = action->next) print_tree(pr, action);
}
