// SPDX-License-Identifier: MIT
// group_barriers.c - one group of placed statements tells another what it has done by a named barrier, where
// synchronising would delay both.
//
// The first arrives at a named barrier after its last access and goes on, the second waits there before its own. What
// a group barrier orders, it orders for everything before it, so that most reuse in the next turn of a loop is covered
// by the turn's own group barriers.
#include "lower/gpu/decide/sync/hazards.h"
#include "lower/gpu/facts/groups.h"
#include "lower/gpu/facts/info.h"

static TileOp *last_inside(Lowering *lo, TileOp *op)
{
    TileOp *last = op, **body;
    for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
        for (TileOp *x = *body; x; x = x->next) last = last_inside(lo, x);
    return last;
}

int end_order(Lowering *lo, TileOp *op) { return op_info(lo, last_inside(lo, op))->order; }

static bool is_async_tile(const Walk *walk, int i) { return tile_at(walk, i) && tile_at(walk, i)->is_async; }

// Ordered by the group barrier: what `from` did before it, and what `from` itself knew to be over then (passed on).
static void clear_ordered(Walk *walk, GroupBarrier *group_barrier)
{
    Lowering *const lo = walk->lo;
    const int end = end_order(lo, group_barrier->after), from = group_barrier->from;
    const State then = op_info(lo, group_barrier->after)->accesses;
    const uint8_t keep = (uint8_t) ~(1u << group_barrier->to);
    for (int i = 0; i < walk->n; i++)
        for (int a = 0; a < GROUPS; a++) {
            Accesses *const x = &walk->state[i][a], *const known = &then[i][a];
            const Accesses old = *x;
            const bool own = a == from;
            if (own || !(known->read_before >> from & 1)) x->read_before &= keep;
            if (own || !(known->written_before >> from & 1)) x->written_before &= keep;
            if (x->read_at <= end && (own || !(known->read >> from & 1))) x->read &= keep;
            if (x->written_at <= end && (own || !(known->written >> from & 1))) x->written &= keep;
            if (own && (old.written != x->written || old.written_before != x->written_before))
                group_barrier->fences |= is_async_tile(walk, i);
        }
}

void pass_group_barriers(Walk *walk, TileOp *op)
{
    for (int i = 0; i < walk->lo->group_barriers.count; i++)
        if (walk->lo->group_barriers.items[i]->before == op) clear_ordered(walk, walk->lo->group_barriers.items[i]);
}

// The op of this block that is, or holds, the op of that number.
static TileOp *holder_in(Lowering *lo, TileOp *block, int order)
{
    for (TileOp *op = block; op; op = op->next)
        if (op_info(lo, op)->order <= order && order <= end_order(lo, op)) return op;
    return NULL;
}

static int free_barrier(const Lowering *lo)
{
    const int first = BAR_GROUPS - BAR_PING_PONG;
    const int all = first + BAR_LAST - (BAR_GROUPS + lo->all.groups) + 1;
    const int n = lo->group_barriers.count;
    return n >= all ? -1 : n < first ? BAR_PING_PONG + n : BAR_GROUPS + lo->all.groups + n - first;
}

// The one group that the others wait for; -1: none, or several.
static int only_source(const Conflict *conflict)
{
    int from = -1;
    for (int a = 0; a < GROUPS; a++) {
        if (!conflict->waits[a]) continue;
        if (from >= 0) return -1;
        from = a;
    }
    return from;
}

// One group waits for one other, whose last access stands before in the same block of the same pass.
bool use_group_barrier(Walk *walk, TileOp *op)
{
    Lowering *const lo = walk->lo;
    const Conflict *const conflict = &walk->conflict;
    const OpInfo *const info = op_info(lo, op);
    const int from = only_source(conflict);
    if (!lo->is_specialised || info->barrier_before || info->syncs_all || from < 0 || conflict->from_before)
        return false;
    const uint32_t to = conflict->waits[from];
    TileOp *const after = holder_in(lo, info->block, conflict->at);
    const int barrier = free_barrier(lo);
    if (!is_single(to) || to >> from & 1 || !after || barrier < 0) return false;
    // Of a later place in the block only the turn before has arrived, and there is none before the first.
    if (op_info(lo, after)->order >= info->order) return false;
    GroupBarrier *const group_barrier = NEW(lo->arena, GroupBarrier, .after = after, .before = op, .from = from,
                                            .to = __builtin_ctz(to), .barrier = barrier);
    VEC_PUSH(lo->arena, &lo->group_barriers, group_barrier);
    walk->changed = true;
    walk->version++;
    clear_ordered(walk, group_barrier);
    return true;
}

// A named barrier counts arrivals, it does not tell phases apart: a group may arrive again only after the other has
// passed. Some group barrier back, or a barrier of all, must stand between the two.
static bool is_answered(Lowering *lo, const GroupBarrier *group_barrier)
{
    const int after = op_info(lo, group_barrier->after)->order, before = op_info(lo, group_barrier->before)->order;
    for (int i = 0; i < lo->group_barriers.count; i++) {
        const GroupBarrier *const back = lo->group_barriers.items[i];
        if (back->from == group_barrier->to && back->to == group_barrier->from &&
            op_info(lo, back->after)->block == op_info(lo, group_barrier->after)->block &&
            (op_info(lo, back->after)->order >= before || op_info(lo, back->before)->order <= after))
            return true;
    }
    for (TileOp *op = op_info(lo, group_barrier->after)->block; op; op = op->next) {
        const OpInfo *const info = op_info(lo, op);
        if (info->barrier_before && info->barrier_group < 0 && (info->order <= after || info->order > before))
            return true;
    }
    return false;
}

// Group barriers that nothing answers become barriers of all. Returns whether there were any.
bool drop_unanswered(Lowering *lo)
{
    for (int i = 0; i < lo->group_barriers.count; i++) {
        GroupBarrier *const group_barrier = lo->group_barriers.items[i];
        if (is_answered(lo, group_barrier)) continue;
        op_info(lo, group_barrier->before)->syncs_all = true;
        lo->group_barriers.count = 0; // found anew
        return true;
    }
    return false;
}
