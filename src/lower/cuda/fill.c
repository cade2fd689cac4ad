// SPDX-License-Identifier: MIT
// fill.c - a group of placed statements that only fills tiles of a pipeline becomes the producer.
//
// `on (2) { ... }` around the gathering, conversion and masks of a step: where nothing of it depends on what the other
// groups make, the group is no consumer at all. Its tiles get rings and mbarriers, and its statements run ahead, beside
// the boxes that the producer fetches anyway. What it keeps between its own statements (slots, row numbers) is private
// and lies in shared memory, where every one of its threads finds it.
#include "lower/cuda/cuda.h"

typedef struct Touches {
    bool filled, read_by_filler, written, read;
} Touches; // written, read: by others

typedef struct Filling {
    Lowering *lo;
    uint32_t mask;
    Touches *tiles;
    bool mine, fails, products;
} Filling;

static void touch(const TileUse *use, void *context)
{
    Filling *const filling = context;
    const Buffer *const root = buffer_root(use->buffer);
    const bool writes = use->writes || use->atomic;
    if (root->kind == BUFFER_LOCAL) return;
    if (root->kind == BUFFER_TENSOR) {
        filling->fails |= filling->mine && (writes || root->access != ACCESS_IN);
        return;
    }
    Touches *const tile = &filling->tiles[root->id];
    if (filling->mine) {
        tile->filled |= writes;
        tile->read_by_filler |= use->reads;
    } else {
        tile->written |= writes;
        tile->read |= use->reads;
    }
}

static bool touch_all(Lowering *lo, TileOp *op, void *context)
{
    Filling *const filling = context;
    tile_uses(op, touch, filling);
    if (filling->mine && op->kind != T_FORALL && op->kind != T_STORE && op->kind != T_LET && op->kind != T_IF &&
        op->kind != T_COPY && op->kind != T_FILL)
        filling->fails = true;
    return false;
}

static bool fills_with(const Filling *filling, const TileOp *op)
{
    return (op->kind == T_FORALL || op->kind == T_COPY || op->kind == T_FILL) && op->groups == filling->mask;
}

static bool see_op(Lowering *lo, TileOp *op, void *context)
{
    Filling *const filling = context;
    if (op->kind == T_TILE) return false;
    filling->products |= op->kind == T_MATMUL;
    const bool is_flow =
        op->kind == T_IF || op->kind == T_FOR || op->kind == T_PIPELINE || op->kind == T_WHILE || op->kind == T_LET;
    filling->mine = fills_with(filling, op);
    filling->fails |= (op->groups & filling->mask) && !filling->mine && !is_flow && op->groups == filling->mask;
    if (op->kind != T_FORALL) {
        tile_uses(op, touch, filling);
        return false;
    }
    visit_op(lo, op, touch_all, filling);
    return true;
}

static bool mark_fill(Lowering *lo, TileOp *op, void *context)
{
    const Filling *const filling = context;
    if (fills_with(filling, op)) op_info(lo, op)->fills = !filling->fails;
    return op->kind == T_FORALL;
}

// Declared in a pipeline's body, to which its ring belongs.
static bool has_ring(Lowering *lo, const TileInfo *tile)
{
    const OpInfo *const info = op_info(lo, tile->declared);
    return tile->buffer->kind == BUFFER_SHARED && info->parent && info->parent->kind == T_PIPELINE;
}

static bool check_tiles(Lowering *lo, const Filling *filling)
{
    bool any = false;
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        const Touches *const t = &filling->tiles[tile->buffer->id];
        if ((t->filled && t->written) || (t->read_by_filler && !t->filled) ||
            (t->filled && t->read && !has_ring(lo, tile)))
            return false;
        tile->is_filled = t->filled && t->read;
        tile->is_private = t->filled && !t->read;
        any |= tile->is_filled;
    }
    return any;
}

static void forget(Lowering *lo, Filling *filling)
{
    filling->fails = true;
    each_op(lo, lo->kernel->body, mark_fill, filling);
    for (int i = 0; i < lo->n_declared; i++)
        lo->declared.items[i]->is_filled = lo->declared.items[i]->is_private = false;
}

// ---- before Hopper

typedef struct Sharing {
    uint32_t last;
    bool multiplies, others_do;
    bool *mine, *others;
} Sharing;

static void see_hands(const TileUse *use, void *context)
{
    bool *const touched = context;
    touched[buffer_root(use->buffer)->id] = true;
}

static bool see_share(Lowering *lo, TileOp *op, void *context)
{
    Sharing *const sharing = context;
    const bool mine = op->groups == sharing->last;
    *(mine ? &sharing->multiplies : &sharing->others_do) |= op->kind == T_MATMUL;
    if (op->kind != T_TILE) tile_uses(op, see_hands, mine ? sharing->mine : sharing->others);
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
        tile->home = HOME_SHARED;
        tile->why = "all groups make it together";
    }
    lo->all.groups = last;
    lo->has_teams = last > 1;
    note(lo, "group %d has no products: its statements are done by all others", last);
}

// ---- on Hopper

// before: tiles are known       after: the last group is the producer, if it can be, and no longer among the consumers
void find_filler(Lowering *lo)
{
    const int last = lo->all.groups - 1;
    if (lo->target->arch < 90 && lo->has_teams && lo->crew.warps == 4) share_statements(lo);
    if (lo->target->arch < 90 || !lo->has_teams || lo->crew.warps != 4 || last < 1) return;
    Filling filling = { .lo = lo,
                        .mask = 1u << last,
                        .tiles = NEW_ARRAY(lo->arena, Touches, lo->kernel->n_buffers + 1) };
    each_op(lo, lo->kernel->body, see_op, &filling);
    if (filling.fails || !filling.products || !check_tiles(lo, &filling)) {
        forget(lo, &filling);
        return;
    }
    each_op(lo, lo->kernel->body, mark_fill, &filling);
    if (!fills_are_known(lo)) {
        forget(lo, &filling);
        return;
    }
    for (int i = 0; i < lo->n_declared; i++)
        if (lo->declared.items[i]->is_private) {
            lo->declared.items[i]->home = HOME_SHARED;
            lo->declared.items[i]->why = "all threads of the producer use it";
        }
    lo->has_filler = true;
    lo->all.groups = last;
    find_places(lo);
}

bool only_gathers(const Lowering *lo)
{
    for (int i = 0; i < lo->channels.count; i++) {
        const Channel *const channel = lo->channels.items[i];
        if (channel->is_filled && !channel->is_gathered && channel->tiles[0]->wants_panels) return false;
    }
    return lo->has_filler;
}

// ---- printing: within the producer

typedef struct Touched {
    Lowering *lo;
    bool meets, reads, marks;
} Touched;

static void see_own(const TileUse *use, void *context)
{
    Touched *const touched = context;
    TileInfo *const tile = tile_info(touched->lo, buffer_root(use->buffer));
    if (!tile || tile->home != HOME_SHARED) return;
    const bool writes = use->writes || use->atomic;
    if (tile->channel && tile->channel->is_gathered) // copies in flight, which no meeting orders
        return;
    if (touched->marks) {
        tile->filler_read |= use->reads;
        tile->filler_wrote |= writes;
    } else {
        touched->meets |= tile->filler_wrote || (writes && tile->filler_read);
        touched->reads |= use->reads && tile->wants_panels; // what cp.async may still be filling
    }
}

static void set_touched(Lowering *lo, bool touched)
{
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        tile->filler_read = tile->filler_wrote = touched && (tile->is_filled || (tile->is_private && !tile->has_sides));
    }
}

// Where paths join, and at the head of a loop, other threads may still be at work on anything.
void begin_fills(Lowering *lo) { set_touched(lo, true); }

void meet_producer(Lowering *lo)
{
    emit_call(lo, "bar_sync", 2, i32_const(lo, BAR_PRODUCER), i32_const(lo, producer_threads(lo)));
}

// Beside a stock a row is one warp's.
void meet_fillers(Lowering *lo)
{
    if (lo->stock) emit_call(lo, "__syncwarp", 0);
    else meet_producer(lo);
}

// The producer's threads meet where one's elements are another's.
void emit_fill(Lowering *lo, TileOp *op)
{
    Touched touched = { .lo = lo };
    each_use(lo, op, see_own, &touched);
    if (touched.meets) {
        if (touched.reads) wait_for_copies(lo);
        meet_fillers(lo);
        set_touched(lo, false);
    }
    touched.marks = true;
    each_use(lo, op, see_own, &touched);
    if (!emit_rows(lo, op) && !emit_local(lo, op)) emit_forall(lo, as_map(lo, op), NULL);
}
