// SPDX-License-Identifier: MIT
// producer_group.c - a group of placed statements that only fills tiles of a pipeline becomes the producer.
//
// `on (2) { ... }` around the gathering, conversion and masks of a step: where nothing of it depends on what the other
// groups make, the group is no consumer at all. Its tiles get rings and mbarriers, and its statements run ahead, beside
// the boxes that the producer fetches anyway. What it keeps between its own statements (slots, row numbers) is private
// and lies in shared memory, where every one of its threads finds it.
#include "lower/gpu/decide/copy/fetch.h"
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/decide/pipeline/map.h"
#include "lower/gpu/decide/copy/rows.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/decide/pipeline/producer_group.h"
#include "lower/gpu/decide/pipeline/walk.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/partition.h"

typedef struct TileUses {
    bool filled, read_by_producer, written, read;
} TileUses; // written, read: by others

typedef struct GroupSearch {
    Lowering *lo;
    uint32_t mask;
    TileUses *tiles;
    bool mine, fails, products;
} GroupSearch;

static void access(const TileUse *use, void *context)
{
    GroupSearch *const search = context;
    const Buffer *const root = buffer_root(use->buffer);
    const bool writes = use->writes || use->atomic;
    if (root->kind == BUFFER_LOCAL) return;
    if (root->kind == BUFFER_TENSOR) {
        search->fails |= search->mine && (writes || root->access != ACCESS_IN);
        return;
    }
    TileUses *const tile = &search->tiles[root->id];
    if (search->mine) {
        tile->filled |= writes;
        tile->read_by_producer |= use->reads;
    } else {
        tile->written |= writes;
        tile->read |= use->reads;
    }
}

static bool access_all(Lowering *lo, TileOp *op, void *context)
{
    GroupSearch *const search = context;
    tile_uses(op, access, search);
    if (search->mine && op->kind != T_FORALL && op->kind != T_STORE && op->kind != T_LET && op->kind != T_IF &&
        op->kind != T_COPY && op->kind != T_FILL)
        search->fails = true;
    return false;
}

static bool fills_with(const GroupSearch *search, const TileOp *op)
{
    return (op->kind == T_FORALL || op->kind == T_COPY || op->kind == T_FILL) && op->groups == search->mask;
}

static bool see_op(Lowering *lo, TileOp *op, void *context)
{
    GroupSearch *const search = context;
    if (op->kind == T_TILE) return false;
    search->products |= op->kind == T_MATMUL;
    const bool is_flow =
        op->kind == T_IF || op->kind == T_FOR || op->kind == T_PIPELINE || op->kind == T_WHILE || op->kind == T_LET;
    search->mine = fills_with(search, op);
    search->fails |= (op->groups & search->mask) && !search->mine && !is_flow && op->groups == search->mask;
    if (op->kind != T_FORALL) {
        tile_uses(op, access, search);
        return false;
    }
    visit_op(lo, op, access_all, search);
    return true;
}

static bool mark_fill(Lowering *lo, TileOp *op, void *context)
{
    const GroupSearch *const search = context;
    if (fills_with(search, op)) op_info(lo, op)->fills = !search->fails;
    return op->kind == T_FORALL;
}

// Declared in a pipeline's body, to which its ring belongs.
static bool has_ring(Lowering *lo, const TileInfo *tile)
{
    const OpInfo *const info = op_info(lo, tile->declared);
    return tile->buffer->kind == BUFFER_SHARED && info->parent && info->parent->kind == T_PIPELINE;
}

static bool check_tiles(Lowering *lo, const GroupSearch *search)
{
    bool any = false;
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        const TileUses *const t = &search->tiles[tile->buffer->id];
        if ((t->filled && t->written) || (t->read_by_producer && !t->filled) ||
            (t->filled && t->read && !has_ring(lo, tile)))
            return false;
        tile->is_filled = t->filled && t->read;
        tile->is_private = t->filled && !t->read;
        any |= tile->is_filled;
    }
    return any;
}

static void forget(Lowering *lo, GroupSearch *search)
{
    search->fails = true;
    each_op(lo, lo->kernel->body, mark_fill, search);
    for (int i = 0; i < lo->n_declared; i++)
        lo->declared.items[i]->is_filled = lo->declared.items[i]->is_private = false;
}

// ---- before Hopper

typedef struct Sharing {
    uint32_t last;
    bool multiplies, others_do;
    bool *mine, *others;
} Sharing;

static void see_use(const TileUse *use, void *context)
{
    bool *const accessed = context;
    accessed[buffer_root(use->buffer)->id] = true;
}

static bool see_share(Lowering *lo, TileOp *op, void *context)
{
    Sharing *const sharing = context;
    const bool mine = op->groups == sharing->last;
    *(mine ? &sharing->multiplies : &sharing->others_do) |= op->kind == T_MATMUL;
    if (op->kind != T_TILE) tile_uses(op, see_use, mine ? sharing->mine : sharing->others);
    return false;
}

static bool give_to_all(Lowering *lo, TileOp *op, void *context)
{
    const Sharing *const sharing = context;
    if (op->groups == sharing->last) op->groups = 0;
    return false;
}

// No group's registers can be another's there: a group without products would only take them from those that have some.
// All groups do its statements together.
static void share_statements(Lowering *lo)
{
    const int last = lo->all.groups - 1, n = lo->kernel->n_buffers + 1;
    Sharing sharing = { .last = 1u << last,
                        .mine = NEW_ARRAY(lo->arena, bool, n),
                        .others = NEW_ARRAY(lo->arena, bool, n) };
    each_op(lo, lo->kernel->body, see_share, &sharing);
    if (sharing.multiplies || !sharing.others_do) return;
    each_op(lo, lo->kernel->body, give_to_all, &sharing);
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        if (tile->buffer->kind != BUFFER_FRAGMENT || !sharing.mine[tile->buffer->id] ||
            sharing.others[tile->buffer->id])
            continue;
        tile->storage = TILE_IN_SHARED;
        tile->why = "all groups make it together";
    }
    lo->all.groups = last;
    lo->is_specialised = last > 1;
    note(lo, "group %d has no products: its statements are done by all others", last);
}

// ---- on Hopper

// before: tiles are known       after: the last group is the producer, if it can be, and no longer among the consumers
void find_producer_group(Lowering *lo)
{
    const int last = lo->all.groups - 1;
    if (!lo->gpu->mbarriers && lo->is_specialised && lo->partition.warps == 4) share_statements(lo);
    if (!lo->gpu->mbarriers || !lo->is_specialised || lo->partition.warps != 4 || last < 1) return;
    GroupSearch search = { .lo = lo,
                           .mask = 1u << last,
                           .tiles = NEW_ARRAY(lo->arena, TileUses, lo->kernel->n_buffers + 1) };
    each_op(lo, lo->kernel->body, see_op, &search);
    if (search.fails || !search.products || !check_tiles(lo, &search)) {
        forget(lo, &search);
        return;
    }
    each_op(lo, lo->kernel->body, mark_fill, &search);
    if (!fills_are_known(lo)) {
        forget(lo, &search);
        return;
    }
    for (int i = 0; i < lo->n_declared; i++)
        if (lo->declared.items[i]->is_private) {
            lo->declared.items[i]->storage = TILE_IN_SHARED;
            lo->declared.items[i]->why = "all threads of the producer use it";
        }
    lo->has_producer_group = true;
    lo->all.groups = last;
    find_row_indices(lo);
}

// ---- within the producer

typedef struct Accessed {
    Lowering *lo;
    bool syncs, reads, marks;
} Accessed;

static void see_own(const TileUse *use, void *context)
{
    Accessed *const accessed = context;
    TileInfo *const tile = tile_info(accessed->lo, buffer_root(use->buffer));
    if (!tile || tile->storage != TILE_IN_SHARED) return;
    const bool writes = use->writes || use->atomic;
    if (tile->ring && tile->ring->is_gathered) // copies in flight, which no barrier orders
        return;
    if (accessed->marks) {
        tile->producer_read |= use->reads;
        tile->producer_wrote |= writes;
    } else {
        accessed->syncs |= tile->producer_wrote || (writes && tile->producer_read);
        accessed->reads |= use->reads && tile->wants_panels; // what cp.async may still be filling
    }
}

static void set_accessed(Lowering *lo, bool accessed)
{
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        tile->producer_read = tile->producer_wrote =
            accessed && (tile->is_filled || (tile->is_private && !tile->is_double_buffered));
    }
}

// Where paths join, and at the head of a loop, other threads may still be at work on anything.
void begin_fills(Lowering *lo) { set_accessed(lo, true); }

void sync_producer(Lowering *lo) { act_barrier(lo, ACTION_BARRIER_SYNC, BAR_PRODUCER, producer_threads(lo)); }

// With a register prefetch a row is one warp's.
void sync_row_writers(Lowering *lo)
{
    if (lo->prefetched_rows) act_plain(lo, ACTION_WARP_SYNC);
    else sync_producer(lo);
}

// Copies of rows by cp.async, or elements stored by the threads; of others' tiles in rings.
static Action fill_action(Lowering *lo, TileOp *op)
{
    Action fill = { .kind = ACTION_MAP, .op = op };
    record_accesses(lo, &fill, op);
    if (!fill_is_gather(lo, op)) return fill;
    fill.kind = ACTION_COPY;
    fill.copy.how = COPY_CP_ASYNC;
    fill.copy.ring = NO_RING;
    for (int i = 0; i < fill.n_accesses; i++)
        if (fill.accesses[i].writes) fill.copy.ring = lo->builder.schedule->tiles.items[fill.accesses[i].tile]->ring;
    return fill;
}

static void act_row_elements(Lowering *lo, TileOp *map, Action fill)
{
    fill.print = NEW(lo->arena, RowElements, .form = PLAN_ROW_ELEMENTS, .map = map);
    act(lo, fill);
}

// The producer's threads synchronise where one's elements are another's.
void decide_fill(Lowering *lo, TileOp *op)
{
    Accessed accessed = { .lo = lo };
    each_use(lo, op, see_own, &accessed);
    if (accessed.syncs) {
        if (accessed.reads) wait_for_copies(lo);
        sync_row_writers(lo);
        set_accessed(lo, false);
    }
    accessed.marks = true;
    each_use(lo, op, see_own, &accessed);
    const RowsPlan *const rows = decide_move(lo, op);
    TileOp *const map = as_map(lo, op);
    const Action fill = fill_action(lo, op);
    if (rows) act_move(lo, rows, fill);
    else if (lo->prefetched_rows && map->forall.n == 1) act_row_elements(lo, map, fill);
    else act_map(lo, op, fill);
}
