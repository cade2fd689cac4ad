// SPDX-License-Identifier: MIT
// consumer.c - the consumers' code: a walk over the tree, and what stands around each operation.
//
// They run every statement but the fetched copies. Before the first use of a channel's tiles they wait for its full barrier,
// after the last they release it; products in flight are waited for where their results are used; barriers stand where
// hazards.c wants them. Where statements are placed on groups (teams.c), each group has a walk of its own, and one tells
// another what it has done by signals.
#include "lower/cuda/cuda.h"

// ---- barriers

// What this thread has stored or copied is there before the others go on.
static void finish_own(Lowering *lo)
{
    wait_for_copies(lo);
    if (lo->needs_fence) emit_call(lo, "fence_async", 0);
}

void meet_all(Lowering *lo)
{
    finish_own(lo);
    if (lo->has_producer || lo->has_teams) // walks of groups are apart: not one __syncthreads
        emit_call(lo, "bar_sync", 2, i32_const(lo, BAR_CONSUMERS), i32_const(lo, all_threads(lo)));
    else emit_call(lo, "__syncthreads", 0);
}

static void meet_group(Lowering *lo)
{
    finish_own(lo);
    emit_call(lo, "bar_sync", 2, i32_const(lo, BAR_TEAMS + lo->walk), i32_const(lo, consumer_threads(lo)));
}

// Of the threads that share the statement at hand.
void emit_barrier(Lowering *lo)
{
    if (lo->has_teams && lo->crew.groups == 1) meet_group(lo);
    else meet_all(lo);
}

// Whoever hears of this group's accesses relies on their being over: products may still read tiles that others fill.
static void end_shared_reads(Lowering *lo)
{
    for (int i = lo->flights.count - 1; i >= 0; i--)
        for (int r = 0; r < COUNT(lo->flights.items[i].reads); r++) {
            const TileInfo *const tile = lo->flights.items[i].reads[r];
            if (tile && !tile->channel) {
                wait_for_tile(lo, lo->flights.items[i].accumulator, false);
                return;
            }
        }
}

// Where all meet, a turned store behind learns that its staging is free: a meeting of its group less.
static void free_staging(Lowering *lo, TileOp *op)
{
    for (TileOp *x = lo->n_turned && !lo->has_teams ? op : NULL; x; x = x->next) {
        if (store_is_turned(lo, x)) {
            emit_staging_done(lo);
            op_info(lo, x)->staging_is_free = true;
            return;
        }
        if (op_has(lo, x, store_is_staged)) return;
    }
}

static void emit_barrier_before(Lowering *lo, TileOp *op)
{
    const OpInfo *const info = op_info(lo, op);
    if (lo->has_teams && info->barrier_group >= 0) {
        if (info->barrier_group == lo->walk) meet_group(lo);
        return;
    }
    if (lo->has_teams) end_shared_reads(lo);
    free_staging(lo, op);
    if (op == lo->staged_over) emit_staging_done(lo);
    if (info->orders_tensors) finish_staged_stores(lo);
    meet_all(lo);
}

// ---- signals between groups

static Expr *threads_of_two(Lowering *lo) { return i32_const(lo, 2 * crew_threads(lo->crew)); }

static void wait_for_signals(Lowering *lo, const TileOp *op)
{
    for (int i = 0; i < lo->signals.count; i++) {
        const Signal *const signal = lo->signals.items[i];
        if (signal->before == op && signal->to == lo->walk)
            emit_call(lo, "bar_sync", 2, i32_const(lo, signal->barrier), threads_of_two(lo));
    }
}

// Of a channel whose tiles this group uses before and after the op.
static bool holds_across(Lowering *lo, const Channel *channel, const TileOp *op)
{
    const OpInfo *const info = op_info(lo, op);
    const TileOp *const first = first_use(lo, channel), *const last = last_use(lo, channel);
    return channel->clock->block == info->block && first && !channel->is_released &&
           op_info(lo, first)->order <= info->order && info->order < op_info(lo, last)->order;
}

// What follows an arrival must not be scheduled before it: the other group waits. Only the end of a basic block holds
// it, and a wait for a buffer that this group holds is one.
static void hold_arrival(Lowering *lo, const TileOp *op)
{
    for (int i = 0; i < lo->channels.count; i++)
        if (holds_across(lo, lo->channels.items[i], op)) {
            emit_wait_full(lo, lo->channels.items[i]);
            return;
        }
}

static void give_signals(Lowering *lo, const TileOp *op)
{
    for (int i = 0; i < lo->signals.count; i++) {
        const Signal *const signal = lo->signals.items[i];
        if (signal->after != op || signal->from != lo->walk) continue;
        end_shared_reads(lo);
        if (signal->fences && lo->needs_fence) emit_call(lo, "fence_async", 0);
        emit_call(lo, "bar_arrive", 2, i32_const(lo, signal->barrier), threads_of_two(lo));
        hold_arrival(lo, op);
    }
}

// ---- products in flight

// What an op touches, with all that is inside it.
typedef struct Touch {
    Lowering *lo;
    bool has_product, leaves;
    TileInfo *tiles[64];
    bool written[64];
    int n;
} Touch;

static bool is_mine(Lowering *lo, TileOp *op) { return !lo->has_teams || op_groups(lo, op) >> lo->walk & 1; }

static void touch_use(const TileUse *use, void *context)
{
    Touch *const touch = context;
    TileInfo *const tile = tile_info(touch->lo, buffer_root(use->buffer));
    if (tile && touch->n < COUNT(touch->tiles)) {
        touch->tiles[touch->n] = tile;
        touch->written[touch->n++] = use->writes || use->atomic;
    }
}

static bool touch_op(Lowering *lo, TileOp *op, void *context)
{
    Touch *const touch = context;
    if (op_info(lo, op)->fetched || !is_mine(lo, op)) return true;
    touch->leaves |= op->kind == T_BREAK || op->kind == T_RETURN;
    touch->has_product |= is_wgmma(lo, op);
    tile_uses(op, touch_use, touch);
    return false;
}

// Those that this op must not overtake.
static void wait_for_op(Lowering *lo, TileOp *op)
{
    if (!lo->flights.count) return;
    Touch touch = { .lo = lo };
    visit_op(lo, op, touch_op, &touch);
    if (is_flow(op) && (touch.has_product || touch.leaves)) {
        wait_for_all(lo);
        return;
    }
    const TileInfo *const acc = is_wgmma(lo, op) ? tile_info(lo, op->matmul.dst.buffer) : NULL;
    for (int i = 0; i < touch.n; i++)
        if (touch.tiles[i] != acc) // products into one accumulator follow each other in order
            wait_for_tile(lo, touch.tiles[i], touch.written[i]);
}

// ---- operations

static bool comes_before(Lowering *lo, const TileOp *a, const TileOp *b)
{
    return op_info(lo, a)->order < op_info(lo, b)->order;
}

// The op in front of which a group waits for a channel: its first use. A wait and the fence behind it take some 150 cycles
// even where the tile has long been full. So a tile that others have used is waited for earlier: with the first tile that is
// filled behind it, or where the group waits for another that has used it.
static const TileOp *entry_of(Lowering *lo, const Channel *channel)
{
    const TileOp *const first = first_use(lo, channel), *entry = first;
    if (!first || !lo->has_teams || !channel->is_gathered) return first;
    for (int i = 0; i < lo->channels.count; i++) {
        const Channel *const other = lo->channels.items[i];
        const TileOp *const use = first_use(lo, other);
        if (use && other->is_gathered && other->clock->block == channel->clock->block &&
            comes_before(lo, channel->first_fetch, other->first_fetch) && comes_before(lo, use, entry))
            entry = use;
    }
    for (int i = 0; i < lo->signals.count; i++) {
        const Signal *const signal = lo->signals.items[i];
        const TileOp *const use = signal->to == lo->walk ? channel->first_of[signal->from] : NULL;
        if (use && op_info(lo, signal->before)->block == channel->clock->block &&
            !comes_before(lo, signal->after, use) && comes_before(lo, signal->before, entry))
            entry = signal->before;
    }
    return entry;
}

// What ordinary stores have filled products see behind a fence, of which one does for all gathered tiles.
static void enter_channels(Lowering *lo, const TileOp *op, const TileOp *block)
{
    int gathered = 0;
    for (int i = 0; i < lo->channels.count; i++) {
        const Channel *const channel = lo->channels.items[i];
        if (channel->clock->block != block || entry_of(lo, channel) != op) continue;
        emit_wait_full(lo, channel);
        gathered += channel->is_gathered;
        if (channel->is_gathered) continue;
        if (channel->has_gathers || channel->tiles[0]->is_exchanged) emit_call(lo, "fence_async", 0);
        point_tiles(lo, channel);
    }
    if (gathered) emit_call(lo, "fence_async", 0);
    for (int i = 0; i < lo->channels.count && gathered; i++) {
        const Channel *const channel = lo->channels.items[i];
        if (channel->is_gathered && channel->clock->block == block && entry_of(lo, channel) == op)
            point_tiles(lo, channel);
    }
}

static void leave_channels(Lowering *lo, const TileOp *op, const TileOp *block)
{
    for (int i = 0; i < lo->channels.count; i++) {
        Channel *const channel = lo->channels.items[i];
        if (channel->clock->block != block || last_use(lo, channel) != op || channel->is_released) continue;
        if (release_within(lo, channel)) emit_last_release(lo, channel, false);
        else if (!release_with_flight(lo, channel)) emit_release(lo, channel);
    }
}

void emit_consumer_op(Lowering *lo, TileOp *op, TileOp *owner_block)
{
    if (op_info(lo, op)->fetched) return;
    const bool mine = is_mine(lo, op);
    enter_channels(lo, op, owner_block);
    if (mine) wait_for_op(lo, op);
    if (op_info(lo, op)->barrier_before) emit_barrier_before(lo, op);
    wait_for_signals(lo, op);
    begin_giving(lo, op);
    if (mine) emit_op(lo, op);
    end_giving(lo, op);
    give_signals(lo, op);
    leave_channels(lo, op, owner_block);
}

void emit_block(Lowering *lo, TileOp *block)
{
    const Threads threads = current_threads(lo);
    for (TileOp *op = block; op; op = op->next) {
        emit_early_loads(lo, op);
        emit_consumer_op(lo, op, block);
    }
    restore_threads(lo, threads);
}

// ---- the role

static bool takes_turns(Lowering *lo, TileOp *op)
{
    return op->kind == T_PIPELINE && can_rotate(lo, op) && groups_take_turns(lo, op);
}

static void emit_walk(Lowering *lo)
{
    lo->copies_fly = false;
    declare_clocks(lo);
    declare_tiles(lo);
    declare_scratch_side(lo);
    if (block_has(lo, lo->kernel->body, takes_turns)) begin_turns(lo);
    Nest grid;
    begin_grid(lo, &grid);
    emit_body(lo, lo->kernel->body);
    end_grid(lo, &grid);
    end_stores(lo);
}

void emit_consumer(Lowering *lo)
{
    lo->role = ROLE_CONSUMER;
    if (!lo->has_teams) {
        emit_walk(lo);
        return;
    }
    Var *const group = lo->group;
    lo->thread_of_all = lo->thread;
    lo->thread =
        emit_declare(lo, DTYPE_I32, "member", i32_op(lo, X_MOD, var_of(lo, lo->thread_of_all), crew_threads(lo->crew)));
    for (int g = 0; g < lo->all.groups; g++) {
        Nest walk;
        begin_if(lo, &walk, i32_op(lo, X_EQ, var_of(lo, group), g));
        lo->walk = g;
        lo->flights.count = 0;
        emit_group_registers(lo, g);
        lo->group = emit_declare(lo, DTYPE_I32, "this_group", i32_const(lo, g));
        emit_walk(lo);
        end_nest(lo, &walk);
    }
}
