// SPDX-License-Identifier: MIT
// build.c - making a schedule: tables first, then the actions of one role after another.
#include "lower/gpu/schedule/build.h"

#include <assert.h>

Schedule *schedule_new(Arena *arena, const char *kernel, const char *target)
{
    return NEW(arena, Schedule, .arena = arena, .kernel = kernel, .target = target, .cluster = 1);
}

int schedule_add_tile(Schedule *schedule, ScheduleTile tile)
{
    ScheduleTile *const added = NEW(schedule->arena, ScheduleTile);
    *added = tile;
    VEC_PUSH(schedule->arena, &schedule->tiles, added);
    return schedule->tiles.count - 1;
}

int schedule_add_ring(Schedule *schedule, ScheduleRing ring)
{
    ScheduleRing *const added = NEW(schedule->arena, ScheduleRing);
    *added = ring;
    VEC_PUSH(schedule->arena, &schedule->rings, added);
    return schedule->rings.count - 1;
}

// ---- actions

static OpenAction *innermost(ScheduleBuilder *builder)
{
    assert(builder->open.count > 0 && "an action belongs to a role");
    return &builder->open.items[builder->open.count - 1];
}

void schedule_begin_role(ScheduleBuilder *builder, ScheduleRole role)
{
    assert(!builder->role && "roles do not nest");
    Arena *const arena = builder->schedule->arena;
    builder->role = NEW(arena, ScheduleRole);
    *builder->role = role;
    VEC_PUSH(arena, &builder->schedule->roles, builder->role);
    const OpenAction body = { .end = &builder->role->body };
    VEC_PUSH(arena, &builder->open, body);
}

void schedule_end_role(ScheduleBuilder *builder)
{
    assert(builder->role && builder->open.count == 1 && "every open action is closed");
    builder->open.count = 0;
    builder->role = NULL;
}

Action *schedule_add(ScheduleBuilder *builder, Action action)
{
    OpenAction *const open = innermost(builder);
    Action *const added = NEW(builder->schedule->arena, Action);
    *added = action;
    if (added->op && !added->span.source) added->span = added->op->span;
    *open->end = added;
    open->end = &added->next;
    return added;
}

Action *schedule_open(ScheduleBuilder *builder, Action action)
{
    Action *const added = schedule_add(builder, action);
    const OpenAction body = { .action = added, .end = &added->body };
    VEC_PUSH(builder->schedule->arena, &builder->open, body);
    return added;
}

void schedule_otherwise(ScheduleBuilder *builder)
{
    OpenAction *const open = innermost(builder);
    assert(open->action && (open->action->kind == ACTION_IF || open->action->kind == ACTION_SCOPE));
    open->end = &open->action->otherwise;
}

void schedule_close(ScheduleBuilder *builder)
{
    assert(builder->open.count > 1 && "a role's body is closed by schedule_end_role");
    builder->open.count--;
}

void schedule_access(Schedule *schedule, Action *action, TileAccess access)
{
    TileAccess *const all = NEW_ARRAY(schedule->arena, TileAccess, action->n_accesses + 1);
    for (int i = 0; i < action->n_accesses; i++) all[i] = action->accesses[i];
    all[action->n_accesses++] = access;
    action->accesses = all;
}
