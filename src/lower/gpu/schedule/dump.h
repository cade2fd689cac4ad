// SPDX-License-Identifier: MIT
// dump.h - a schedule as text.
#ifndef KILN_LOWER_GPU_SCHEDULE_DUMP_H
#define KILN_LOWER_GPU_SCHEDULE_DUMP_H

#include "base/text.h"
#include "lower/gpu/schedule/schedule.h"

// The schedule as text, for people who know the machine and not Kiln: `kiln dump --stage=schedule`.
void schedule_dump(const Schedule *schedule, Text *text);
// One line of it, without its end.
void schedule_dump_action(const Schedule *schedule, const Action *action, Text *text);
// "k"; of the second ring of that name "k (2)".
const char *schedule_ring_name(Arena *arena, const Schedule *schedule, int ring);
const char *action_name(ActionKind kind); // "mma.issue"

#endif
