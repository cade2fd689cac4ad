// SPDX-License-Identifier: MIT
// iterate.c - how the iterations of a forall are divided among threads and registers.
//
// A forall follows the fragment it accesses: the fragment of the highest rank that lives in registers and is
// subscripted by plain indices leads, and its layout becomes that of the iterations; indices it does not have are
// loops in each thread. Without a leader, static index spaces are spread in 16-byte pieces; spaces with extents
// known at run time are counted through by all threads together.
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/groups.h"
#include "lower/gpu/decide/iteration/rows.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/partition.h"
#include "lower/gpu/facts/roles.h"

// ---- what a forall accesses

typedef struct Collect {
    Lowering *lo;
    MapUses *uses;
    TileOp *op;
} Collect;

static void collect_use(const TileUse *use, void *context)
{
    Collect *const c = context;
    VEC_PUSH(c->lo->arena, c->uses, (MapUse){ *use, c->op });
}

static bool collect_op(Lowering *lo, TileOp *op, void *context)
{
    Collect *const c = context;
    if (op->kind == T_COPY || op->kind == T_FILL || op->kind == T_ATOMIC_TILE) {
        each_op(lo, as_map(lo, op)->forall.body, collect_op, c); // so that every use has subscripts
        return true;
    }
    c->op = op;
    tile_uses(op, collect_use, c);
    return false;
}

void map_uses(Lowering *lo, TileOp *forall, MapUses *uses)
{
    void **const kept = lo->kept_uses ? table_at(lo->kept_uses, forall) : NULL;
    if (kept && *kept) {
        *uses = *(MapUses *)*kept;
        return;
    }
    Collect collect = { lo, uses, NULL };
    each_op(lo, forall->forall.body, collect_op, &collect);
    if (!lo->kept_uses) return;
    MapUses *const all = NEW(lo->arena, MapUses);
    *all = *uses;
    *table_at(lo->kept_uses, forall) = all;
}

// ---- choosing

static void follow(Iteration *it, const Layout *layout, const int *which)
{
    it->layout = *layout;
    for (int d = 0; d < layout->rank; d++) it->dim_of[which[d]] = d;
}

static bool choose_leader(Lowering *lo, const MapUses *uses, Iteration *it)
{
    Subscripts leader = { 0 };
    Layout layout;
    bool found = false;
    for (int i = 0; i < uses->count; i++) {
        const TileUse *const use = &uses->items[i].use;
        const TileInfo *const tile = tile_info(lo, use->buffer);
        Subscripts here;
        Layout parts;
        if (!tile || tile->storage != TILE_IN_REGISTERS || !tile->has_layout || !use->subs ||
            !match_subscripts(lo, use->subs, tile->buffer->rank, it->indices, it->n, &here) ||
            (found && leader.n >= here.n) || !split_layout(tile, &here, &parts))
            continue;
        found = true;
        leader = here;
        layout = parts;
    }
    if (found) follow(it, &layout, leader.index);
    return found;
}

// Elements of 16 bytes of the narrowest type; of a wider one that goes to a swizzled tile no more than its pieces have.
static int widest_vector(Lowering *lo, const MapUses *uses)
{
    int bits = 64, swizzled = 8;
    for (int i = 0; i < uses->count; i++) {
        const TileUse *const use = &uses->items[i].use;
        const Buffer *const root = buffer_root(use->buffer);
        const TileInfo *const tile = tile_info(lo, root);
        if (root->kind != BUFFER_LOCAL && dtype_bits(root->type) < bits) bits = dtype_bits(root->type);
        if (use->writes && tile && tile->storage == TILE_IN_SHARED && tile->shared.swizzle_bytes &&
            dtype_bits(root->type) > swizzled)
            swizzled = dtype_bits(root->type);
    }
    return 128 / (bits < swizzled ? swizzled : bits);
}

// Indices that a reduction of this forall drops, if its target is no scalar.
static uint32_t reduced_indices(TileOp *forall, const MapUses *uses)
{
    uint32_t reduced = 0;
    for (int i = 0; i < uses->count; i++) {
        const TileOp *const op = uses->items[i].op;
        if (op->kind != T_UPDATE || !op->update.reduces || !op->update.buffer) continue;
        for (int index = 0; index < forall->forall.n; index++) {
            bool used = false;
            for (int d = 0; d < op->update.buffer->rank; d++)
                used = used || expr_uses(op->update.subs[d], forall->forall.indices[index].var);
            if (!used) reduced |= 1u << index;
        }
    }
    return reduced;
}

static void note_atomic_value(Expr **slot, void *context) { *(bool *)context |= expr_has_atomic(*slot); }
static bool note_atomic_values(Lowering *lo, TileOp *op, void *context)
{
    tile_each_expr(op, note_atomic_value, context);
    return false;
}

// Whether an iteration takes the value before from an atomic: then one thread runs it.
static bool takes_atomic_values(Lowering *lo, TileOp *forall)
{
    bool found = false;
    each_op(lo, forall->forall.body, note_atomic_values, &found);
    return found;
}

bool has_replicas(const Layout *layout)
{
    for (int i = 0; i < layout->n; i++)
        if (layout->mode[i].dim == REPLICATED && layout->mode[i].input != IN_REGISTER) return true;
    return false;
}

// ---- replicas that would read what the first of them changes

static bool note_reduction(Lowering *lo, TileOp *op, void *context)
{
    *(bool *)context |= op->kind == T_UPDATE && op->update.reduces;
    return false;
}

// What is read for a store into memory only the first replica reads.
static bool every_replica_reads(const Lowering *lo, const MapUse *use)
{
    const TileOp *const op = use->op;
    const Buffer *const target = op->kind == T_STORE    ? op->store.buffer
                                 : op->kind == T_UPDATE ? op->update.buffer
                                                        : NULL;
    if (op->kind == T_ATOMIC) return false;
    return !target || (op->kind == T_UPDATE && op->update.reduces) || target->kind == BUFFER_LOCAL ||
           is_fragment_in_registers(lo, buffer_root((Buffer *)target));
}

static bool changes_memory(const Lowering *lo, const MapUse *use)
{
    const Buffer *const root = buffer_root(use->use.buffer);
    return use->use.writes && root->kind != BUFFER_LOCAL && !is_fragment_in_registers(lo, root) &&
           !(use->op->kind == T_UPDATE && use->op->update.reduces);
}

bool replicas_would_race(Lowering *lo, TileOp *forall, const MapUses *uses, const Layout *layout)
{
    bool all_work = false; // for registers of their own, or for a result that they add up
    each_op(lo, forall->forall.body, note_reduction, &all_work);
    for (int i = 0; i < uses->count; i++)
        all_work |= uses->items[i].use.writes && is_fragment_in_registers(lo, buffer_root(uses->items[i].use.buffer));
    if (!all_work || !has_replicas(layout)) return false;
    for (int i = 0; i < uses->count; i++)
        for (int j = 0; j < uses->count && changes_memory(lo, &uses->items[i]); j++)
            if (uses->items[j].use.reads &&
                buffer_root(uses->items[j].use.buffer) == buffer_root(uses->items[i].use.buffer) &&
                every_replica_reads(lo, &uses->items[j]))
                return true;
    return false;
}

void choose_iteration(Lowering *lo, TileOp *forall, Iteration *it)
{
    *it = own_iteration();
    it->indices = forall->forall.indices;
    it->n = forall->forall.n;
    it->partition = map_partition(lo, forall);
    MapUses uses = { 0 };
    map_uses(lo, forall, &uses);
    const bool once = takes_atomic_values(lo, forall);
    if (choose_leader(lo, &uses, it)) {
        if (once && has_replicas(&it->layout))
            unsupported(lo, forall->span, "the value of an atomic, with a fragment that several threads hold");
        return;
    }
    Layout pieces;
    if (!once && lo->has_producer_group && lo->role == ROLE_PRODUCER && choose_row_pieces(lo, forall, 0, 4, &pieces)) {
        follow(it, &pieces, (int[]){ 0, 1 });
        return;
    }
    int extents[LAYOUT_MAX_RANK], which[LAYOUT_MAX_RANK];
    bool is_static = it->n <= LAYOUT_MAX_RANK;
    int64_t volume = 1;
    for (int i = 0; i < it->n && is_static; i++) {
        int64_t from, to;
        is_static = static_extent(&it->indices[i], &from, &to) && from >= 0 && to > 0 && 2 * from <= to &&
                    volume * to <= 1 << 20; // at least half of what is covered
        if (is_static) {
            extents[i] = (int)to;
            which[i] = i;
            volume *= to;
        }
    }
    // Large spaces stay loops: their registers would not be registers any more. Not the producer's, whose pieces are a loop
    // anyway; but for 16 elements each of which it may have to load by itself it needs to have many.
    const int widest = widest_vector(lo, &uses);
    const bool is_loop = lo->role == ROLE_PRODUCER &&
                         (op_info(lo, forall)->im2col || (moves_elements(lo) && (widest <= 8 || lo->begins_anywhere)));
    if (is_static && !once && (is_loop || volume <= 64 * (int64_t)partition_threads(it->partition))) {
        const Layout layout = layout_blocked(it->n, extents, it->partition, widest);
        if (!replicas_would_race(lo, forall, &uses, &layout)) {
            follow(it, &layout, which);
            return;
        }
    }
    // Counted through by all threads: what reductions drop stays a loop in each thread, unless nothing is left.
    const uint32_t reduced = reduced_indices(forall, &uses);
    it->is_linear = true;
    it->layout = layout_new(1, (int[]){ 1 });
    layout_add(&it->layout, IN_LANE, WARP_LANES, 0, 1);
    layout_add(&it->layout, IN_WARP, it->partition.warps, 0, WARP_LANES);
    layout_add(&it->layout, IN_GROUP, it->partition.groups, 0, WARP_LANES * it->partition.warps);
    for (int i = 0; i < it->n; i++) it->dim_of[i] = reduced >> i & 1 ? -1 : 0;
}
