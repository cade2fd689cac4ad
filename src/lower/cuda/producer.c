// SPDX-License-Identifier: MIT
// producer.c - the producer's code: the tree again, with the fetched copies and what their addresses and conditions need.
//
// One thread issues boxes (its whole warp where small rows are copied by lanes). Where the launch's strides allow no
// boxes, a second version of the same walk moves elements with all threads of the group.
//
// before: channels are placed in memory, and it is known which scalars the producer computes (needs.c)
// after:  its code is printed: before a block's first copy into a channel the wait for an empty buffer, behind the last
//         what completes the full barrier's phase
#include "lower/cuda/producer.h"

// ---- channels

// Boxes and announcements are one thread's: where others gather rows, of the last warp, which loads no list of them while
// this thread waits.
static void begin_issue(Lowering *lo, Nest *nest)
{
    const int thread = only_gathers(lo) ? WARPGROUP_THREADS - WARP_LANES : 0;
    if (lo->by_warp || lo->has_filler)
        begin_if(lo, nest, i32_op(lo, X_EQ, var_of(lo, lo->has_filler ? lo->thread : lo->lane), thread));
    else begin_block(lo, nest);
}

// Small rows are one warp's.
static void begin_lanes(Lowering *lo, Nest *nest)
{
    if (lo->has_filler) begin_if(lo, nest, i32_op(lo, X_LT, var_of(lo, lo->thread), WARP_LANES));
    else begin_block(lo, nest);
}

static void announce(Lowering *lo, const char *how, const Channel *channel, int bytes)
{
    emit_call(lo, how, 2, full_barrier(lo, channel), u32_const(lo, bytes));
}

static void arrive(Lowering *lo, const char *how, const Channel *channel)
{
    emit_call(lo, how, 1, full_barrier(lo, channel));
}

static void begin_channel(Lowering *lo, Channel *channel)
{
    Nest nest;
    const bool one_fills = lo->by_tma && !channel->by_lanes && !channel->is_filled;
    // Who has no part in the filling may not wait either: when the buffer was filled and given back already, a latecomer
    // would wait for the phase after.
    const bool some_wait = lo->has_filler && lo->by_tma && !channel->is_filled;
    if (some_wait && channel->by_lanes) begin_lanes(lo, &nest);
    else if (some_wait) begin_issue(lo, &nest);
    emit_call(lo, "mbar_wait", 2, empty_barrier(lo, channel), var_of(lo, channel->clock->phase));
    if (some_wait) end_nest(lo, &nest);
    if (one_fills && lo->by_warp) emit_call(lo, "__syncwarp", 0);
    if (one_fills && channel->is_plain) {
        begin_issue(lo, &nest);
        announce(lo, "mbar_expect", channel, channel->bytes);
        end_nest(lo, &nest);
    }
    point_tiles(lo, channel);
}

// Boxes arrive by themselves, with all bytes that were announced.
static void end_boxes(Lowering *lo, const Channel *channel)
{
    Nest nest;
    if (channel->by_lanes) begin_lanes(lo, &nest);
    else begin_issue(lo, &nest);
    arrive(lo, channel->by_lanes ? "cp_async_arrive" : "mbar_arrive", channel);
    end_nest(lo, &nest);
}

// What threads have stored: those of a filler arrive warp by warp.
static void end_stored(Lowering *lo, const Channel *channel)
{
    const TileInfo *const tile = channel->tiles[0]; // the only one, if it is filled
    Nest nest;
    if (channel->has_gathers) {
        arrive(lo, "cp_async_arrive", channel);
        lo->copies_fly = false;
    }
    wait_for_copies(lo);
    if (!channel->is_filled || (tile->wants_panels && !tile->is_exchanged)) // exchanged rows: there was one
        emit_call(lo, "fence_async", 0);
    if (channel->is_filled) emit_call(lo, "__syncwarp", 0);
    else meet_producer(lo);
    begin_if(lo, &nest, is_zero(lo, channel->is_filled ? lo->lane : lo->thread));
    arrive(lo, "mbar_arrive", channel);
    end_nest(lo, &nest);
}

// After the last copies of a channel in its block.
static void end_channel(Lowering *lo, const Channel *channel)
{
    if (channel->is_gathered) arrive(lo, "cp_async_arrive", channel);
    else if (!lo->by_tma || channel->is_filled) end_stored(lo, channel);
    else if (channel->by_lanes || !channel->is_plain) end_boxes(lo, channel);
}

// What a cut box needs is worked out before the wait for its buffer, not behind it (tma.c).
void open_channel(Lowering *lo)
{
    Channel *const channel = lo->opening;
    lo->opening = NULL;
    if (channel) begin_channel(lo, channel);
}

// ---- blocks

static void produce_op(Lowering *lo, TileOp *op);

// One op with what its channels need around it.
static void produce_in_block(Lowering *lo, TileOp *op, TileOp *block)
{
    const bool is_cut =
        lo->by_tma && !lo->by_warp && !lo->has_filler && op_info(lo, op)->fetched && copy_is_cut(lo, op);
    for (int i = 0; i < lo->channels.count; i++) {
        Channel *const channel = lo->channels.items[i];
        if (channel->clock->block != block || channel->first_fetch != op) continue;
        if (is_cut && channel->is_plain) {
            lo->opening = channel;
        } else {
            look_up_rows(lo, op);
            begin_channel(lo, channel);
        }
    }
    produce_op(lo, op);
    open_channel(lo);
    for (int i = 0; i < lo->channels.count; i++) {
        const Channel *const channel = lo->channels.items[i];
        if (channel->clock->block == block && channel->last_fetch == op) end_channel(lo, channel);
    }
}

static void produce_block(Lowering *lo, TileOp *block)
{
    begin_fills(lo);
    for (TileOp *op = block; op; op = op->next) produce_in_block(lo, op, block);
    advance_clocks(lo, block, -1);
}

// The copies of one stage of a step, with the scalars of all.
static void produce_stage(Lowering *lo, TileOp *body, bool second)
{
    for (TileOp *op = body; op; op = op->next)
        if (op->kind == T_LET || (op->stage > 0) == second) produce_in_block(lo, op, body);
    advance_clocks(lo, body, second);
}

// ---- loops and conditions

// The first half of the next step's boxes is asked for when the first half of this step's are on their way: the tile that
// is given back in the middle of a step would else be wanted half a step after it was asked for.
static void produce_and_ask(Lowering *lo, TileOp *op)
{
    TileOp *const body = op->pipeline.body;
    int n = 0, done = 0;
    for (TileOp *x = body; x; x = x->next) n += is_fetch(lo, x);
    begin_fills(lo);
    for (TileOp *x = body; x; x = x->next) {
        produce_in_block(lo, x, body);
        if (is_fetch(lo, x) && ++done == n / 2) ask_ahead(lo, op, 0, done);
    }
    advance_clocks(lo, body, -1);
    ask_ahead(lo, op, n / 2, n);
}

// In the order of use: stage 1 of a step comes after stage 0 of the next.
static void produce_rotated(Lowering *lo, TileOp *op)
{
    Arena *const a = lo->arena;
    Expr *from, *to;
    index_bounds(lo, &op->pipeline.indices[0], NULL, &from, &to);
    Var *const index = loop_var(lo, op->pipeline.indices[0].var);
    Expr *const one = expr_int(a, index->type, 1);
    Var *const begin = emit_declare(lo, index->type, "begin", from), *const end =
                                                                         emit_declare(lo, index->type, "end", to);
    Nest any, loop, guard;
    begin_if(lo, &any, expr_binary(a, X_LT, var_of(lo, begin), var_of(lo, end)));
    begin_for(lo, &loop, index, var_of(lo, begin), expr_binary(a, X_ADD, var_of(lo, end), one), one, LOOP_NO_UNROLL);
    begin_if(lo, &guard, expr_binary(a, X_LT, var_of(lo, index), var_of(lo, end)));
    produce_stage(lo, op->pipeline.body, false);
    end_nest(lo, &guard);
    begin_if(lo, &guard, expr_binary(a, X_GT, var_of(lo, index), var_of(lo, begin)));
    *var_slot(lo, op->pipeline.indices[0].var) = emit_declare(
        lo, index->type, arena_printf(a, "%s_before", index->name), expr_binary(a, X_SUB, var_of(lo, index), one));
    produce_stage(lo, op->pipeline.body, true);
    *var_slot(lo, op->pipeline.indices[0].var) = index;
    end_nest(lo, &guard);
    end_nest(lo, &loop);
    end_nest(lo, &any);
}

static void produce_pipeline(Lowering *lo, TileOp *op)
{
    Nest nests[LOOP_INDICES_MAX];
    if (op_info(lo, op)->has_places) {
        emit_with_places(lo, op, produce_block);
    } else if (can_rotate(lo, op)) {
        produce_rotated(lo, op);
    } else {
        begin_index_loops(lo, op->pipeline.indices, op->pipeline.n, nests);
        produce_and_ask(lo, op);
        end_nests(lo, nests, op->pipeline.n);
    }
}

static void produce_if(Lowering *lo, TileOp *op)
{
    Nest nest;
    begin_if(lo, &nest, lower_expr(lo, op->branch.cond, NULL));
    produce_block(lo, op->branch.then);
    if (op->branch.otherwise) {
        begin_else(lo, &nest);
        produce_block(lo, op->branch.otherwise);
    }
    end_nest(lo, &nest);
    begin_fills(lo);
}

static void produce_flow(Lowering *lo, TileOp *op)
{
    Nest nest;
    if (op->kind == T_PIPELINE) {
        produce_pipeline(lo, op);
    } else if (op->kind == T_IF) {
        produce_if(lo, op);
    } else if (op->kind == T_FOR) {
        begin_counted_loop(lo, &nest, op, LOOP_NO_UNROLL, NULL);
        produce_block(lo, op->for_.body);
        end_nest(lo, &nest);
    } else {
        begin_while(lo, &nest, op->while_.cond, NULL);
        produce_block(lo, op->while_.body);
        produce_block(lo, op->while_.step);
        end_nest(lo, &nest);
    }
}

// ---- operations

static void produce_copy(Lowering *lo, TileOp *op)
{
    Channel *const channel = tile_info(lo, op->copy.dst.buffer)->channel;
    if (!lo->by_tma) {
        emit_forall(lo, as_map(lo, op), NULL);
        return;
    }
    Nest nest;
    if (channel->by_lanes) {
        begin_lanes(lo, &nest);
        emit_lane_copy(lo, op);
        end_nest(lo, &nest);
        return;
    }
    begin_issue(lo, &nest);
    if (!channel->is_plain) announce(lo, "mbar_expect_more", channel, tma_bytes(lo, op));
    emit_tma_load(lo, op, channel);
    end_nest(lo, &nest);
}

static void produce_scalar(Lowering *lo, TileOp *op)
{
    if (op->kind == T_LET) declare_value(lo, op);
    else if (op->kind == T_SET)
        emit_assign(lo, loop_var(lo, op->let.var), lower_as(lo, op->let.var->type, op->let.value, NULL));
    else emit_op(lo, op);
}

static void produce_op(Lowering *lo, TileOp *op)
{
    const OpInfo *const info = op_info(lo, op);
    if (info->fills && !info->is_place) emit_fill(lo, op);
    else if (is_fetch(lo, op)) produce_copy(lo, op);
    else if (makes_needed(lo, op)) produce_scalar(lo, op);
    else if (is_flow(op) && has_work(lo, op)) produce_flow(lo, op);
}

// The producer's code; by_tma: one thread issues boxes, else all of the group move elements.
void emit_producer(Lowering *lo, bool by_tma)
{
    lo->role = ROLE_PRODUCER;
    lo->by_tma = by_tma;
    declare_clocks(lo);
    declare_tiles(lo);
    Nest grid;
    begin_grid(lo, &grid);
    produce_block(lo, lo->kernel->body);
    end_grid(lo, &grid);
}
