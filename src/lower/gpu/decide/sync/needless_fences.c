// SPDX-License-Identifier: MIT
// needless_fences.c - a barrier has a proxy fence before it only where threads may have done what the fence is for.
//
// Deciding puts fence.proxy.async before every barrier of a kernel that has a tile which threads write and products or boxes
// read. The fence waits for all of a thread's loads and stores in flight, those to tensors, too: 150 to 300 cycles. It is needed if
// since the last one the thread may have written a tile that the async proxy reads, or read one that it writes. Of all paths to a
// barrier one suffices for it to stay. In a loop around another one it stays in any case: it is nothing beside the inner loop's
// time, and where ptxas cannot move accesses across it, latent decode is 1% to 2% faster.
//
// before: the roles are complete, releases share fences        after: fewer fences; schedule_verify() checks them
#include "lower/gpu/decide/analyses.h"

// What a block does to "something waits for a fence": by whether it did before.
typedef struct Flow {
    bool after[2];   // it does at the end
    bool at_jump[2]; // and did where a loop may be left or begun again
} Flow;

typedef struct Walk {
    const Schedule *schedule;
    bool *reads, *writes; // of a tile: the async proxy does
    Flow *loops;          // bodies of loops, in the order of the source
    int n_loops, next_loop;
    bool is_open;   // something waits for a fence
    bool is_around; // the innermost loop has another in it
} Walk;

// ---- what the async proxy accesses

static bool is_loop(const Action *action) { return action->kind == ACTION_GRID || action->kind == ACTION_LOOP; }

static void note_async(Walk *walk, const Action *action)
{
    for (; action; action = action->next) {
        walk->n_loops += is_loop(action);
        for (int i = 0; i < action->n_accesses; i++) {
            const TileAccess *const access = &action->accesses[i];
            walk->reads[access->tile] |= access->is_async && access->reads;
            walk->writes[access->tile] |= access->is_async && access->writes;
        }
        note_async(walk, action->body);
        note_async(walk, action->otherwise);
    }
}

static int end_of(const ScheduleTile *tile) { return tile->offset + tile->bytes * (tile->slots > 1 ? tile->slots : 1); }

// Tiles that lie where others do are as these.
static void join_places(const Walk *walk)
{
    const int n = walk->schedule->tiles.count;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            const ScheduleTile *const a = walk->schedule->tiles.items[i], *const b = walk->schedule->tiles.items[k];
            if (i == k || a->place != TILE_SHARED || b->place != TILE_SHARED) continue;
            if (a->offset >= end_of(b) || b->offset >= end_of(a)) continue;
            const bool is_async = walk->reads[i] || walk->writes[i] || walk->reads[k] || walk->writes[k];
            walk->reads[i] |= is_async;
            walk->writes[i] |= is_async;
        }
}

// ---- what blocks do

static bool needs_fence(const Walk *walk, const Action *action)
{
    if (action->kind == ACTION_COPY_WAIT) return true; // what was copied is as if stored here
    for (int i = 0; i < action->n_accesses; i++) {
        const TileAccess *const access = &action->accesses[i];
        if (access->is_async || walk->schedule->tiles.items[access->tile]->place != TILE_SHARED) continue;
        if ((access->writes && walk->reads[access->tile]) || walk->writes[access->tile]) return true;
    }
    return false;
}

static Flow flow_of_block(Walk *walk, const Action *action);

// What is open at a body's end or at a jump may be at its begin.
static bool enters(const Flow *body, bool before) { return before || body->after[before] || body->at_jump[before]; }

static Flow flow_of_loop(Walk *walk, const Action *loop)
{
    const int number = walk->next_loop++;
    const Flow body = walk->loops[number] = flow_of_block(walk, loop->body);
    Flow flow;
    for (int before = 0; before < 2; before++) {
        const bool begin = enters(&body, before);
        flow.at_jump[before] = body.at_jump[begin];
        flow.after[before] = begin || body.after[begin] || body.at_jump[begin];
    }
    return flow;
}

static Flow flow_of_branches(Walk *walk, const Action *action)
{
    Flow flow = flow_of_block(walk, action->body);
    const Flow otherwise = flow_of_block(walk, action->otherwise);
    for (int before = 0; before < 2; before++) {
        flow.at_jump[before] |= otherwise.at_jump[before];
        flow.after[before] |= otherwise.after[before] || before;
    }
    return flow;
}

static Flow flow_of(Walk *walk, const Action *action)
{
    const bool opens = needs_fence(walk, action);
    switch ((int)action->kind) {
    case ACTION_GRID:
    case ACTION_LOOP: return flow_of_loop(walk, action);
    case ACTION_IF:
    case ACTION_SCOPE: return flow_of_branches(walk, action);
    case ACTION_JUMP: return (Flow){ { false, true }, { false, true } };
    case ACTION_FENCE_ASYNC: return (Flow){ { false, false }, { false, false } };
    default: break;
    }
    const Flow body = flow_of_block(walk, action->body);
    return (Flow){ { body.after[opens] || opens, body.after[true] || opens },
                   { body.at_jump[opens], body.at_jump[true] } };
}

static Flow flow_of_block(Walk *walk, const Action *action)
{
    Flow flow = { { false, true }, { false, false } };
    for (; action; action = action->next) {
        const Flow next = flow_of(walk, action);
        for (int before = 0; before < 2; before++) {
            flow.at_jump[before] |= next.at_jump[flow.after[before]];
            flow.after[before] = next.after[flow.after[before]];
        }
    }
    return flow;
}

// ---- the walk

static bool has_loop(const Action *action)
{
    for (; action; action = action->next)
        if (is_loop(action) || has_loop(action->body) || has_loop(action->otherwise)) return true;
    return false;
}

static void walk_block(Walk *walk, Action **body);

static void walk_loop(Walk *walk, Action *loop)
{
    const Flow *const body = &walk->loops[walk->next_loop++];
    const bool begin = walk->is_open = enters(body, walk->is_open), outer = walk->is_around;
    walk->is_around = loop->kind == ACTION_LOOP && has_loop(loop->body);
    walk_block(walk, &loop->body);
    walk->is_around = outer;
    walk->is_open |= begin || body->at_jump[begin];
}

static void walk_branches(Walk *walk, Action *action)
{
    const bool before = walk->is_open;
    walk_block(walk, &action->body);
    const bool after = walk->is_open;
    walk->is_open = before;
    walk_block(walk, &action->otherwise);
    walk->is_open |= after || before;
}

static void walk_action(Walk *walk, Action *action)
{
    switch ((int)action->kind) {
    case ACTION_GRID:
    case ACTION_LOOP: walk_loop(walk, action); return;
    case ACTION_IF:
    case ACTION_SCOPE: walk_branches(walk, action); return;
    case ACTION_JUMP: return;
    case ACTION_FENCE_ASYNC: walk->is_open = false; return;
    default: break;
    }
    const bool opens = needs_fence(walk, action);
    walk->is_open |= opens;
    walk_block(walk, &action->body);
    walk->is_open |= opens;
}

static bool is_before_barrier(const Action *action)
{
    return action->kind == ACTION_FENCE_ASYNC && action->next && action->next->kind == ACTION_BARRIER_SYNC;
}

static void walk_block(Walk *walk, Action **body)
{
    for (Action **link = body; *link;) {
        if (!walk->is_open && !walk->is_around && is_before_barrier(*link)) {
            *link = (*link)->next;
            continue;
        }
        walk_action(walk, *link);
        link = &(*link)->next;
    }
}

void drop_needless_fences(Lowering *lo)
{
    const Schedule *const schedule = lo->builder.schedule;
    Walk walk = { .schedule = schedule,
                  .reads = NEW_ARRAY(lo->arena, bool, schedule->tiles.count + 1),
                  .writes = NEW_ARRAY(lo->arena, bool, schedule->tiles.count + 1) };
    for (int i = 0; i < schedule->roles.count; i++) note_async(&walk, schedule->roles.items[i]->body);
    join_places(&walk);
    walk.loops = NEW_ARRAY(lo->arena, Flow, walk.n_loops + 1);
    for (int i = 0; i < schedule->roles.count; i++) {
        Action **const body = &schedule->roles.items[i]->body;
        const int first = walk.next_loop;
        flow_of_block(&walk, *body);
        walk.next_loop = first;
        walk.is_open = false;
        walk_block(&walk, body);
    }
}
