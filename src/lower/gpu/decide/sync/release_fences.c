// SPDX-License-Identifier: MIT
// release_fences.c - buffers of rings that are released after a fence wait for one that comes soon anyway.
//
// A buffer that threads load from and boxes fill is released after fence.proxy.async, which waits for all of a thread's loads
// and stores in flight: some hundred cycles, and as many again for each such buffer of a step. One fence does for all that
// was loaded before it. So a release moves to the fence of a later release in the same body, or to the one that the next
// product's operand needs, after the barrier that follows there, which brings the warp together, too.
//
// What may lie between depends on the slots that the ring has. The buffer is free later by what is passed, and the next box
// comes later by as much, under the steps that the other slots hold:
//
//     1 slot:  nothing that takes time
//     2:       the threads' own work, and waits for other rings, whose boxes of this step come before any of the next
//     3:       a wait for products, too
//
// With 2 slots also a wait for products or for a slot of other consumers, where the producer waits first for another ring of
// no more slots that is released after the fence anyway: the next box comes no later.
//
// before: the roles are complete        after: the same releases, fewer fences; schedule_verify() checks the order
#include "lower/gpu/decide/analyses.h"

#include <limits.h>

// A fence, and the releases that it stands for, with nothing but __syncwarp between.
typedef struct Group {
    Action **fence; // the link to it
    Action *last;
    int slots; // of the ring that has the fewest
} Group;

static bool find_group(const Schedule *schedule, Action **link, Group *group)
{
    if ((*link)->kind != ACTION_FENCE_ASYNC) return false;
    *group = (Group){ .fence = link, .slots = INT_MAX };
    for (Action *action = (*link)->next; action; action = action->next) {
        if (action->kind == ACTION_RELEASE) {
            const int slots = schedule->rings.items[action->ring.ring]->slots;
            if (slots < group->slots) group->slots = slots;
            group->last = action;
        } else if (action->kind != ACTION_WARP_SYNC) {
            break;
        }
    }
    return group->last != NULL;
}

static bool releases(const Group *group, int ring)
{
    for (const Action *action = (*group->fence)->next; action != group->last->next; action = action->next)
        if (action->kind == ACTION_RELEASE && action->ring.ring == ring) return true;
    return false;
}

static bool may_pass(const Group *group, const Action *action);

static bool may_pass_all(const Group *group, const Action *body)
{
    while (body && may_pass(group, body)) body = body->next;
    return !body;
}

static bool may_pass(const Group *group, const Action *action)
{
    switch ((int)action->kind) {
    case ACTION_WARP_SYNC:
    case ACTION_FENCE_REGISTERS: return true;
    case ACTION_DECLARE: return action->declare.what != DECLARE_SLOT_POINTERS || !releases(group, action->declare.ring);
    case ACTION_ADVANCE:
    case ACTION_RELEASE: return !releases(group, action->ring.ring);
    case ACTION_WAIT: return group->slots > 1 && !releases(group, action->ring.ring);
    case ACTION_MAP:
    case ACTION_SCAN:
    case ACTION_SCALAR:
    case ACTION_LDMATRIX:
    case ACTION_MMA: return group->slots > 1;
    case ACTION_STORE: return group->slots > 1 && action->store.how == STORE_THREADS;
    case ACTION_IF: return may_pass_all(group, action->body) && may_pass_all(group, action->otherwise);
    default: return action->kind == ACTION_MMA_WAIT && group->slots > 2;
    }
}

// In a step of the producer, a wait for the ring stands before those for the group's, in one body.
static bool is_filled_before(const Action *body, int ring, const Group *group)
{
    bool seen = false;
    for (const Action *action = body; action; action = action->next) {
        if (action->kind == ACTION_ACQUIRE) {
            if (action->ring.ring == ring) seen = true;
            else if (releases(group, action->ring.ring)) return seen;
        }
        if (is_filled_before(action->body, ring, group) || is_filled_before(action->otherwise, ring, group))
            return true;
    }
    return false;
}

// The producer waits for another ring, which is released after the fence, before it waits for the group's.
static bool next_box_waits(const Schedule *schedule, const Group *group, const Action *fence)
{
    for (const Action *action = fence; action; action = action->next) {
        if (action->kind != ACTION_RELEASE || schedule->rings.items[action->ring.ring]->slots > group->slots) continue;
        for (int i = 0; i < schedule->roles.count; i++) {
            const ScheduleRole *const role = schedule->roles.items[i];
            if (role->kind != ROLE_OF_CONSUMERS && is_filled_before(role->body, action->ring.ring, group)) return true;
        }
    }
    return false;
}

static bool waits(const Action *action) { return action->kind == ACTION_MMA_WAIT || action->kind == ACTION_ACQUIRE; }

static Action *next_fence(const Schedule *schedule, const Group *group)
{
    bool is_late = false; // it passes a wait that takes a part of the step
    Action *action = group->last->next;
    for (; action && action->kind != ACTION_FENCE_ASYNC; action = action->next) {
        if (may_pass(group, action)) continue;
        if (group->slots < 2 || !waits(action)) return NULL;
        is_late = true;
    }
    return action && (!is_late || next_box_waits(schedule, group, action)) ? action : NULL;
}

static bool syncs_warps(const ScheduleRole *role, const Action *action)
{
    if (!action || action->kind == ACTION_WARP_SYNC) return action != NULL;
    return action->kind == ACTION_BARRIER_SYNC && action->barrier.of == BARRIER_ONE &&
           action->barrier.threads >= role->threads;
}

// Behind what brings the warp together there, or else with the first of the group's own.
static void move_group(const ScheduleRole *role, const Group *group, Action *fence)
{
    Action *const first = (*group->fence)->next;
    *group->fence = group->last->next;
    bool is_synced = syncs_warps(role, fence->next);
    Action **end = is_synced ? &fence->next->next : &fence->next;
    Action *const rest = *end;
    for (Action *action = first, *next; action; action = next) {
        next = action == group->last ? NULL : action->next;
        if (is_synced && action->kind == ACTION_WARP_SYNC) continue;
        is_synced |= action->kind == ACTION_WARP_SYNC;
        *end = action;
        end = &action->next;
    }
    *end = rest;
}

static void join_fences(const Schedule *schedule, const ScheduleRole *role, Action **body)
{
    for (Action **link = body; *link;) {
        Group group;
        Action *const fence = find_group(schedule, link, &group) ? next_fence(schedule, &group) : NULL;
        if (fence) {
            move_group(role, &group, fence);
            continue; // with what comes there now
        }
        join_fences(schedule, role, &(*link)->body);
        join_fences(schedule, role, &(*link)->otherwise);
        link = &(*link)->next;
    }
}

void join_release_fences(Lowering *lo)
{
    const Schedule *const schedule = lo->builder.schedule;
    for (int i = 0; i < schedule->roles.count; i++)
        if (schedule->roles.items[i]->kind == ROLE_OF_CONSUMERS)
            join_fences(schedule, schedule->roles.items[i], &schedule->roles.items[i]->body);
}
