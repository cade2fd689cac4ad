// SPDX-License-Identifier: MIT
// hazards.c - where the consumers' threads must synchronise.
//
// Threads of a CTA share tiles in shared memory, and tensors that the kernel both reads and writes, or writes the
// same elements of in several places (several_writers.c). Before an op that reads what others may have written since
// the last barrier, or writes what others may have read or written, there is a barrier; or a group barrier from one
// group to another does (group_barriers.c). Loops are walked until the state at their head no longer grows. The
// producer's copies are not seen here: their tiles have mbarriers of their own. Nor are copies that run ahead: their
// pipelines synchronise at every step.
//
// after: barrier_before, with its group, of every op, and the group barriers
#include "lower/gpu/decide/sync/hazards.h"
#include "lower/gpu/facts/groups.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/decide/pipeline/walk.h"
#include "lower/gpu/facts/info.h"

static bool alternates(const Walk *walk, int i) { return tile_at(walk, i) && tile_at(walk, i)->alternates; }

static uint32_t groups_of(Lowering *lo, TileOp *op) { return lo->is_specialised ? op_groups(lo, op) : 1; }

static void test_access(Walk *walk, const SharedAccess *access)
{
    Conflict *const conflict = &walk->conflict;
    for (int a = 0; a < GROUPS; a++) {
        const Accesses *const x = &walk->state[access->at][a];
        const bool writes = access->writes || access->adds || access->stages,
                   reads = access->reads || access->writes || access->stages;
        const uint32_t written = walk->groups & x->written, read = writes ? walk->groups & x->read : 0;
        const uint32_t added = reads ? walk->groups & x->added : 0;
        const uint32_t before =
            walk->groups & (x->written_before | (writes ? x->read_before : 0) | (reads ? x->added_before : 0));
        conflict->waits[a] |= written | read | added | before;
        conflict->any |= written || read || added || before;
        conflict->from_before |= before != 0;
        if (written && x->written_at > conflict->at) conflict->at = x->written_at;
        if (read && x->read_at > conflict->at) conflict->at = x->read_at;
        if (added && x->added_at > conflict->at) conflict->at = x->added_at;
    }
}

static void note_access(Walk *walk, const SharedAccess *access)
{
    const int order = op_info(walk->lo, walk->op)->order;
    for (int a = 0; a < GROUPS; a++) {
        Accesses *const x = &walk->state[access->at][a];
        if (!(walk->groups >> a & 1)) continue;
        if (access->reads) {
            x->read = 0xff;
            x->read_at = order;
        }
        if (access->writes) {
            x->written = 0xff;
            x->written_at = order;
        }
        if (access->adds) {
            x->added = 0xff;
            x->added_at = order;
        }
    }
}

static void each_access(Walk *walk, TileOp *op, void visit(Walk *walk, const SharedAccess *access))
{
    const SharedAccesses *const shared_accesses = shared_accesses_of(walk, op);
    for (int i = 0; i < shared_accesses->list.count; i++) visit(walk, &shared_accesses->list.items[i]);
}

static size_t state_bytes(const Walk *walk) { return sizeof(Accesses) * GROUPS * (size_t)(walk->n + 1); }

static State new_state(Walk *walk) { return arena_alloc(walk->lo->arena, state_bytes(walk)); }

static void set_state(Walk *walk, State to, State from) { memcpy(to, from, state_bytes(walk)); }

static void recycle(Walk *walk, State state) { VEC_PUSH(walk->lo->arena, &walk->spare, state); }

static State copy_state(Walk *walk)
{
    const State copy = walk->spare.count ? walk->spare.items[--walk->spare.count] : new_state(walk);
    set_state(walk, copy, walk->state);
    return copy;
}

// The union with another path's state.
static void join(Walk *walk, State state, State other)
{
    for (int i = 0; i < walk->n; i++)
        for (int a = 0; a < GROUPS; a++) {
            Accesses *const x = &state[i][a];
            const Accesses *const y = &other[i][a];
            x->read |= y->read;
            x->written |= y->written;
            x->read_before |= y->read_before;
            x->written_before |= y->written_before;
            x->read_other |= y->read_other;
            x->written_other |= y->written_other;
            x->added |= y->added;
            x->added_before |= y->added_before;
            x->added_at = y->added_at > x->added_at ? y->added_at : x->added_at;
            x->read_at = y->read_at > x->read_at ? y->read_at : x->read_at;
            x->written_at = y->written_at > x->written_at ? y->written_at : x->written_at;
        }
}

// A break or continue takes its state along to where it leads, past barriers that stand between.
static void jump(Walk *walk, State *to)
{
    if (*to) join(walk, *to, walk->state);
    else *to = copy_state(walk);
}

static void arrive(Walk *walk, State *jumped)
{
    if (!*jumped) return;
    join(walk, walk->state, *jumped);
    recycle(walk, *jumped);
    *jumped = NULL;
}

// ---- products in flight

static void test_in_flight(const TileUse *use, void *context)
{
    Walk *const walk = context;
    const Buffer *const root = buffer_root(use->buffer);
    for (int i = walk->retired; i < walk->in_flight.count; i++) {
        const TileOp *const x = walk->in_flight.items[i];
        const bool follows =
            is_wgmma(walk->lo, walk->op) && walk->op->matmul.dst.buffer == root; // into one accumulator, in order
        const bool reads =
            root == buffer_root(x->matmul.a.region.buffer) || root == buffer_root(x->matmul.b.region.buffer);
        if ((root == x->matmul.dst.buffer && !follows) || (reads && (use->writes || use->atomic)))
            walk->retired = i + 1;
    }
}

static bool test_all_in_flight(Lowering *lo, TileOp *op, void *context)
{
    Walk *const walk = context;
    if (op_info(lo, op)->fetched) return true;
    if (is_flow(walk->op) && is_wgmma(lo, op)) // before a loop or branch with products all are waited for
        walk->retired = walk->in_flight.count;
    tile_uses(op, test_in_flight, context);
    return false;
}

// Products whose results the op uses, and those issued before them, have read what they read (wait_for_op).
static void retire(Walk *walk, TileOp *op)
{
    walk->retired = 0;
    if (walk->in_flight.count) visit_op(walk->lo, op, test_all_in_flight, walk);
    walk->in_flight.count -= walk->retired;
    for (int i = 0; i < walk->in_flight.count; i++) walk->in_flight.items[i] = walk->in_flight.items[i + walk->retired];
}

// After a block, at whose end those that it issued are waited for.
static void keep_in_flight(Walk *walk, int before)
{
    if (walk->in_flight.count > before) walk->in_flight.count = before;
}

// They read beyond a barrier: other threads may not write these tiles before the next.
static void read_beyond(Walk *walk)
{
    for (int i = 0; i < walk->in_flight.count; i++) {
        TileOp *const x = walk->in_flight.items[i];
        const int places[2] = { place_of(walk, x->matmul.a.region.buffer), place_of(walk, x->matmul.b.region.buffer) };
        for (int o = 0; o < 2; o++)
            if (places[o] >= 0) {
                walk->state[places[o]][0].read = 0xff;
                walk->state[places[o]][0].read_at = op_info(walk->lo, x)->order;
            }
    }
}

// ---- barriers

static void keep_accesses(Accesses *x, uint8_t keep)
{
    x->read &= keep;
    x->written &= keep;
    x->read_before &= keep;
    x->written_before &= keep;
    x->read_other &= keep;
    x->written_other &= keep;
    x->added &= keep;
    x->added_before &= keep;
}

// Of one group, or (-1) of all.
static void clear_synced(Walk *walk, int group)
{
    for (int i = 0; i < walk->n; i++)
        for (int a = 0; a < GROUPS; a++)
            keep_accesses(&walk->state[i][a], group < 0 ? 0 : a == group ? (uint8_t) ~(1u << group) : 0xff);
}

// The one group that the conflict is within; -1: it is between groups.
static int conflict_group(const Walk *walk)
{
    int group = -1;
    for (int a = 0; a < GROUPS; a++) {
        if (!walk->conflict.waits[a]) continue;
        if (group >= 0 || walk->conflict.waits[a] != 1u << a) return -1;
        group = a;
    }
    return group;
}

static bool has_tensors(const Walk *walk)
{
    for (int i = 0; i < walk->n; i++)
        for (int a = 0; a < GROUPS && walk->shared[i]->kind == BUFFER_TENSOR; a++) {
            const Accesses *const x = &walk->state[i][a];
            if (x->read || x->written || x->added || x->read_before || x->written_before || x->added_before)
                return true;
        }
    return false;
}

// A barrier before the op: of one group, if that is all there is to order, else of all consumers.
static void sync_before(Walk *walk, TileOp *op)
{
    OpInfo *const info = op_info(walk->lo, op);
    info->orders_tensors |= has_tensors(walk);
    const int group = walk->lo->is_specialised && op != walk->lo->staged_over ? conflict_group(walk) : -1;
    int wanted = group;
    if (info->barrier_before && !walk->conflict.any) wanted = info->barrier_group;
    else if (info->barrier_before && info->barrier_group != group) wanted = -1;
    const bool is_new = !info->barrier_before || info->barrier_group != wanted;
    walk->changed |= is_new;
    walk->version += is_new;
    info->barrier_before = true;
    info->barrier_group = wanted;
    clear_synced(walk, wanted);
    read_beyond(walk);
}

// What was done before the loops around this op is ordered before the outermost of them, once. Without placed
// statements only where they write nothing (but by atomic additions): else the iterations most often need a barrier of their
// own, which serves for this, too.
static bool sync_outside(Walk *walk, TileOp *op)
{
    Lowering *const lo = walk->lo;
    TileOp *outermost = NULL;
    for (TileOp *x = op_info(lo, op)->parent; x && op_info(lo, x)->order > walk->conflict.at;
         x = op_info(lo, x)->parent)
        if (x->kind == T_FOR || x->kind == T_PIPELINE) outermost = x;
    if (walk->conflict.from_before || !outermost || (!lo->is_specialised && !only_reads(walk, outermost))) return false;
    sync_before(walk, outermost);
    return true;
}

static void walk_block(Walk *walk, TileOp *block);

// CTAs are not ordered among each other.
static void forget_tensors(Walk *walk)
{
    for (int i = 0; i < walk->n; i++)
        if (walk->shared[i]->kind == BUFFER_TENSOR) memset(walk->state[i], 0, sizeof *walk->state);
}

// The tile's buffers change places: what the turn before last left is in the buffer that is written next.
static void switch_buffers(Walk *walk, TileOp *body, int i)
{
    if (op_info(walk->lo, tile_at(walk, i)->declared)->block != body) return;
    for (int a = 0; a < GROUPS; a++) {
        Accesses *const x = &walk->state[i][a];
        x->read_before |= x->read_other;
        x->written_before |= x->written_other;
        x->read_other = x->read;
        x->written_other = x->written;
        x->read = x->written = 0;
    }
}

// At the end of a turn: what was accessed in it, was accessed before the head of the next.
static void age_accesses(Walk *walk, TileOp *body)
{
    for (int i = 0; i < walk->n; i++) {
        if (alternates(walk, i)) {
            switch_buffers(walk, body, i);
            continue;
        }
        for (int a = 0; a < GROUPS; a++) {
            Accesses *const x = &walk->state[i][a];
            x->read_before |= x->read;
            x->written_before |= x->written;
            x->added_before |= x->added;
            x->read = x->written = x->added = 0;
            x->read_at = x->written_at = x->added_at = -1;
        }
    }
}

// After the loop all of it is simply earlier.
static void leave_loop(Walk *walk, State before)
{
    for (int i = 0; i < walk->n; i++)
        for (int a = 0; a < GROUPS && !alternates(walk, i); a++) {
            Accesses *const x = &walk->state[i][a];
            x->read_at = x->read_before ? walk->last : x->read_at;
            x->written_at = x->written_before ? walk->last : x->written_at;
            x->read |= x->read_before;
            x->written |= x->written_before;
            x->added_at = x->added_before ? walk->last : x->added_at;
            x->added |= x->added_before;
            x->added_before = before[i][a].added_before;
            x->read_before = before[i][a].read_before;
            x->written_before = before[i][a].written_before;
        }
}

// A body that may run again; `syncs`: all do at its head. A tile with two buffers may come to the same one in every
// other turn.
static void walk_loop(Walk *walk, TileOp *body, TileOp *step, bool syncs)
{
    const State before = copy_state(walk), breaks = walk->breaks, continues = walk->continues;
    const int in_flight = walk->in_flight.count;
    walk->breaks = walk->continues = NULL;
    for (int turn = 0; turn < 3; turn++) {
        if (syncs) memset(walk->state, 0, state_bytes(walk));
        if (body == walk->lo->kernel->body) forget_tensors(walk);
        walk_block(walk, body);
        arrive(walk, &walk->continues);
        walk_block(walk, step);
        keep_in_flight(walk, in_flight);
        age_accesses(walk, body);
        join(walk, walk->state, before);
    }
    arrive(walk, &walk->breaks);
    leave_loop(walk, before);
    recycle(walk, before);
    walk->breaks = breaks;
    walk->continues = continues;
}

// A loop around loops is come by again and again, three times for each loop around it, mostly in a state that it has
// been walked in: then it would do the same again. Where statements are placed, group barriers look at the walk before,
// so that only the latest counts.
static const Passage *find_passage(const Walk *walk, const Passages *all)
{
    const int oldest = all->n > PASSAGES_MAX ? all->n - PASSAGES_MAX : 0;
    for (int i = all->n - 1; i >= (walk->lo->is_specialised ? all->n - 1 : oldest) && i >= 0; i--) {
        const Passage *const passage = &all->kept[i % PASSAGES_MAX];
        if (passage->version == walk->version && memcmp(passage->before, walk->state, state_bytes(walk)) == 0)
            return passage;
    }
    return NULL;
}

static Passages *passages_of(Walk *walk, const TileOp *op)
{
    void **const all = table_at(&walk->passages, op);
    return *all ? *all : (*all = NEW(walk->lo->arena, Passages));
}

static void keep_passage(Walk *walk, Passages *all, State before, int version)
{
    Passage *const passage = &all->kept[all->n++ % PASSAGES_MAX];
    if (all->n > PASSAGES_MAX) {
        recycle(walk, passage->before);
        recycle(walk, passage->after);
    }
    // A walk that has placed something itself would do otherwise the next time.
    *passage = (Passage){ before, copy_state(walk), version == walk->version ? version : -1, walk->last };
}

static bool is_loop(Lowering *lo, TileOp *op)
{
    (void)lo;
    return op->kind == T_FOR || op->kind == T_WHILE || op->kind == T_PIPELINE;
}

static void walk_loop_once(Walk *walk, TileOp *op, TileOp *body, TileOp *step, bool syncs)
{
    if (walk->in_flight.count || !block_has(walk->lo, body, is_loop)) {
        walk_loop(walk, body, step, syncs);
        return;
    }
    Passages *const all = passages_of(walk, op);
    const Passage *const known = find_passage(walk, all);
    if (known) {
        set_state(walk, walk->state, known->after);
        walk->last = known->last;
        return;
    }
    const State before = copy_state(walk);
    const int version = walk->version;
    walk_loop(walk, body, step, syncs);
    keep_passage(walk, all, before, version);
}

static void walk_branches(Walk *walk, TileOp *op)
{
    const State before = copy_state(walk);
    const int in_flight = walk->in_flight.count;
    walk_block(walk, op->branch.then);
    const State then = copy_state(walk);
    set_state(walk, walk->state, before);
    keep_in_flight(walk, in_flight);
    walk_block(walk, op->branch.otherwise);
    keep_in_flight(walk, in_flight);
    join(walk, walk->state, then);
    recycle(walk, before);
    recycle(walk, then);
}

static void walk_flow(Walk *walk, TileOp *op)
{
    if (op->kind == T_FOR) walk_loop_once(walk, op, op->for_.body, NULL, false);
    else if (op->kind == T_WHILE) walk_loop_once(walk, op, op->while_.body, op->while_.step, false);
    else if (op->kind == T_PIPELINE)
        walk_loop_once(walk, op, op->pipeline.body, NULL, op_info(walk->lo, op)->multistage != NULL);
    else walk_branches(walk, op);
}

static void walk_op(Walk *walk, TileOp *op)
{
    Lowering *const lo = walk->lo;
    const OpInfo *const info = op_info(lo, op);
    if (info->fetched || op->kind == T_TILE) return;
    pass_group_barriers(walk, op);
    walk->groups = groups_of(lo, op);
    walk->op = op;
    walk->conflict = (Conflict){ .at = -1 };
    retire(walk, op);
    each_access(walk, op, test_access);
    if (info->barrier_before || op == lo->staged_over ||
        (walk->conflict.any && !sync_outside(walk, op) && !use_group_barrier(walk, op)))
        sync_before(walk, op);
    walk->last = end_order(lo, op);
    each_access(walk, op, note_access);
    if (is_flow(op)) walk_flow(walk, op);
    else if (op->kind == T_BREAK) jump(walk, &walk->breaks);
    else if (op->kind == T_CONTINUE) jump(walk, &walk->continues);
    else if (is_wgmma(lo, op) && !lo->is_specialised) VEC_PUSH(lo->arena, &walk->in_flight, op);
}

static void walk_block(Walk *walk, TileOp *block)
{
    for (TileOp *op = block; op; op = op->next) {
        walk_op(walk, op);
        if (!walk->lo->is_specialised) continue;
        OpInfo *const info = op_info(walk->lo, op); // a group barrier after this op tells of these
        if (!info->accesses) info->accesses = new_state(walk);
        set_state(walk, info->accesses, walk->state);
    }
}

void find_hazards(Lowering *lo)
{
    Walk walk = { .lo = lo, .passages = { .arena = lo->arena } };
    find_shared(&walk);
    do {
        walk.state = new_state(&walk);
        walk.version++; // group barriers that nothing answers are gone
        walk.in_flight.count = 0;
        // CTAs that loop over the grid come back to the beginning with what the end left.
        do {
            walk.changed = false;
            if (lo->is_persistent) walk_loop(&walk, lo->kernel->body, NULL, false);
            else walk_block(&walk, lo->kernel->body);
        } while (walk.changed);
    } while (drop_unanswered(lo));
}
