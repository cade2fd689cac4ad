// SPDX-License-Identifier: MIT
// build.h - making a schedule: its tables, then its roles one after another, each from its first action to its last.
//
// Tiles and rings are added before the actions that name them. Every body that is opened is closed before its role ends.
#ifndef KILN_LOWER_GPU_SCHEDULE_BUILD_H
#define KILN_LOWER_GPU_SCHEDULE_BUILD_H

#include "lower/gpu/schedule/schedule.h"

Schedule *schedule_new(Arena *arena, const char *kernel, const char *target);
int schedule_add_tile(Schedule *schedule, ScheduleTile tile); // returns its number
int schedule_add_ring(Schedule *schedule, ScheduleRing ring);

// Where actions are added: the end of a role's body, or of the innermost open action's.
typedef struct OpenAction {
    Action *action; // NULL: the role itself
    Action **end;   // where the next one goes
} OpenAction;

typedef struct ScheduleBuilder {
    Schedule *schedule;
    ScheduleRole *role;
    VEC(OpenAction) open; // the innermost last
} ScheduleBuilder;

void schedule_begin_role(ScheduleBuilder *builder, ScheduleRole role);
void schedule_end_role(ScheduleBuilder *builder);
Action *schedule_add(ScheduleBuilder *builder, Action action);  // one without a body
Action *schedule_open(ScheduleBuilder *builder, Action action); // what follows is its body,
void schedule_otherwise(ScheduleBuilder *builder);              // from here on the other arm of an ACTION_IF,
void schedule_close(ScheduleBuilder *builder);                  // up to here
void schedule_access(Schedule *schedule, Action *action, TileAccess access);

#endif
