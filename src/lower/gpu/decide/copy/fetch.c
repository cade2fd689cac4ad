// SPDX-License-Identifier: MIT
// fetch.c - which copies the producer makes, and the rings through which their tiles pass.
//
// A copy can run ahead if nothing it depends on is made by the consumers: addresses, enclosing loop bounds and
// conditions are functions of launch arguments, indices and read-only tensors, and every write of its tile is such a
// copy (known_values.c says what is known). The producer walks the same tree, skipping all else. A tile's ring belongs
// to the block that declares the tile: each pass through the block is one turn of the ring, whatever conditions stand
// inside.
//
// before: every tile has its storage       after: fetched copies are marked, their tiles have rings; lo->has_producer
//         if any do
#include "lower/gpu/decide/copy/fetch.h"
#include "lower/gpu/facts/box.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/groups.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/decide/iteration/known_values.h"
#include "lower/gpu/decide/copy/rows.h"
#include "lower/gpu/facts/info.h"

typedef struct Known {
    const KnownValues *values;
    bool all;
} Known;

static void see_known(Expr **x, void *context)
{
    Known *const known = context;
    known->all = known->all && value_is_known(known->values, *x);
}

static bool see_fill(Lowering *lo, TileOp *op, void *context)
{
    Known *const known = context;
    tile_each_expr(op, see_known, known);
    return false;
}

static bool can_fill(const KnownValues *s, TileOp *op)
{
    Known known = { s, true };
    visit_op(s->lo, op, see_fill, &known);
    return known.all && path_is_known(s, op);
}

static bool check_fill(Lowering *lo, TileOp *op, void *context)
{
    Known *const known = context;
    if (op_info(lo, op)->fills) known->all = known->all && can_fill(known->values, op);
    return op->kind == T_FORALL;
}

bool fills_are_known(Lowering *lo)
{
    KnownValues values = new_known_values(lo);
    find_unknown(&values);
    Known known = { &values, true };
    each_op(lo, lo->kernel->body, check_fill, &known);
    return known.all;
}

// Why the op cannot run ahead; NULL: it can.
static const char *why_behind(KnownValues *s, const TileOp *op)
{
    if (op->kind != T_COPY || buffer_root(op->copy.src.buffer)->kind != BUFFER_TENSOR)
        return "other statements write it";
    if (dtype_bits(op->copy.src.buffer->type) < 8)
        return "a tile has a byte for each packed element; words of a view are fetched";
    if (!(copy_is_box(s->lo, op) || copy_is_small(s->lo, op)))
        return "the slice is no box, or does not begin at one in the tile";
    if (buffer_root(op->copy.src.buffer)->access != ACCESS_IN) return "the kernel writes the tensor, too";
    Known known = { s, true };
    for (int d = 0; d < op->copy.src.buffer->rank; d++) see_known(&op->copy.src.subs[d].start, &known);
    for (int d = 0; d < op->copy.dst.buffer->rank; d++) see_known(&op->copy.dst.subs[d].start, &known);
    buffer_each_expr(op->copy.src.buffer, see_known, &known);
    if (op_info(s->lo, op)->im2col) visit_op(s->lo, as_map(s->lo, (TileOp *)op), see_fill, &known);
    if (!known.all) return "its place depends on what the computing threads make";
    return path_is_known(s, op) ? NULL : "a condition or loop around it depends on what the computing threads make";
}

// ---- uses of a tile

typedef struct TileScan {
    KnownValues *values;
    Buffer *root;
    bool all_fetched, any_fetched, any_read, through_views, is_walked;
    const char *why; // not all are fetched
    const TileOp *behind;
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
        const char *const why = why_behind(scan->values, op);
        const bool fetched = !why;
        if (why && !scan->why) scan->behind = op;
        scan->why = scan->why ? scan->why : why;
        scan->all_fetched &= fetched;
        scan->any_fetched |= fetched;
        scan->through_views |= fetched && op->copy.src.buffer->kind == BUFFER_VIEW;
        scan->is_walked |= op_info(lo, op)->im2col != NULL;
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

// ---- what is filled twice

typedef VEC(const TileOp *) Fills;

// Is what one copy fills of a tile below what the other does, along some dimension?
static bool fills_are_apart(Lowering *lo, const Region *x, const Region *y)
{
    if (x->buffer != y->buffer) return false;
    for (int d = 0; d < x->buffer->rank; d++) {
        Expr *end[2];
        const Region *const both[] = { x, y };
        for (int i = 0; i < 2; i++) {
            const Sub *const sub = &both[i]->subs[d];
            end[i] = int_add(lo->arena, sub->start, sub->is_range ? sub->width : int_const(lo->arena, 1));
        }
        if (expr_at_least(x->subs[d].start, end[1]) || expr_at_least(y->subs[d].start, end[0])) return true;
    }
    return false;
}

// Copies of one turn are asynchronous, and in no order: of two that may fill the same elements neither can run ahead.
static bool fills_once(Lowering *lo, TileOp *block, const Buffer *root, Fills *before)
{
    for (TileOp *op = block; op; op = op->next) {
        if (op->kind == T_IF) {
            Fills then = { 0 }, otherwise = { 0 };
            for (int i = 0; i < before->count; i++) {
                VEC_PUSH(lo->arena, &then, before->items[i]);
                VEC_PUSH(lo->arena, &otherwise, before->items[i]);
            }
            const int known = before->count;
            if (!fills_once(lo, op->branch.then, root, &then) ||
                !fills_once(lo, op->branch.otherwise, root, &otherwise))
                return false;
            for (int i = known; i < then.count; i++) VEC_PUSH(lo->arena, before, then.items[i]);
            for (int i = known; i < otherwise.count; i++) VEC_PUSH(lo->arena, before, otherwise.items[i]);
            continue;
        }
        if (op->kind == T_COPY && buffer_root(op->copy.dst.buffer) == root) {
            for (int i = 0; i < before->count; i++)
                if (!fills_are_apart(lo, &before->items[i]->copy.dst, &op->copy.dst)) return false;
            VEC_PUSH(lo->arena, before, op);
        }
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
            if (!fills_once(lo, *body, root, before)) return false;
    }
    return true;
}

typedef struct Fetchable {
    bool yes, through_views, is_walked;
    const char *why; // not
} Fetchable;

static const char *why_not_fetched(KnownValues *values, const TileInfo *tile, const TileScan *scan)
{
    Lowering *const lo = values->lo;
    bool is_read = false;
    if (scan->why && scan->behind->kind == T_COPY) return scan->why;
    if (scan->why) return arena_printf(lo->arena, "in line %s %s", line_of(lo, scan->behind), scan->why);
    if (!scan->any_fetched || !scan->any_read) return "it is not copied, or not read";
    if (!path_is_known(values, tile->declared))
        return "a condition or loop around it depends on what the computing threads make";
    if (!is_filled_first(lo, tile->declared, tile->buffer, &is_read)) return "it is filled again after it is read";
    Fills fills = { 0 };
    return fills_once(lo, tile->declared, tile->buffer, &fills) ? NULL : "two copies may fill the same elements of it";
}

static Fetchable is_fetchable(KnownValues *values, const TileInfo *tile)
{
    if (tile->buffer->kind != BUFFER_SHARED || tile->is_private) return (Fetchable){ 0 };
    TileScan scan = { .values = values, .root = tile->buffer, .all_fetched = true };
    each_op(values->lo, values->lo->kernel->body, scan_tile, &scan);
    const char *const why = why_not_fetched(values, tile, &scan);
    return (Fetchable){ !why, scan.through_views, scan.is_walked, why };
}

// Rows that are walked are not divided among CTAs.
bool tile_is_fetchable(KnownValues *values, const TileInfo *tile)
{
    const Fetchable fetchable = is_fetchable(values, tile);
    return fetchable.yes && !fetchable.is_walked;
}

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

// ---- rings

RingState *ring_state_of(Lowering *lo, TileOp *block, int stage, int buffers)
{
    for (int i = 0; i < lo->ring_states.count; i++) {
        RingState *const ring_state = lo->ring_states.items[i];
        if (ring_state->block == block && ring_state->stage == stage) return ring_state;
    }
    RingState *const ring_state = NEW(lo->arena, RingState, .block = block, .stage = stage, .buffers = buffers);
    VEC_PUSH(lo->arena, &lo->ring_states, ring_state);
    return ring_state;
}

// In a loop or under a condition: the lanes arrive whether there was anything to copy or not.
static bool has_small_below(Lowering *lo, TileOp *op, const Buffer *root)
{
    TileOp **body;
    for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
        for (TileOp *inner = *body; inner; inner = inner->next)
            if ((inner->kind == T_COPY && inner->copy.dst.buffer == root && copy_is_small(lo, inner)) ||
                has_small_below(lo, inner, root))
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

// The product after which a step of the pipeline is done with the tile; NULL: it is read otherwise, or maybe not at
// all.
static TileOp *last_product(Lowering *lo, TileOp *loop, Buffer *root, int group)
{
    TileOp *last = NULL;
    if (loop->kind != T_PIPELINE || loop->pipeline.n != 1 || has_jumps(lo, loop->pipeline.body)) return NULL;
    for (TileOp *op = loop->pipeline.body; op; op = op->next)
        if (readers_in(lo, op, root) >> group & 1) last = op;
    return last && last->kind == T_MATMUL ? last : NULL;
}

static void note_readers(Lowering *lo, Ring *ring, TileOp *op, uint32_t groups)
{
    if (groups) {
        ring->first_use = ring->first_use ? ring->first_use : op;
        ring->last_use = op;
    }
    for (int g = 0; g < COUNT(ring->first_of); g++)
        if (groups >> g & 1) {
            ring->first_of[g] = ring->first_of[g] ? ring->first_of[g] : op;
            ring->last_of[g] = op;
            ring->done_in[g] = last_product(lo, op, ring->tiles[0]->buffer, g);
        }
}

// `op` fills the tile, or something in it does.
static void add_fetch(Lowering *lo, Ring *ring, TileOp *op, const Buffer *root)
{
    ring->is_plain &= op->kind == T_COPY && !ring->last_fetch;
    ring->first_fetch = ring->first_fetch ? ring->first_fetch : op;
    ring->last_fetch = op;
    if (ring->is_filled) {
        Gathers gathers = { root, true, false };
        visit_op(lo, op, see_gather, &gathers);
        ring->has_gathers |= gathers.any;
        ring->is_gathered = gathers.all && (ring->is_gathered || ring->first_fetch == op);
        return;
    }
    if (op->kind != T_COPY) ring->by_lanes |= has_small_below(lo, op, root);
    else if (copy_is_small(lo, op)) ring->by_lanes = true;
    else ring->bytes += tma_bytes(lo, op);
}

// Boxes that fill a tile piece by piece, each at a place of its own, such as the pages of a list: between them are scalars, which
// say where, and other copies alone.
static bool is_run_of_boxes(Lowering *lo, const Ring *ring)
{
    bool any_scalar = false;
    if (ring->is_filled || ring->by_lanes || lo->cluster > 1 || ring->first_fetch == ring->last_fetch) return false;
    for (const TileOp *op = ring->first_fetch;; op = op->next) {
        if (op->kind != T_LET && op->kind != T_COPY && op->kind != T_TILE) return false;
        if (is_copy_into(op, ring->tiles[0]->buffer) &&
            (op->stage != ring->first_fetch->stage || !copy_is_box(lo, op) || op_info(lo, op)->im2col))
            return false;
        if (op == ring->last_fetch) return any_scalar;
        any_scalar |= op->kind == T_LET;
    }
}

static void set_ring_state(Lowering *lo, Ring *ring, TileInfo *tile)
{
    const OpInfo *const info = op_info(lo, tile->declared);
    const TileOp *const pipeline = info->parent && info->parent->kind == T_PIPELINE ? info->parent : NULL;
    const bool staged = pipeline && pipeline->pipeline.n_stage_labels > 1;
    tile->buffers = pipeline && pipeline->pipeline.stages > 1 ? pipeline->pipeline.stages : 1;
    ring->ring_state = ring_state_of(lo, info->block, staged ? ring->first_use->stage : 0, tile->buffers);
}

// Tiles with the same life share barriers.
static bool lives_as(const Ring *ring, const Ring *other)
{
    return other->ring_state == ring->ring_state && other->first_use == ring->first_use &&
           other->last_use == ring->last_use && other->is_plain && ring->is_plain && !other->by_lanes &&
           !ring->by_lanes && !other->is_run && !ring->is_run &&
           memcmp(other->first_of, ring->first_of, sizeof ring->first_of) == 0 &&
           memcmp(other->last_of, ring->last_of, sizeof ring->last_of) == 0;
}

static void join_ring(Lowering *lo, Ring *ring, const Ring *joining)
{
    ring->tiles[ring->n_tiles++] = joining->tiles[0];
    ring->bytes += joining->bytes;
    for (int g = 0; g < COUNT(ring->done_in); g++)
        ring->done_in[g] = ring->done_in[g] == joining->done_in[g] ? joining->done_in[g] : NULL;
    // What is declared before may be copied after.
    if (op_info(lo, joining->first_fetch)->order < op_info(lo, ring->first_fetch)->order)
        ring->first_fetch = joining->first_fetch;
    if (op_info(lo, joining->last_fetch)->order > op_info(lo, ring->last_fetch)->order)
        ring->last_fetch = joining->last_fetch;
    joining->tiles[0]->ring = ring;
}

static bool make_ring(Lowering *lo, TileInfo *tile)
{
    Ring ring = { .n_tiles = 1, .tiles = { tile }, .is_plain = !tile->is_filled, .is_filled = tile->is_filled };
    for (TileOp *op = tile->declared; op; op = op->next) {
        note_readers(lo, &ring, op, readers_in(lo, op, tile->buffer));
        if (holds_fetch(lo, op, tile->buffer)) add_fetch(lo, &ring, op, tile->buffer);
    }
    if (!ring.first_use || !ring.last_fetch) return false;
    ring.is_run = is_run_of_boxes(lo, &ring);
    ring.is_plain |= ring.is_run;
    set_ring_state(lo, &ring, tile);
    for (int i = 0; i < lo->rings.count; i++) {
        Ring *const other = lo->rings.items[i];
        if (lives_as(&ring, other) && other->n_tiles < COUNT(other->tiles)) {
            join_ring(lo, other, &ring);
            return true;
        }
    }
    ring.index = lo->rings.count;
    tile->ring = NEW(lo->arena, Ring);
    *tile->ring = ring;
    VEC_PUSH(lo->arena, &lo->rings, tile->ring);
    return true;
}

void find_fetches(Lowering *lo)
{
    KnownValues values = new_known_values(lo);
    find_unknown(&values);
    each_op(lo, lo->kernel->body, note_fill, NULL);
    bool any_piped = false; // a producer that fetches once per CTA takes more registers than it saves time
    for (int i = 0; i < lo->n_declared; i++)
        any_piped |= is_in_pipeline(lo, lo->declared.items[i]) && is_fetchable(&values, lo->declared.items[i]).yes;
    // Program order of the declarations, so that rings are numbered as the source reads.
    for (int order = 0; order < lo->n_declared; order++) {
        TileInfo *const tile = lo->declared.items[order];
        const Fetchable fetchable = is_fetchable(&values, tile);
        tile->why_in_place = fetchable.why;
        if (!fetchable.yes || (fetchable.through_views && !any_piped)) continue;
        each_op(lo, lo->kernel->body, note_fetched, tile->buffer);
        if (!make_ring(lo, tile))
            unsupported(lo, tile->declared->span, "tile '%s', which is fetched but not used in its block",
                        tile->buffer->name);
        tile->is_async = true;
    }
    lo->has_producer = lo->rings.count > 0;
}
