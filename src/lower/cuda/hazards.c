// hazards.c - where the consumers' threads must meet.
//
// Threads of an instance share tiles in shared memory, and tensors that the kernel both reads and writes, or writes the
// same elements of in several places (rewritten.c). Before an op that reads what others may have written since the last
// meeting, or writes what others may have read or written, a barrier stands; or a signal of one group to another does
// (signals.c). Loops are walked until the state at their head no longer grows. The producer's copies are not seen here:
// their tiles have mbarriers of their own. Nor are copies that run ahead: their pipelines meet at every step.
//
// after: barrier_before, with its group, of every op, and the signals
#include "lower/cuda/hazards.h"

static bool is_shared(const Walk *walk, const Buffer *root)
{
    if (root->kind == BUFFER_TENSOR)
        return !walk->sums[root->id] && (root->access == ACCESS_INOUT || walk->rewritten[root->id]);
    const TileInfo *const tile = tile_info(walk->lo, root);
    return tile && tile->home == HOME_SHARED && !tile->channel && !tile->ahead;
}

static bool alternates(const Walk *walk, int buffer) { return walk->lo->tiles[buffer] && walk->lo->tiles[buffer]->alternates; }

static uint32_t groups_of(Lowering *lo, TileOp *op) { return lo->has_teams ? op_groups(lo, op) : 1; }

static void test_use(const TileUse *use, void *context)
{
    Walk *const walk = context;
    Conflict *const conflict = &walk->conflict;
    const Buffer *const root = buffer_root(use->buffer);
    if (!is_shared(walk, root))
        return;
    const bool writes = use->writes || use->atomic;
    for (int a = 0; a < GROUPS; a++) {
        const Accesses *const x = &walk->state[root->id][a];
        const uint32_t written = walk->groups & x->written, read = writes ? walk->groups & x->read : 0;
        const uint32_t before = walk->groups & (x->written_before | (writes ? x->read_before : 0));
        conflict->waits[a] |= written | read | before;
        conflict->any |= written || read || before;
        conflict->from_before |= before != 0;
        if (written && x->written_at > conflict->at)
            conflict->at = x->written_at;
        if (read && x->read_at > conflict->at)
            conflict->at = x->read_at;
    }
}

static void note_use(const TileUse *use, void *context)
{
    Walk *const walk = context;
    const Buffer *const root = buffer_root(use->buffer);
    if (!is_shared(walk, root))
        return;
    for (int a = 0; a < GROUPS; a++) {
        Accesses *const x = &walk->state[root->id][a];
        if (!(walk->groups >> a & 1))
            continue;
        if (use->reads) {
            x->read = 0xff;
            x->read_at = op_info(walk->lo, walk->op)->order;
        }
        if (use->writes || use->atomic) {
            x->written = 0xff;
            x->written_at = op_info(walk->lo, walk->op)->order;
        }
    }
}

// A store that is staged writes the tiles which its groups' staging covers.
static void each_under(Walk *walk, TileOp *op, void visit(const TileUse *use, void *context))
{
    Lowering *const lo = walk->lo;
    if (!lo->staged_over || !is_map(op) || !store_is_staged(lo, op))
        return;
    const int part = lo->staging_bytes / lo->all.groups;
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        if (tile->home != HOME_SHARED)
            continue;
        for (int g = 0; g < lo->all.groups; g++) {
            const int begin = lo->staging_offset + g * part;
            if ((walk->groups >> g & 1) && tile->offset < begin + part && begin < tile->offset + tile->shared.bytes * tile->buffers)
                visit(&(TileUse){ .buffer = tile->buffer, .writes = true }, walk);
        }
    }
}

static bool test_inside(Lowering *lo, TileOp *op, void *context)
{
    each_under(context, op, test_use);
    tile_uses(op, test_use, context);
    return false;
}

static bool note_inside(Lowering *lo, TileOp *op, void *context)
{
    each_under(context, op, note_use);
    tile_uses(op, note_use, context);
    return false;
}

static size_t state_bytes(const Walk *walk) { return sizeof(Accesses) * GROUPS * (size_t)(walk->n + 1); }

static State new_state(Walk *walk) { return arena_alloc(walk->lo->arena, state_bytes(walk)); }

static void set_state(Walk *walk, State to, State from) { memcpy(to, from, state_bytes(walk)); }

static State copy_state(Walk *walk)
{
    const State copy = new_state(walk);
    set_state(walk, copy, walk->state);
    return copy;
}

// The union with another path's state.
static void join(Walk *walk, State other)
{
    for (int i = 0; i < walk->n; i++)
        for (int a = 0; a < GROUPS; a++) {
            Accesses *const x = &walk->state[i][a];
            const Accesses *const y = &other[i][a];
            x->read |= y->read;
            x->written |= y->written;
            x->read_before |= y->read_before;
            x->written_before |= y->written_before;
            x->read_other |= y->read_other;
            x->written_other |= y->written_other;
            x->read_at = y->read_at > x->read_at ? y->read_at : x->read_at;
            x->written_at = y->written_at > x->written_at ? y->written_at : x->written_at;
        }
}

// ---- products in flight

static void test_flight(const TileUse *use, void *context)
{
    Walk *const walk = context;
    const Buffer *const root = buffer_root(use->buffer);
    for (int i = walk->landed; i < walk->flying.count; i++) {
        const TileOp *const x = walk->flying.items[i];
        const bool follows = is_wgmma(walk->lo, walk->op) && walk->op->matmul.dst.buffer == root;    // into one accumulator, in order
        const bool reads = root == buffer_root(x->matmul.a.region.buffer) || root == buffer_root(x->matmul.b.region.buffer);
        if ((root == x->matmul.dst.buffer && !follows) || (reads && (use->writes || use->atomic)))
            walk->landed = i + 1;
    }
}

static bool test_flights(Lowering *lo, TileOp *op, void *context)
{
    Walk *const walk = context;
    if (op_info(lo, op)->fetched)
        return true;
    if (is_flow(walk->op) && is_wgmma(lo, op))             // before a loop or branch with products all are waited for
        walk->landed = walk->flying.count;
    tile_uses(op, test_flight, context);
    return false;
}

// Products whose results the op uses, and those issued before them, have read what they read (wait_for_op).
static void land(Walk *walk, TileOp *op)
{
    walk->landed = 0;
    visit_op(walk->lo, op, test_flights, walk);
    walk->flying.count -= walk->landed;
    for (int i = 0; i < walk->flying.count; i++)
        walk->flying.items[i] = walk->flying.items[i + walk->landed];
}

// Behind a block, at whose end those that it issued are waited for.
static void keep_flying(Walk *walk, int before)
{
    if (walk->flying.count > before)
        walk->flying.count = before;
}

// They read beyond a meeting: other threads may not write these tiles before the next.
static void read_beyond(Walk *walk)
{
    for (int i = 0; i < walk->flying.count; i++) {
        TileOp *const x = walk->flying.items[i];
        const Buffer *const operands[2] = { buffer_root(x->matmul.a.region.buffer), buffer_root(x->matmul.b.region.buffer) };
        for (int o = 0; o < 2; o++)
            if (is_shared(walk, operands[o])) {
                walk->state[operands[o]->id][0].read = 0xff;
                walk->state[operands[o]->id][0].read_at = op_info(walk->lo, x)->order;
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
}

// Of one group, or (-1) of all.
static void clear_met(Walk *walk, int group)
{
    for (int i = 0; i < walk->n; i++)
        for (int a = 0; a < GROUPS; a++)
            keep_accesses(&walk->state[i][a], group < 0 ? 0 : a == group ? (uint8_t)~(1u << group) : 0xff);
}

// The one group that the conflict is within; -1: it is between groups.
static int conflict_group(const Walk *walk)
{
    int group = -1;
    for (int a = 0; a < GROUPS; a++) {
        if (!walk->conflict.waits[a])
            continue;
        if (group >= 0 || walk->conflict.waits[a] != 1u << a)
            return -1;
        group = a;
    }
    return group;
}

static bool has_tensors(const Walk *walk)
{
    const TileKernel *const k = walk->lo->kernel;
    for (int i = 0; i < k->n_params; i++)
        for (int a = 0; a < GROUPS && k->params[i].is_tensor; a++) {
            const Accesses *const x = &walk->state[k->params[i].tensor->id][a];
            if (x->read || x->written || x->read_before || x->written_before)
                return true;
        }
    return false;
}

// A barrier before the op: of one group, if that is all there is to order, else of all consumers.
static void meet(Walk *walk, TileOp *op)
{
    OpInfo *const info = op_info(walk->lo, op);
    info->orders_tensors |= has_tensors(walk);
    const int group = walk->lo->has_teams ? conflict_group(walk) : -1;
    int wanted = group;
    if (info->barrier_before && !walk->conflict.any)
        wanted = info->barrier_group;
    else if (info->barrier_before && info->barrier_group != group)
        wanted = -1;
    walk->changed |= !info->barrier_before || info->barrier_group != wanted;
    info->barrier_before = true;
    info->barrier_group = wanted;
    clear_met(walk, wanted);
    read_beyond(walk);
}

typedef struct Writes { const Walk *walk; bool any; } Writes;

static void find_write(const TileUse *use, void *context)
{
    Writes *const writes = context;
    writes->any |= (use->writes || use->atomic) && is_shared(writes->walk, buffer_root(use->buffer));
}

static bool only_reads(Walk *walk, TileOp *loop)
{
    Writes writes = { walk, false };
    each_use(walk->lo, loop, find_write, &writes);
    return !writes.any;
}

// What was done before the loops around this op is ordered before the outermost of them, once. Without placed statements only
// where they write nothing: else the turns most often need a meeting of their own, which serves for this, too.
static bool meet_outside(Walk *walk, TileOp *op)
{
    Lowering *const lo = walk->lo;
    TileOp *outermost = NULL;
    for (TileOp *x = op_info(lo, op)->parent; x && op_info(lo, x)->order > walk->conflict.at; x = op_info(lo, x)->parent)
        if (x->kind == T_FOR || x->kind == T_PIPELINE)
            outermost = x;
    if (walk->conflict.from_before || !outermost || (!lo->has_teams && !only_reads(walk, outermost)))
        return false;
    meet(walk, outermost);
    return true;
}

static void walk_block(Walk *walk, TileOp *block);

// Instances are not ordered among each other.
static void forget_tensors(Walk *walk)
{
    const TileKernel *const k = walk->lo->kernel;
    for (int i = 0; i < k->n_params; i++)
        if (k->params[i].is_tensor)
            memset(walk->state[k->params[i].tensor->id], 0, sizeof *walk->state);
}

// The tile's sides change places: what the turn before last left is on the side that is written next.
static void turn_sides(Walk *walk, TileOp *body, int buffer)
{
    if (op_info(walk->lo, walk->lo->tiles[buffer]->declared)->block != body)
        return;
    for (int a = 0; a < GROUPS; a++) {
        Accesses *const x = &walk->state[buffer][a];
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
            turn_sides(walk, body, i);
            continue;
        }
        for (int a = 0; a < GROUPS; a++) {
            Accesses *const x = &walk->state[i][a];
            x->read_before |= x->read;
            x->written_before |= x->written;
            x->read = x->written = 0;
            x->read_at = x->written_at = -1;
        }
    }
}

// Behind the loop all of it is simply earlier.
static void leave_loop(Walk *walk, State before)
{
    for (int i = 0; i < walk->n; i++)
        for (int a = 0; a < GROUPS && !alternates(walk, i); a++) {
            Accesses *const x = &walk->state[i][a];
            x->read_at = x->read_before ? walk->last : x->read_at;
            x->written_at = x->written_before ? walk->last : x->written_at;
            x->read |= x->read_before;
            x->written |= x->written_before;
            x->read_before = before[i][a].read_before;
            x->written_before = before[i][a].written_before;
        }
}

// A body that may run again; `meets`: all do at its head. A tile with two sides may come to the same one in every other
// turn.
static void walk_loop(Walk *walk, TileOp *body, TileOp *step, bool meets)
{
    const State before = copy_state(walk), none = new_state(walk);
    const int flying = walk->flying.count;
    for (int turn = 0; turn < 3; turn++) {
        if (meets)
            set_state(walk, walk->state, none);
        if (body == walk->lo->kernel->body)
            forget_tensors(walk);
        walk_block(walk, body);
        walk_block(walk, step);
        keep_flying(walk, flying);
        age_accesses(walk, body);
        join(walk, before);
    }
    leave_loop(walk, before);
}

static void walk_branches(Walk *walk, TileOp *op)
{
    const State before = copy_state(walk);
    const int flying = walk->flying.count;
    walk_block(walk, op->branch.then);
    const State then = copy_state(walk);
    set_state(walk, walk->state, before);
    keep_flying(walk, flying);
    walk_block(walk, op->branch.otherwise);
    keep_flying(walk, flying);
    join(walk, then);
}

static void walk_flow(Walk *walk, TileOp *op)
{
    tile_uses(op, note_use, walk);
    if (op->kind == T_FOR)
        walk_loop(walk, op->for_.body, NULL, false);
    else if (op->kind == T_WHILE)
        walk_loop(walk, op->while_.body, op->while_.step, false);
    else if (op->kind == T_PIPELINE)
        walk_loop(walk, op->pipeline.body, NULL, op_info(walk->lo, op)->ahead != NULL);
    else
        walk_branches(walk, op);
}

static void walk_op(Walk *walk, TileOp *op)
{
    Lowering *const lo = walk->lo;
    const OpInfo *const info = op_info(lo, op);
    if (info->fetched || op->kind == T_TILE)
        return;
    pass_signals(walk, op);
    walk->groups = groups_of(lo, op);
    walk->op = op;
    walk->conflict = (Conflict){ .at = -1 };
    land(walk, op);
    if (is_flow(op))
        tile_uses(op, test_use, walk);                     // its own bounds and condition
    else
        visit_op(lo, op, test_inside, walk);
    if (info->barrier_before || op == lo->staged_over ||
        (walk->conflict.any && !meet_outside(walk, op) && !signal_instead(walk, op)))
        meet(walk, op);
    walk->last = end_order(lo, op);
    if (is_flow(op)) {
        walk_flow(walk, op);
        return;
    }
    visit_op(lo, op, note_inside, walk);
    if (is_wgmma(lo, op) && !lo->has_teams)
        VEC_PUSH(lo->arena, &walk->flying, op);
}

static void walk_block(Walk *walk, TileOp *block)
{
    for (TileOp *op = block; op; op = op->next) {
        walk_op(walk, op);
        if (!walk->lo->has_teams)
            continue;
        OpInfo *const info = op_info(walk->lo, op);        // a signal after this op tells of these
        if (!info->accesses)
            info->accesses = new_state(walk);
        set_state(walk, info->accesses, walk->state);
    }
}

void find_hazards(Lowering *lo)
{
    const bool *const rewritten = find_rewritten(lo), *const sums = find_sums(lo);
    do {
        Walk walk = { .lo = lo, .n = lo->kernel->n_buffers, .changed = true, .rewritten = rewritten, .sums = sums };
        walk.state = new_state(&walk);
        // Instances that loop over the grid come back to the beginning with what the end left.
        while (walk.changed) {
            walk.changed = false;
            if (lo->is_persistent)
                walk_loop(&walk, lo->kernel->body, NULL, false);
            else
                walk_block(&walk, lo->kernel->body);
        }
    } while (drop_unanswered(lo));
}
