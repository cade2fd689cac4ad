// SPDX-License-Identifier: MIT
// needless_fences.c - a barrier has a proxy fence before it only where threads may have done what the fence is for.
//
// Deciding puts fence.proxy.async before every barrier of a kernel that has a tile which threads write and products or boxes
// read. The fence waits for all of a thread's loads and stores in flight, those to tensors, too: 150 to 300 cycles. It is needed if
// since the last one the thread may have written a tile that the async proxy reads, or read one that it writes. Of all paths to a
// barrier one suffices for it to stay.
//
// before: the roles are complete, releases share fences        after: fewer fences; schedule_verify() checks them
#include "lower/gpu/decide/analyses.h"

typedef struct Walk {
    const Schedule *schedule;
    bool *reads, *writes; // of a tile: the async proxy does
    bool is_open;         // something waits for a fence
    bool at_jump;         // and did where a loop may have been left
    bool drops;
} Walk;

// ---- what the async proxy accesses

static void note_async(const Walk *walk, const Action *action)
{
    for (; action; action = action->next) {
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

// ---- the walk

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

static bool is_before_barrier(const Action *action)
{
    return action->kind == ACTION_FENCE_ASYNC && action->next && action->next->kind == ACTION_BARRIER_SYNC;
}

static void walk_body(Walk *walk, Action **body);

// What is open at its end may be at its begin.
static void walk_loop(Walk *walk, Action **body)
{
    const bool before = walk->is_open, drops = walk->drops;
    walk->drops = false;
    walk_body(walk, body);
    walk->is_open |= before || walk->at_jump;
    walk->drops = drops;
    const bool enters = walk->is_open;
    walk_body(walk, body);
    walk->is_open |= enters || walk->at_jump;
}

static void walk_branches(Walk *walk, Action *action)
{
    const bool before = walk->is_open;
    walk_body(walk, &action->body);
    const bool after = walk->is_open;
    walk->is_open = before;
    walk_body(walk, &action->otherwise);
    walk->is_open |= after || before;
}

static void walk_action(Walk *walk, Action *action)
{
    switch ((int)action->kind) {
    case ACTION_GRID:
    case ACTION_LOOP: walk_loop(walk, &action->body); return;
    case ACTION_IF:
    case ACTION_SCOPE: walk_branches(walk, action); return;
    case ACTION_JUMP: walk->at_jump |= walk->is_open; return;
    case ACTION_FENCE_ASYNC: walk->is_open = false; return;
    default: break;
    }
    const bool opens = needs_fence(walk, action);
    walk->is_open |= opens;
    walk_body(walk, &action->body);
    walk->is_open |= opens;
}

static void walk_body(Walk *walk, Action **body)
{
    for (Action **link = body; *link;) {
        if (walk->drops && !walk->is_open && is_before_barrier(*link)) {
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
                  .writes = NEW_ARRAY(lo->arena, bool, schedule->tiles.count + 1),
                  .drops = true };
    for (int i = 0; i < schedule->roles.count; i++) note_async(&walk, schedule->roles.items[i]->body);
    join_places(&walk);
    for (int i = 0; i < schedule->roles.count; i++) {
        walk.is_open = walk.at_jump = false;
        walk_body(&walk, &schedule->roles.items[i]->body);
    }
}
