// SPDX-License-Identifier: MIT
// fetch.c - which copies the producer makes, and the channels through which their tiles pass.
//
// A copy can run ahead if nothing it depends on is made by the consumers: addresses, enclosing loop bounds and
// conditions are functions of launch arguments, indices and read-only tensors, and every write of its tile is such a
// copy (slice.c says what is known). The producer walks the same tree, skipping all else. A tile's channel belongs to the
// block that declares the tile: each pass through the block is one turn of the ring, whatever conditions stand inside.
//
// before: every tile has a home       after: fetched copies are marked, their tiles have channels; lo->has_producer if any do
#include "lower/cuda/cuda.h"

typedef struct Known {
    const Slice *slice;
    bool all;
} Known;

static void see_known(Expr **x, void *context)
{
    Known *const known = context;
    known->all = known->all && slice_knows(known->slice, *x);
}

static bool see_fill(Lowering *lo, TileOp *op, void *context)
{
    Known *const known = context;
    tile_each_expr(op, see_known, known);
    return false;
}

static bool can_fill(const Slice *s, TileOp *op)
{
    Known known = { s, true };
    visit_op(s->lo, op, see_fill, &known);
    return known.all && path_is_known(s, op);
}

static bool check_fill(Lowering *lo, TileOp *op, void *context)
{
    Known *const known = context;
    if (op_info(lo, op)->fills) known->all = known->all && can_fill(known->slice, op);
    return op->kind == T_FORALL;
}

bool fills_are_known(Lowering *lo)
{
    Slice slice = new_slice(lo);
    find_unknown(&slice);
    Known known = { &slice, true };
    each_op(lo, lo->kernel->body, check_fill, &known);
    return known.all;
}

static bool can_run_ahead(Slice *s, const TileOp *op)
{
    if (op->kind != T_COPY || !(copy_is_box(s->lo, op) || copy_is_small(s->lo, op)) ||
        buffer_root(op->copy.src.buffer)->access != ACCESS_IN)
        return false;
    for (int d = 0; d < op->copy.src.buffer->rank; d++)
        if (!slice_knows(s, op->copy.src.subs[d].start)) return false;
    Known known = { s, true };
    buffer_each_expr(op->copy.src.buffer, see_known, &known);
    return known.all && path_is_known(s, op);
}

// ---- uses of a tile

typedef struct TileScan {
    Slice *slice;
    Buffer *root;
    bool all_fetched, any_fetched, any_read, through_views;
} TileScan;

static bool scan_tile(Lowering *lo, TileOp *op, void *context)
{
    TileScan *const scan = context;
    if (op_info(lo, op)->fills) { // its body is looked at with it
        scan->any_fetched |= root_uses(lo, op, scan->root).writes;
        return true;
    }
    const RootUses uses = own_uses(op, scan->root);
    scan->any_read |= uses.reads;
    if (uses.writes && op->kind != T_TILE) {
        const bool fetched = can_run_ahead(scan->slice, op);
        scan->all_fetched &= fetched;
        scan->any_fetched |= fetched;
        scan->through_views |= fetched && op->copy.src.buffer->kind == BUFFER_VIEW;
    }
    return false;
}

static bool note_uses(Lowering *lo, TileOp *op, void *context)
{
    RootUses *const uses = context;
    if (op->kind != T_TILE) {
        const RootUses own = own_uses(op, uses->root);
        uses->reads |= own.reads;
        uses->writes |= own.writes;
    }
    return false;
}

// In one pass through the block that declares the tile all of it is fetched before any of it is read: what a later turn
// of a loop fetches would overwrite what this one reads.
static bool is_filled_first(Lowering *lo, TileOp *block, const Buffer *root, bool *is_read)
{
    for (TileOp *op = block; op; op = op->next) {
        if (op->kind == T_IF) {
            bool then = *is_read, otherwise = *is_read;
            if (!is_filled_first(lo, op->branch.then, root, &then) ||
                !is_filled_first(lo, op->branch.otherwise, root, &otherwise))
                return false;
            *is_read = then || otherwise || own_uses(op, root).reads;
            continue;
        }
        RootUses uses = { .root = root };
        visit_op(lo, op, note_uses, &uses);
        if (uses.writes && (*is_read || uses.reads)) return false;
        *is_read |= uses.reads;
    }
    return true;
}

typedef struct Fetchable {
    bool yes, through_views;
} Fetchable;

static Fetchable is_fetchable(Slice *slice, const TileInfo *tile)
{
    if (tile->buffer->kind != BUFFER_SHARED || tile->is_private) return (Fetchable){ 0 };
    TileScan scan = { .slice = slice, .root = tile->buffer, .all_fetched = true };
    each_op(slice->lo, slice->lo->kernel->body, scan_tile, &scan);
    bool is_read = false;
    const bool yes = scan.all_fetched && scan.any_fetched && scan.any_read && path_is_known(slice, tile->declared) &&
                     is_filled_first(slice->lo, tile->declared, tile->buffer, &is_read);
    return (Fetchable){ yes, scan.through_views };
}

bool tile_is_fetchable(Slice *slice, const TileInfo *tile) { return is_fetchable(slice, tile).yes; }

static bool is_in_pipeline(Lowering *lo, const TileInfo *tile)
{
    for (const TileOp *op = tile->declared; op; op = op_info(lo, op)->parent)
        if (op->kind == T_PIPELINE) return true;
    return false;
}

// The groups that read the tile in this op or below it; 0: none do.
static uint32_t readers_in(Lowering *lo, TileOp *op, const Buffer *root)
{
    if (op_info(lo, op)->fetched) return 0;
    uint32_t groups = own_uses(op, root).reads ? op_groups(lo, op) : 0;
    TileOp **body;
    for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
        for (TileOp *inner = *body; inner; inner = inner->next) {
            const uint32_t below = readers_in(lo, inner, root);
            groups |= below && op->kind == T_FORALL ? op_groups(lo, op) : below;
        }
    return groups;
}

static bool note_fetched(Lowering *lo, TileOp *op, void *context)
{
    const Buffer *const root = context;
    if (op->kind == T_COPY && op->copy.dst.buffer == root && !op_info(lo, op)->fills) {
        op_info(lo, op)->fetched = true;
        lo->n_cuts += copy_is_cut(lo, op);
    }
    return false;
}

static bool find_fetch(Lowering *lo, TileOp *op, void *context)
{
    RootUses *const uses = context;
    const OpInfo *const info = op_info(lo, op);
    if (info->fills) {
        uses->writes |= root_uses(lo, op, uses->root).writes;
        return true;
    }
    uses->writes |= info->fetched && op->copy.dst.buffer == uses->root;
    return false;
}

static bool holds_fetch(Lowering *lo, TileOp *op, const Buffer *root)
{
    RootUses uses = { .root = root };
    visit_op(lo, op, find_fetch, &uses);
    return uses.writes;
}

static bool note_fill(Lowering *lo, TileOp *op, void *context)
{
    if (op_info(lo, op)->fills) op_info(lo, op)->fetched = true;
    return op->kind == T_FORALL;
}

// ---- channels

Clock *clock_of(Lowering *lo, TileOp *block, int stage, int buffers)
{
    for (int i = 0; i < lo->clocks.count; i++) {
        Clock *const clock = lo->clocks.items[i];
        if (clock->block == block && clock->stage == stage) return clock;
    }
    Clock *const clock = NEW(lo->arena, Clock, .block = block, .stage = stage, .buffers = buffers);
    VEC_PUSH(lo->arena, &lo->clocks, clock);
    return clock;
}

// Small copies under conditions have no channel: the kernel says so.
static bool is_small_below(Lowering *lo, TileOp *op, const Buffer *root)
{
    TileOp **body;
    for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
        for (TileOp *inner = *body; inner; inner = inner->next)
            if ((inner->kind == T_COPY && inner->copy.dst.buffer == root && copy_is_small(lo, inner)) ||
                is_small_below(lo, inner, root))
                return true;
    return false;
}

typedef struct Gathers {
    const Buffer *root;
    bool all, any;
} Gathers;

static bool see_gather(Lowering *lo, TileOp *op, void *context)
{
    Gathers *const gathers = context;
    if (!op_info(lo, op)->fills) return op->kind == T_FORALL;
    if (root_uses(lo, op, gathers->root).writes) {
        const bool gathers_rows = fill_is_gather(lo, op);
        gathers->all = gathers->all && gathers_rows;
        gathers->any = gathers->any || gathers_rows;
    }
    return true;
}

// The product behind which a step of the pipeline is done with the tile; NULL: it is read otherwise, or maybe not at all.
static TileOp *last_product(Lowering *lo, TileOp *loop, Buffer *root, int group)
{
    TileOp *last = NULL;
    if (loop->kind != T_PIPELINE || loop->pipeline.n != 1 || has_jumps(lo, loop->pipeline.body)) return NULL;
    for (TileOp *op = loop->pipeline.body; op; op = op->next)
        if (readers_in(lo, op, root) >> group & 1) last = op;
    return last && last->kind == T_MATMUL ? last : NULL;
}

static void note_readers(Lowering *lo, Channel *channel, TileOp *op, uint32_t groups)
{
    if (groups) {
        channel->first_use = channel->first_use ? channel->first_use : op;
        channel->last_use = op;
    }
    for (int g = 0; g < COUNT(channel->first_of); g++)
        if (groups >> g & 1) {
            channel->first_of[g] = channel->first_of[g] ? channel->first_of[g] : op;
            channel->last_of[g] = op;
            channel->done_in[g] = last_product(lo, op, channel->tiles[0]->buffer, g);
        }
}

// `op` fills the tile, or something in it does.
static bool add_fetch(Lowering *lo, Channel *channel, TileOp *op, const Buffer *root)
{
    channel->is_plain &= op->kind == T_COPY && !channel->last_fetch;
    channel->first_fetch = channel->first_fetch ? channel->first_fetch : op;
    channel->last_fetch = op;
    if (channel->is_filled) {
        Gathers gathers = { root, true, false };
        visit_op(lo, op, see_gather, &gathers);
        channel->has_gathers |= gathers.any;
        channel->is_gathered = gathers.all && (channel->is_gathered || channel->first_fetch == op);
        return true;
    }
    if (op->kind != T_COPY) return !is_small_below(lo, op, root);
    if (copy_is_small(lo, op)) channel->by_lanes = true;
    else channel->bytes = tma_bytes(lo, op);
    return true;
}

static void set_clock(Lowering *lo, Channel *channel, TileInfo *tile)
{
    const OpInfo *const info = op_info(lo, tile->declared);
    const TileOp *const pipeline = info->parent && info->parent->kind == T_PIPELINE ? info->parent : NULL;
    const bool staged = pipeline && pipeline->pipeline.n_stage_labels > 1;
    tile->buffers = pipeline && pipeline->pipeline.stages > 1 ? pipeline->pipeline.stages : 1;
    channel->clock = clock_of(lo, info->block, staged ? channel->first_use->stage : 0, tile->buffers);
}

// Tiles with the same life share barriers.
static bool lives_as(const Channel *channel, const Channel *other)
{
    return other->clock == channel->clock && other->first_use == channel->first_use &&
           other->last_use == channel->last_use && other->is_plain && channel->is_plain && !other->by_lanes &&
           !channel->by_lanes && memcmp(other->first_of, channel->first_of, sizeof channel->first_of) == 0 &&
           memcmp(other->last_of, channel->last_of, sizeof channel->last_of) == 0;
}

static void join_channel(Lowering *lo, Channel *channel, const Channel *joining)
{
    channel->tiles[channel->n_tiles++] = joining->tiles[0];
    channel->bytes += joining->bytes;
    for (int g = 0; g < COUNT(channel->done_in); g++)
        channel->done_in[g] = channel->done_in[g] == joining->done_in[g] ? joining->done_in[g] : NULL;
    // What is declared before may be copied behind.
    if (op_info(lo, joining->first_fetch)->order < op_info(lo, channel->first_fetch)->order)
        channel->first_fetch = joining->first_fetch;
    if (op_info(lo, joining->last_fetch)->order > op_info(lo, channel->last_fetch)->order)
        channel->last_fetch = joining->last_fetch;
    joining->tiles[0]->channel = channel;
}

static bool make_channel(Lowering *lo, TileInfo *tile)
{
    Channel channel = { .n_tiles = 1, .tiles = { tile }, .is_plain = !tile->is_filled, .is_filled = tile->is_filled };
    for (TileOp *op = tile->declared; op; op = op->next) {
        note_readers(lo, &channel, op, readers_in(lo, op, tile->buffer));
        if (holds_fetch(lo, op, tile->buffer) && !add_fetch(lo, &channel, op, tile->buffer)) return false;
    }
    if (!channel.first_use || !channel.last_fetch) return false;
    set_clock(lo, &channel, tile);
    for (int i = 0; i < lo->channels.count; i++) {
        Channel *const other = lo->channels.items[i];
        if (lives_as(&channel, other) && other->n_tiles < COUNT(other->tiles)) {
            join_channel(lo, other, &channel);
            return true;
        }
    }
    channel.index = lo->channels.count;
    tile->channel = NEW(lo->arena, Channel);
    *tile->channel = channel;
    VEC_PUSH(lo->arena, &lo->channels, tile->channel);
    return true;
}

void find_fetches(Lowering *lo)
{
    Slice slice = new_slice(lo);
    find_unknown(&slice);
    each_op(lo, lo->kernel->body, note_fill, NULL);
    bool any_piped = false; // a producer that fetches once per instance takes more registers than it saves time
    for (int i = 0; i < lo->n_declared; i++)
        any_piped |= is_in_pipeline(lo, lo->declared.items[i]) && is_fetchable(&slice, lo->declared.items[i]).yes;
    // Program order of the declarations, so that channels are numbered as the source reads.
    for (int order = 0; order < lo->n_declared; order++) {
        TileInfo *const tile = lo->declared.items[order];
        const Fetchable fetchable = is_fetchable(&slice, tile);
        if (!fetchable.yes || (fetchable.through_views && !any_piped)) continue;
        each_op(lo, lo->kernel->body, note_fetched, tile->buffer);
        if (!make_channel(lo, tile))
            unsupported(lo, tile->declared->span, "tile '%s', which is fetched but not used in its block",
                        tile->buffer->name);
        tile->is_async = true;
    }
    lo->has_producer = lo->channels.count > 0;
}
