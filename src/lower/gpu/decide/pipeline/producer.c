// SPDX-License-Identifier: MIT
// producer.c - what the producer does: the tree again, with the fetched copies and what their addresses and conditions
// need.
//
// One thread issues boxes (its whole warp where small rows are copied by lanes). Where the launch's strides allow no
// boxes, a second version of the same walk moves elements with all threads of the group.
//
// before: rings are placed in memory, and it is known which scalars the producer computes (backward_slice.c)
// after:  its actions are in the schedule: before a block's first copy into a ring the wait for an empty buffer, after the
//         last what completes the full barrier's phase; print_producer.c prints them
#include "lower/gpu/decide/copy/fetch.h"
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/facts/box.h"
#include "lower/gpu/decide/pipeline/map.h"
#include "lower/gpu/decide/pipeline/producer.h"
#include "lower/gpu/decide/copy/rows.h"
#include "lower/gpu/decide/pipeline/pipeline.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/slices.h"
#include "lower/gpu/decide/pipeline/producer_group.h"
#include "lower/gpu/decide/pipeline/ring_uses.h"
#include "lower/gpu/facts/ring_counts.h"
#include "lower/gpu/decide/pipeline/walk.h"
#include "lower/gpu/facts/info.h"

// ---- rings

static void act_filling(Lowering *lo, ActionKind kind, const Ring *ring, int arrivals, int bytes)
{
    act(lo, (Action){ .kind = kind, .ring = { .ring = ring->index, .arrivals = arrivals, .bytes = bytes } });
}

static bool is_of_boxes(const Lowering *lo, const Ring *ring)
{
    return lo->by_tma && !ring->by_lanes && !ring->is_filled;
}

// The slot is waited for, and its bytes announced, where it is known beforehand how many come.
static void act_acquire(Lowering *lo, const Ring *ring)
{
    act_filling(lo, ACTION_ACQUIRE, ring, 0, 0);
    if (is_of_boxes(lo, ring) && ring->is_plain) act_filling(lo, ACTION_EXPECT, ring, 1, ring->bytes);
    act_slot_pointers(lo, ring);
}

// What threads have stored: those of a producer group, and those that shift rows, arrive warp by warp.
static void act_stored(Lowering *lo, const Ring *ring)
{
    const TileInfo *const tile = ring->tiles[0]; // the only one, if it is filled
    if (ring->has_gathers) {
        act_filling(lo, ACTION_ARRIVE, ring, WARPGROUP_THREADS, 0);
        lo->copies_in_flight = false;
    }
    wait_for_copies(lo);
    if (!ring->is_filled || (tile->wants_panels && !readers_fence(tile))) act_plain(lo, ACTION_FENCE_ASYNC);
    const bool by_warps = ring->is_filled || shifting_warps(lo, ring) > 0;
    if (by_warps) act_plain(lo, ACTION_WARP_SYNC);
    else sync_producer(lo);
    act_filling(lo, ACTION_ARRIVE, ring, by_warps ? WARPGROUP_THREADS / WARP_LANES : 1, 0);
}

// After the last copies of a ring in its block. Boxes arrive by themselves, with all bytes that were announced.
static void act_filled(Lowering *lo, const Ring *ring)
{
    if (ring->is_gathered) act_filling(lo, ACTION_ARRIVE, ring, WARPGROUP_THREADS, 0);
    else if (!lo->by_tma || ring->is_filled) act_stored(lo, ring);
    else if (ring->by_lanes) act_filling(lo, ACTION_ARRIVE, ring, WARP_LANES, 0);
    else if (!ring->is_plain) act_filling(lo, ACTION_ARRIVE, ring, 1, 0);
}

// ---- copies

// Parts of the copy of a box: what it announces; and, if it does so itself, that it waits for its slot.
static void act_box_copy(Lowering *lo, TileOp *op, const Ring *ring)
{
    const bool is_announced = ring->is_plain && lo->by_tma; // with the others of the ring
    const TileInfo *const tile = tile_info(lo, op->copy.dst.buffer);
    const bool is_run = ring->is_run && lo->by_tma;
    int boxes = 0;
    const BoxCopy *const box = is_run ? plan_box_run(lo, ring, &boxes) : plan_box_copy(lo, op, ring);
    const int bytes = is_run ? ring->bytes : tma_bytes(lo, op);
    Action *const copy = open_action(lo, (Action){ .kind = ACTION_COPY,
                                                   .op = op,
                                                   .copy = { .how = COPY_TMA,
                                                             .ring = ring->index,
                                                             .bytes = bytes,
                                                             .boxes = boxes,
                                                             .walks = box->im2col != NULL },
                                                   .print = box });
    access_tile(lo, copy, tile, false, true, true);
    if (!is_announced) act_filling(lo, ACTION_EXPECT, ring, 0, bytes);
    if (box->opens) act_acquire(lo, ring);
    close_action(lo);
}

// ---- rows that begin anywhere

// cp.async brings a step's rows to where they are shifted, unless they are a box in this launch.
static void act_fetch_of_rows(Lowering *lo, const ShiftedCopy *rows)
{
    const Action fetch = { .kind = ACTION_COPY, .op = rows->op, .copy = { .how = COPY_CP_ASYNC, .ring = NO_RING } };
    access_tile(lo, act(lo, fetch), rows->tile, false, true, false);
}

static void act_fetches(Lowering *lo, const ShiftedRows *rows, ScopeKind step)
{
    static const StepsForm form = STEPS_WITH_THE_LOOP;
    open_action(lo, (Action){ .kind = ACTION_SCOPE, .print = &form });
    open_action(lo, (Action){ .kind = ACTION_SCOPE, .scope = { .kind = step, .source = rows->pipeline } });
    for (int i = 0; i < rows->n; i++)
        if (is_first_of_ring(rows, i)) act_filling(lo, ACTION_ACQUIRE, rows->copies[i].tile->ring, 0, 0);
    for (int i = 0; i < rows->n; i++) {
        TileOp *const aligned = NEW(lo->arena, TileOp, .kind = T_IF, .span = rows->copies[i].op->span);
        aligned->branch.cond = rows->copies[i].aligned;
        open_action(lo,
                    (Action){ .kind = ACTION_IF, .op = aligned, .branch = { .source = aligned, .is_uniform = true } });
        otherwise_action(lo);
        act_fetch_of_rows(lo, &rows->copies[i]);
        close_action(lo);
    }
    close_action(lo);
    act_plain(lo, ACTION_COPY_COMMIT);
    close_action(lo);
}

// Copied ahead, or as its first part.
static void act_shifted_rows(Lowering *lo, TileOp *op, const Ring *ring, const ShiftedCopy *rows)
{
    const bool ahead = lo->shifted_rows->ahead;
    as_map(lo, op); // for its work
    Action *const copy =
        open_action(lo, (Action){ .kind = ACTION_COPY,
                                  .op = op,
                                  .copy = { .how = COPY_THREADS, .ring = ring->index, .shifts = true, .ahead = ahead },
                                  .print = rows });
    access_tile(lo, copy, rows->tile, false, true, false);
    if (!ahead) {
        act_fetch_of_rows(lo, rows);
        act_plain(lo, ACTION_COPY_COMMIT);
    }
    act(lo, (Action){ .kind = ACTION_COPY_WAIT, .wait = { .pending = ahead, .is_by_groups = true } });
    close_action(lo);
}

// By all threads of the producer.
static void act_elements(Lowering *lo, TileOp *op, const Ring *ring)
{
    const TileInfo *const tile = tile_info(lo, op->copy.dst.buffer);
    Action copy = { .kind = ACTION_COPY, .op = op, .copy = { .how = COPY_THREADS, .ring = ring->index } };
    const ShiftedCopy *const shifted = shifted_copy_of(lo, op);
    if (shifted) {
        act_shifted_rows(lo, op, ring, shifted);
        return;
    }
    if (lo->stepped_rows && lo->stepped_rows->op == op) {
        copy.copy.walks = true;
        copy.print = plan_stepped_copy(lo, lo->stepped_rows);
    }
    access_tile(lo, copy.print ? act(lo, copy) : act_map(lo, op, copy), tile, false, true, false);
}

// Boxes of other tensors beside rows that threads copy, where their own strides allow them.
static bool is_box_beside(Lowering *lo, TileOp *op)
{
    Box box;
    return (lo->shifted_rows || (lo->stepped_rows && lo->stepped_rows->op != op)) && !op_info(lo, op)->im2col &&
           find_box(lo, &op->copy.src, &box) && box.cut < 0 && !box_has_steps(&box);
}

static void act_without_boxes(Lowering *lo, TileOp *op, const Ring *ring)
{
    if (!is_box_beside(lo, op)) {
        act_elements(lo, op, ring);
        return;
    }
    TileOp *const aligned = NEW(lo->arena, TileOp, .kind = T_IF, .span = op->span);
    aligned->branch.cond = copy_is_aligned(lo, op);
    if (!aligned->branch.cond) {
        act_box_copy(lo, op, ring);
        return;
    }
    open_action(lo, (Action){ .kind = ACTION_IF, .op = aligned, .branch = { .source = aligned, .is_uniform = true } });
    act_box_copy(lo, op, ring);
    otherwise_action(lo);
    act_elements(lo, op, ring);
    close_action(lo);
}

static void act_copy(Lowering *lo, TileOp *op)
{
    const TileInfo *const tile = tile_info(lo, op->copy.dst.buffer);
    const Ring *const ring = tile->ring;
    if (is_of_boxes(lo, ring)) {
        act_box_copy(lo, op, ring);
        return;
    }
    if (!lo->by_tma) {
        act_without_boxes(lo, op, ring);
        return;
    }
    const Action copy = { .kind = ACTION_COPY, .op = op, .copy = { .how = COPY_LANES, .ring = ring->index } };
    access_tile(lo, act(lo, copy), tile, false, true, false);
}

// A copy among a producer group's statements, which fills what others gather: a box all the same, where it is one.
bool fill_is_box(Lowering *lo, TileOp *op)
{
    if (op->kind != T_COPY || !op_info(lo, op)->fills || !copy_is_box(lo, op) || copy_is_aligned(lo, op)) return false;
    const Ring *const ring = tile_info(lo, op->copy.dst.buffer)->ring;
    return ring && ring->is_gathered;
}

// ---- blocks

static void decide_producer_op(Lowering *lo, TileOp *op);
static void decide_producer_scalar(Lowering *lo, TileOp *op);

// A run is copied with its first box: the scalars between its boxes are worked out before that, so that what they load is
// on its way together, while the slot is waited for.
static void begin_run(Lowering *lo, const Ring *ring)
{
    for (TileOp *op = ring->first_fetch->next; op != ring->last_fetch->next; op = op->next) {
        OpInfo *const info = op_info(lo, op);
        if (op->kind == T_LET && is_in_backward_slice(lo, op) && !info->went_ahead) decide_producer_scalar(lo, op);
        info->went_ahead |= op->kind == T_LET || is_copy_into(op, ring->tiles[0]->buffer);
    }
}

static bool opens_ring(Lowering *lo, TileOp *op, const Ring *ring)
{
    return is_fetch(lo, op) && is_of_boxes(lo, ring) && copy_opens_ring(lo, op, ring);
}

// One op with what its rings need around it.
static void decide_producer_in_block(Lowering *lo, TileOp *op, TileOp *block)
{
    for (int i = 0; i < lo->rings.count; i++) {
        const Ring *const ring = lo->rings.items[i];
        if (ring->ring_state->block != block || ring->first_fetch != op) continue;
        if (ring->is_run && is_of_boxes(lo, ring)) begin_run(lo, ring);
        if (opens_ring(lo, op, ring)) continue;
        look_up_rows(lo, op);
        act_acquire(lo, ring);
    }
    decide_producer_op(lo, op);
    for (int i = 0; i < lo->rings.count; i++) {
        const Ring *const ring = lo->rings.items[i];
        if (ring->ring_state->block == block && ring->last_fetch == op) act_filled(lo, ring);
    }
}

static void decide_producer_block(Lowering *lo, TileOp *block)
{
    begin_fills(lo);
    for (TileOp *op = block; op; op = op->next) decide_producer_in_block(lo, op, block);
    advance_ring_states(lo, block, -1);
}

// The copies of one stage of a step, with the scalars of all.
static void decide_producer_stage(Lowering *lo, TileOp *body, bool second)
{
    for (TileOp *op = body; op; op = op->next)
        if (op->kind == T_LET || (op->stage > 0) == second) decide_producer_in_block(lo, op, body);
    advance_ring_states(lo, body, second);
}

// ---- loops and conditions

// The first half of the next step's boxes is prefetched when the first half of this step's are on their way: the tile
// that is released in the middle of a step would else be wanted half a step after its prefetch.
static void decide_producer_steps(Lowering *lo, TileOp *op)
{
    TileOp *const body = op->pipeline.body;
    int n = 0, done = 0;
    for (TileOp *x = body; x; x = x->next) n += is_fetch(lo, x);
    begin_fills(lo);
    for (TileOp *x = body; x; x = x->next) {
        decide_producer_in_block(lo, x, body);
        if (is_fetch(lo, x) && ++done == n / 2) prefetch_l2_ahead(lo, op, 0, done);
    }
    advance_ring_states(lo, body, -1);
    prefetch_l2_ahead(lo, op, n / 2, n);
}

static void decide_producer_stages(Lowering *lo, TileOp *op, ScopeKind scope, const ProducerStages *plan)
{
    open_action(lo, (Action){ .kind = ACTION_SCOPE, .scope = { .kind = scope, .source = op }, .print = plan });
    decide_producer_stage(lo, op->pipeline.body, scope == SCOPE_BUT_FIRST);
    close_action(lo);
}

// In the order of use: stage 1 of a step comes after stage 0 of the next.
static void decide_producer_software_pipeline(Lowering *lo, TileOp *op)
{
    const ProducerStages *const plan = NEW(lo->arena, ProducerStages, .form = STEPS_OF_PRODUCER, .op = op);
    open_action(
        lo, (Action){ .kind = ACTION_LOOP, .op = op, .loop = { .part = LOOP_ONE_MORE, .source = op }, .print = plan });
    decide_producer_stages(lo, op, SCOPE_BUT_LAST, plan);
    decide_producer_stages(lo, op, SCOPE_BUT_FIRST, plan);
    close_action(lo);
}

static void decide_producer_pipeline(Lowering *lo, TileOp *op)
{
    if (op_info(lo, op)->has_row_indices) {
        decide_row_index_loop(lo, op, decide_producer_block);
    } else if (can_software_pipeline(lo, op)) {
        decide_producer_software_pipeline(lo, op);
    } else {
        lo->stepped_rows = lo->by_tma ? NULL : find_stepped_rows(lo, op);
        lo->shifted_rows = lo->by_tma || lo->stepped_rows ? NULL : find_shifted_rows(lo, op);
        const void *const plan = lo->stepped_rows ? (const void *)lo->stepped_rows : lo->shifted_rows;
        const bool ahead = lo->shifted_rows && lo->shifted_rows->ahead;
        if (ahead) act_fetches(lo, lo->shifted_rows, SCOPE_ANY_STEP);
        open_action(
            lo, (Action){ .kind = ACTION_LOOP, .op = op, .loop = { .part = LOOP_ALL, .source = op }, .print = plan });
        if (ahead) act_fetches(lo, lo->shifted_rows, SCOPE_FURTHER_STEP);
        decide_producer_steps(lo, op);
        close_action(lo);
        lo->stepped_rows = NULL;
        lo->shifted_rows = NULL;
    }
}

static void decide_producer_if(Lowering *lo, TileOp *op)
{
    open_action(lo, (Action){ .kind = ACTION_IF, .op = op, .branch = { .source = op, .is_uniform = true } });
    decide_producer_block(lo, op->branch.then);
    if (op->branch.otherwise) {
        otherwise_action(lo);
        decide_producer_block(lo, op->branch.otherwise);
    }
    close_action(lo);
    begin_fills(lo);
}

static void decide_producer_flow(Lowering *lo, TileOp *op)
{
    if (op->kind == T_PIPELINE) {
        decide_producer_pipeline(lo, op);
    } else if (op->kind == T_IF) {
        decide_producer_if(lo, op);
    } else if (op->kind == T_FOR) {
        open_loop(lo, LOOP_ALL, op);
        decide_producer_block(lo, op->for_.body);
        close_action(lo);
    } else {
        open_loop(lo, LOOP_ALL, op);
        decide_producer_block(lo, op->while_.body);
        decide_producer_block(lo, op->while_.step);
        close_action(lo);
    }
}

// ---- operations

static void decide_producer_scalar(Lowering *lo, TileOp *op)
{
    if (op->kind == T_UPDATE) decide_op(lo, op);
    else act(lo, (Action){ .kind = ACTION_DECLARE, .op = op, .declare = { .what = DECLARE_VALUE } });
}

static void decide_producer_op(Lowering *lo, TileOp *op)
{
    OpInfo *const info = op_info(lo, op);
    if (info->went_ahead) {
        info->went_ahead = false;
        return;
    }
    if (lo->by_tma && fill_is_box(lo, op)) act_box_copy(lo, op, tile_info(lo, op->copy.dst.buffer)->ring);
    else if (info->fills && !info->is_row_index) decide_fill(lo, op);
    else if (is_fetch(lo, op)) act_copy(lo, op);
    else if (is_in_backward_slice(lo, op)) decide_producer_scalar(lo, op);
    else if (is_flow(op) && has_work(lo, op)) decide_producer_flow(lo, op);
}

// What the producer does, by boxes or by elements.
void decide_producer_grid(Lowering *lo)
{
    act_declare(lo, DECLARE_RING_STATES);
    act_declare(lo, DECLARE_TILES);
    open_action(lo, (Action){ .kind = ACTION_GRID });
    decide_producer_block(lo, lo->kernel->body);
    close_action(lo);
}
