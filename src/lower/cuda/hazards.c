// hazards.c - where the consumers' threads must meet.
//
// Threads of an instance share tiles in shared memory and tensors that the kernel both reads and writes. Before an op
// that reads what others may have written since the last meeting, or writes what others may have read or written, a
// barrier stands. Loops are walked until the state at their head no longer grows. The producer's copies are not seen
// here: their tiles have mbarriers of their own. Nor are copies that run ahead: their pipelines meet at every step.
#include "lower/cuda/cuda.h"

// Groups that have not met since: [buffer][group of the access], bits are groups. Without placed statements all
// consumers count as one group.
enum { GROUPS = 8 };
typedef struct State { uint8_t (*read)[GROUPS], (*written)[GROUPS]; } State;

typedef struct Walk { Lowering *lo; State state; int n; bool changed; uint32_t groups; uint32_t from, to; } Walk;

static bool is_shared(const Lowering *lo, const Buffer *root)
{
    if (root->kind == BUFFER_TENSOR)
        return root->access == ACCESS_INOUT;
    const TileInfo *const tile = tile_info(lo, root);
    return tile && tile->home == HOME_SHARED && !tile->channel && !tile->ahead;
}

static uint32_t groups_of(Lowering *lo, TileOp *op) { return lo->has_teams ? op_groups(lo, op) : 1; }

// Whom this access must meet: earlier accessors (from) and itself (to).
static void test_use(const TileUse *use, void *context)
{
    Walk *const walk = context;
    const Buffer *const root = buffer_root(use->buffer);
    if (!is_shared(walk->lo, root))
        return;
    const bool writes = use->writes || use->atomic;
    for (int a = 0; a < GROUPS; a++) {
        const uint32_t waits = walk->groups & (walk->state.written[root->id][a] | (writes ? walk->state.read[root->id][a] : 0));
        if (waits) {
            walk->from |= 1u << a;
            walk->to |= waits;
        }
    }
}

static void note_use(const TileUse *use, void *context)
{
    Walk *const walk = context;
    const Buffer *const root = buffer_root(use->buffer);
    if (!is_shared(walk->lo, root))
        return;
    for (int a = 0; a < GROUPS; a++) {
        if (!(walk->groups >> a & 1))
            continue;
        if (use->reads)
            walk->state.read[root->id][a] = 0xff;
        if (use->writes || use->atomic)
            walk->state.written[root->id][a] = 0xff;
    }
}

static bool test_inside(Lowering *lo, TileOp *op, void *context)
{
    tile_uses(op, test_use, context);
    return false;
}

static bool note_inside(Lowering *lo, TileOp *op, void *context)
{
    tile_uses(op, note_use, context);
    return false;
}

static void alone(Lowering *lo, TileOp *op, OpVisit *visit, void *context)
{
    TileOp *const next = op->next;
    op->next = NULL;
    each_op(lo, op, visit, context);
    op->next = next;
}

static State new_state(Walk *walk)
{
    return (State){ arena_alloc(walk->lo->arena, GROUPS * (size_t)(walk->n + 1)), arena_alloc(walk->lo->arena, GROUPS * (size_t)(walk->n + 1)) };
}

static void set_state(Walk *walk, const State *to, const State *from)
{
    memcpy(to->read, from->read, GROUPS * (size_t)walk->n);
    memcpy(to->written, from->written, GROUPS * (size_t)walk->n);
}

static State copy_state(Walk *walk)
{
    const State copy = new_state(walk);
    set_state(walk, &copy, &walk->state);
    return copy;
}

// The union with another path's state.
static void join(Walk *walk, const State *other)
{
    for (int i = 0; i < walk->n; i++)
        for (int a = 0; a < GROUPS; a++) {
            walk->state.read[i][a] |= other->read[i][a];
            walk->state.written[i][a] |= other->written[i][a];
        }
}

// A barrier before the op: of one group, if that is all there is to order, else of all consumers.
static void meet(Walk *walk, TileOp *op)
{
    OpInfo *const info = op_info(walk->lo, op);
    const uint32_t both = walk->from | walk->to;
    const int group = walk->lo->has_teams && both && !(both & (both - 1)) ? __builtin_ctz(both) : -1;
    const int wanted = !info->barrier_before ? group : !both ? info->barrier_group : info->barrier_group == group ? group : -1;
    walk->changed |= !info->barrier_before || info->barrier_group != wanted;
    info->barrier_before = true;
    info->barrier_group = wanted;
    for (int i = 0; i < walk->n; i++)
        for (int a = 0; a < GROUPS; a++) {
            const uint8_t keep = wanted < 0 ? 0 : a == wanted ? (uint8_t)~(1u << wanted) : 0xff;
            walk->state.read[i][a] &= keep;
            walk->state.written[i][a] &= keep;
        }
}

static void walk_block(Walk *walk, TileOp *block);

// A body that may run again: its own end is one of the states at its head, unless all meet there.
static void walk_loop(Walk *walk, TileOp *body, TileOp *step, bool meets)
{
    const State before = copy_state(walk), none = new_state(walk);
    for (int turn = 0; turn < 2; turn++) {
        if (meets)
            set_state(walk, &walk->state, &none);
        walk_block(walk, body);
        walk_block(walk, step);
        join(walk, &before);
    }
}

static void walk_op(Walk *walk, TileOp *op)
{
    OpInfo *const info = op_info(walk->lo, op);
    if (info->fetched || op->kind == T_TILE)
        return;
    walk->groups = groups_of(walk->lo, op);
    walk->from = walk->to = 0;
    const bool is_flow = op->kind == T_FOR || op->kind == T_WHILE || op->kind == T_PIPELINE || op->kind == T_IF;
    if (is_flow)
        tile_uses(op, test_use, walk);                     // its own bounds and condition
    else
        alone(walk->lo, op, test_inside, walk);
    if (walk->from || info->barrier_before)
        meet(walk, op);
    walk->groups = groups_of(walk->lo, op);
    if (!is_flow) {
        alone(walk->lo, op, note_inside, walk);
        return;
    }
    tile_uses(op, note_use, walk);
    switch (op->kind) {
    case T_FOR: walk_loop(walk, op->for_.body, NULL, false); return;
    case T_WHILE: walk_loop(walk, op->while_.body, op->while_.step, false); return;
    case T_PIPELINE: walk_loop(walk, op->pipeline.body, NULL, info->ahead != NULL); return;
    case T_IF: {
        const State before = copy_state(walk);
        walk_block(walk, op->branch.then);
        const State then = copy_state(walk);
        set_state(walk, &walk->state, &before);
        walk_block(walk, op->branch.otherwise);
        join(walk, &then);
        return;
    }
    default: return;
    }
}

static void walk_block(Walk *walk, TileOp *block)
{
    for (TileOp *op = block; op; op = op->next)
        walk_op(walk, op);
}

void find_hazards(Lowering *lo)
{
    Walk walk = { .lo = lo, .n = lo->kernel->n_buffers, .changed = true };
    walk.state = new_state(&walk);
    // Instances that loop over the grid come back to the beginning with what the end left.
    while (walk.changed) {
        walk.changed = false;
        if (lo->is_persistent)
            walk_loop(&walk, lo->kernel->body, NULL, false);
        else
            walk_block(&walk, lo->kernel->body);
    }
}
