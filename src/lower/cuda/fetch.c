// fetch.c - which copies the producer makes, and the channels through which their tiles pass.
//
// A copy can run ahead if nothing it depends on is made by the consumers: addresses, enclosing loop bounds and
// conditions are functions of launch arguments, indices and read-only tensors, and every write of its tile is such a
// copy. The producer walks the same tree, skipping all else. A tile's channel belongs to the block that declares the
// tile: each pass through the block is one turn of the ring, whatever conditions stand inside.
#include "lower/cuda/cuda.h"

// ---- what the producer can compute

static bool is_unknown(const Expr *x, void *context)
{
    const Slice *const s = context;
    if (x->kind == E_VAR)
        return s->unknown[x->var.var->id];
    if (x->kind == E_ATOMIC || x->kind == E_CALL)
        return true;
    if (x->kind == E_LOAD) {
        const Buffer *const root = buffer_root(x->load.buffer);
        const TileInfo *const tile = tile_info(s->lo, root);
        if (tile && !s->no_tiles && (tile->is_filled || tile->is_private))
            return false;
        return root->kind != BUFFER_TENSOR || root->access != ACCESS_IN;
    }
    return false;
}

static bool knows(const Slice *s, const Expr *x)
{
    return !x || !expr_any(x, is_unknown, (void *)s);
}

bool slice_knows(const Slice *slice, const Expr *x) { return knows(slice, x); }

Slice new_slice(Lowering *lo) { return (Slice){ .lo = lo, .unknown = NEW_ARRAY(lo->arena, bool, lo->kernel->n_vars + 1) }; }

static void mark(Slice *s, const Var *var)
{
    if (!s->unknown[var->id])
        s->unknown[var->id] = s->changed = true;
}

static void mark_block(Slice *s, TileOp *block, bool certain);

static void mark_op(Slice *s, TileOp *op, bool certain)
{
    switch (op->kind) {
    case T_LET: case T_SET:
        if (!certain || !knows(s, op->let.value))
            mark(s, op->let.var);
        return;
    case T_UPDATE:
        if (op->update.var && (op->update.reduces || !certain || !knows(s, op->update.value)))
            mark(s, op->update.var);
        return;
    case T_FORALL: {                 // scalars set in iterations are private to them
        return mark_block(s, op->forall.body, op_info(s->lo, op)->fills);
    }
    case T_FOR:
        if (!certain || !knows(s, op->for_.lo) || !knows(s, op->for_.hi)) {
            mark(s, op->for_.var);
            certain = false;
        }
        mark_block(s, op->for_.body, certain);
        return;
    case T_PIPELINE:
        for (int i = 0; i < op->pipeline.n; i++)
            if (!certain || !knows(s, op->pipeline.indices[i].lo) || !knows(s, op->pipeline.indices[i].hi)) {
                mark(s, op->pipeline.indices[i].var);
                certain = false;
            }
        mark_block(s, op->pipeline.body, certain);
        return;
    case T_WHILE:
        mark_block(s, op->while_.body, certain && knows(s, op->while_.cond));
        mark_block(s, op->while_.step, certain && knows(s, op->while_.cond));
        return;
    case T_IF:
        mark_block(s, op->branch.then, certain && knows(s, op->branch.cond));
        mark_block(s, op->branch.otherwise, certain && knows(s, op->branch.cond));
        return;
    case T_TILE: case T_STORE: case T_ATOMIC: case T_ATOMIC_TILE: case T_FILL: case T_COPY: case T_MATMUL: case T_SCAN:
    case T_BREAK: case T_CONTINUE: case T_RETURN: case T_PRINT: case T_ASSERT: case T_EXTERN:
        return;
    }
}

static void mark_block(Slice *s, TileOp *block, bool certain)
{
    for (TileOp *op = block; op; op = op->next)
        mark_op(s, op, certain);
}

void find_unknown(Slice *slice)
{
    do {
        slice->changed = false;
        mark_block(slice, slice->lo->kernel->body, true);
    } while (slice->changed);
}

// ---- candidates

static bool jumps(TileOp *block)
{
    for (TileOp *op = block; op; op = op->next) {
        if (op->kind == T_BREAK || op->kind == T_CONTINUE || op->kind == T_RETURN)
            return true;
        if (op->kind == T_IF && (jumps(op->branch.then) || jumps(op->branch.otherwise)))
            return true;
    }
    return false;
}

// All enclosing conditions and loops are known to the producer and left by no jump.
bool path_is_known(const Slice *s, const TileOp *op)
{
    for (TileOp *parent = op_info(s->lo, op)->parent; parent; parent = op_info(s->lo, parent)->parent) {
        switch (parent->kind) {
        case T_IF:
            if (!knows(s, parent->branch.cond))
                return false;
            break;
        case T_FOR:
            if (!knows(s, parent->for_.lo) || !knows(s, parent->for_.hi) || jumps(parent->for_.body))
                return false;
            break;
        case T_PIPELINE:
            for (int i = 0; i < parent->pipeline.n; i++)
                if (!knows(s, parent->pipeline.indices[i].lo) || !knows(s, parent->pipeline.indices[i].hi))
                    return false;
            if (jumps(parent->pipeline.body))
                return false;
            break;
        case T_WHILE:
            if (!knows(s, parent->while_.cond) || jumps(parent->while_.body))
                return false;
            break;
        default:
            return false;
        }
    }
    return true;
}

typedef struct Known { const Slice *slice; bool all; } Known;

static void see_known(Expr **x, void *context)
{
    Known *const known = context;
    known->all = known->all && knows(known->slice, *x);
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
    TileOp *const next = op->next;
    op->next = NULL;
    each_op(s->lo, op, see_fill, &known);
    op->next = next;
    return known.all && path_is_known(s, op);
}

static bool check_fill(Lowering *lo, TileOp *op, void *context)
{
    Known *const known = context;
    if (op_info(lo, op)->fills)
        known->all = known->all && can_fill(known->slice, op);
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
        if (!knows(s, op->copy.src.subs[d].start))
            return false;
    Known known = { s, true };
    buffer_each_expr(op->copy.src.buffer, see_known, &known);
    return known.all && path_is_known(s, op);
}

// ---- uses of a tile

typedef struct Uses { Buffer *root; bool reads, writes; } Uses;

static void see_use(const TileUse *use, void *context)
{
    Uses *const uses = context;
    if (buffer_root(use->buffer) == uses->root) {
        uses->reads |= use->reads;
        uses->writes |= use->writes || use->atomic;
    }
}

static bool see_uses(Lowering *lo, TileOp *op, void *context)
{
    tile_uses(op, see_use, context);
    return false;
}

static void uses_inside(Lowering *lo, TileOp *op, Uses *uses)
{
    TileOp *const next = op->next;
    op->next = NULL;
    each_op(lo, op, see_uses, uses);
    op->next = next;
}

typedef struct TileScan { Slice *slice; Buffer *root; bool all_fetched, any_fetched, any_read, through_views; } TileScan;

static bool scan_tile(Lowering *lo, TileOp *op, void *context)
{
    TileScan *const scan = context;
    Uses uses = { .root = scan->root };
    if (op_info(lo, op)->fills) {    // its body is looked at with it
        uses_inside(lo, op, &uses);
        scan->any_fetched |= uses.writes;
        return true;
    }
    tile_uses(op, see_use, &uses);
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
    if (op->kind != T_TILE)
        tile_uses(op, see_use, context);
    return false;
}

// In one pass through the block that declares the tile all of it is fetched before any of it is read: what a later turn
// of a loop fetches would overwrite what this one reads.
static bool is_filled_first(Lowering *lo, TileOp *block, Buffer *root, bool *is_read)
{
    for (TileOp *op = block; op; op = op->next) {
        Uses uses = { .root = root };
        TileOp *const next = op->next;
        if (op->kind == T_IF) {
            bool then = *is_read, otherwise = *is_read;
            tile_uses(op, see_use, &uses);
            if (!is_filled_first(lo, op->branch.then, root, &then) || !is_filled_first(lo, op->branch.otherwise, root, &otherwise))
                return false;
            *is_read = then || otherwise || uses.reads;
            continue;
        }
        op->next = NULL;
        each_op(lo, op, note_uses, &uses);
        op->next = next;
        if (uses.writes && (*is_read || uses.reads))
            return false;
        *is_read |= uses.reads;
    }
    return true;
}

typedef struct Fetchable { bool yes, through_views; } Fetchable;

static Fetchable is_fetchable(Slice *slice, const TileInfo *tile)
{
    if (tile->buffer->kind != BUFFER_SHARED || tile->is_private)
        return (Fetchable){ 0 };
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
        if (op->kind == T_PIPELINE)
            return true;
    return false;
}

// The groups that read the tile in this op or below it; 0: none do.
static uint32_t readers_in(Lowering *lo, TileOp *op, Buffer *root)
{
    uint32_t groups = 0;
    if (op_info(lo, op)->fetched)
        return 0;
    Uses uses = { .root = root };
    tile_uses(op, see_use, &uses);
    if (uses.reads)
        groups |= op_groups(lo, op);
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

static bool holds_fetch(Lowering *lo, TileOp *op, void *context)
{
    Uses *const uses = context;
    if (op_info(lo, op)->fills) {
        uses_inside(lo, op, uses);
        return true;
    }
    if (op_info(lo, op)->fetched && op->copy.dst.buffer == uses->root)
        uses->writes = true;
    return false;
}

static bool note_fill(Lowering *lo, TileOp *op, void *context)
{
    if (op_info(lo, op)->fills)
        op_info(lo, op)->fetched = true;
    return op->kind == T_FORALL;
}

// ---- channels

Clock *clock_of(Lowering *lo, TileOp *block, int stage, int buffers)
{
    for (int i = 0; i < lo->clocks.count; i++) {
        Clock *const clock = lo->clocks.items[i];
        if (clock->block == block && clock->stage == stage)
            return clock;
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
            if ((inner->kind == T_COPY && inner->copy.dst.buffer == root && copy_is_small(lo, inner)) || is_small_below(lo, inner, root))
                return true;
    return false;
}

typedef struct Gathers { Buffer *root; bool all, any; } Gathers;

static bool see_gather(Lowering *lo, TileOp *op, void *context)
{
    Gathers *const gathers = context;
    if (!op_info(lo, op)->fills)
        return op->kind == T_FORALL;
    Uses uses = { .root = gathers->root };
    uses_inside(lo, op, &uses);
    if (uses.writes) {
        const bool gathers_rows = fill_is_gather(lo, op);
        gathers->all = gathers->all && gathers_rows;
        gathers->any = gathers->any || gathers_rows;
    }
    return true;
}

static bool make_channel(Lowering *lo, TileInfo *tile)
{
    const OpInfo *const info = op_info(lo, tile->declared);
    Channel channel = { .n_tiles = 1, .tiles = { tile }, .is_plain = !tile->is_filled, .is_filled = tile->is_filled };
    Uses uses = { .root = tile->buffer };
    for (TileOp *op = tile->declared; op; op = op->next) {
        const uint32_t readers = readers_in(lo, op, tile->buffer);
        if (readers) {
            channel.first_use = channel.first_use ? channel.first_use : op;
            channel.last_use = op;
        }
        for (int g = 0; g < COUNT(channel.first_of); g++)
            if (readers >> g & 1) {
                channel.first_of[g] = channel.first_of[g] ? channel.first_of[g] : op;
                channel.last_of[g] = op;
            }
        TileOp *const next = op->next;
        op->next = NULL;
        uses.writes = false;
        each_op(lo, op, holds_fetch, &uses);
        op->next = next;
        if (uses.writes) {
            channel.is_plain &= op->kind == T_COPY && !channel.last_fetch;
            channel.first_fetch = channel.first_fetch ? channel.first_fetch : op;
            channel.last_fetch = op;
            if (channel.is_filled) {
                Gathers gathers = { tile->buffer, true, false };
                TileOp *const rest = op->next;
                op->next = NULL;
                each_op(lo, op, see_gather, &gathers);
                op->next = rest;
                channel.has_gathers |= gathers.any;
                channel.is_gathered = gathers.all && (channel.is_gathered || channel.first_fetch == op);
                continue;
            }
            if (op->kind == T_COPY && copy_is_small(lo, op))
                channel.by_lanes = true;
            else if (op->kind == T_COPY)
                channel.bytes = tma_bytes(lo, op);
            if (op->kind != T_COPY && is_small_below(lo, op, tile->buffer))
                return false;
        }
    }
    if (!channel.first_use || !channel.last_fetch)
        return false;
    const bool in_pipeline = info->parent && info->parent->kind == T_PIPELINE;
    tile->buffers = in_pipeline ? info->parent->pipeline.stages : 1;
    if (tile->buffers < 1)
        tile->buffers = 1;
    const bool staged = in_pipeline && info->parent->pipeline.n_stage_labels > 1;
    channel.clock = clock_of(lo, info->block, staged ? channel.first_use->stage : 0, tile->buffers);
    // Tiles with the same life share barriers.
    for (int i = 0; i < lo->channels.count; i++) {
        Channel *const other = lo->channels.items[i];
        if (other->clock == channel.clock && other->first_use == channel.first_use && other->last_use == channel.last_use &&
            memcmp(other->first_of, channel.first_of, sizeof channel.first_of) == 0 &&
            memcmp(other->last_of, channel.last_of, sizeof channel.last_of) == 0 && other->is_plain && channel.is_plain &&
            !other->by_lanes && !channel.by_lanes && other->n_tiles < COUNT(other->tiles)) {
            other->tiles[other->n_tiles++] = tile;
            other->bytes += channel.bytes;
            if (op_info(lo, channel.first_fetch)->order < op_info(lo, other->first_fetch)->order)      // declared before, copied behind
                other->first_fetch = channel.first_fetch;
            if (op_info(lo, channel.last_fetch)->order > op_info(lo, other->last_fetch)->order)
                other->last_fetch = channel.last_fetch;
            tile->channel = other;
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
    bool any_piped = false;          // a producer that fetches once per instance takes more registers than it saves time
    for (int i = 0; i < lo->n_declared; i++)
        any_piped |= is_in_pipeline(lo, lo->declared.items[i]) && is_fetchable(&slice, lo->declared.items[i]).yes;
    // Program order of the declarations, so that channels are numbered as the source reads.
    for (int order = 0; order < lo->n_declared; order++) {
        TileInfo *const tile = lo->declared.items[order];
        const Fetchable fetchable = is_fetchable(&slice, tile);
        if (!fetchable.yes || (fetchable.through_views && !any_piped))
            continue;
        each_op(lo, lo->kernel->body, note_fetched, tile->buffer);
        if (!make_channel(lo, tile))
            unsupported(lo, tile->declared->span, "tile '%s', which is fetched but not used in its block", tile->buffer->name);
        tile->is_async = true;
    }
    lo->has_producer = lo->channels.count > 0;
}
