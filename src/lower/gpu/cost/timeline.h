// SPDX-License-Identifier: MIT
// timeline.h - a schedule simulated for its first steps: when each warp group does what, and what it waits for.
//
// Each warp group has a clock. Whoever is earliest does its next action, which takes as long as the cost model says
// (cost.h); a wait ends when the arrivals that its barrier counts have come. Products of all groups share the tensor cores,
// fetches share the way from L2, one after another. So the order of events is the schedule's own, by the same barriers as on
// the machine, and the lengths are the model's: this is an estimate, and nothing of it was measured.
//
// One instance is simulated. Of a loop with others inside two steps are, of an innermost one six, or all if it has fewer; of a
// condition that is not known the arm is that copies, multiplies and synchronises more.
#ifndef KILN_LOWER_GPU_COST_TIMELINE_H
#define KILN_LOWER_GPU_COST_TIMELINE_H

#include "lower/gpu/cost/cost.h"

typedef enum TimelineKind {
    TIMELINE_COMPUTE, // elementwise work, stores, scalars
    TIMELINE_PRODUCT, // on tensor cores, or issuing it
    TIMELINE_COPY,    // from global to shared memory, or issuing it
    TIMELINE_WAIT,    // for a barrier, for products or for copies in flight
    TIMELINE_HELD,    // of a slot of a ring: its contents are there and not yet released
    TIMELINE_KINDS
} TimelineKind;

typedef struct TimelineSpan {
    const char *lane; // "producer", "consumers, group 0", "tensor cores", "ring k, slot 1"
    const char *what; // as `kiln dump --stage=schedule` says it
    TimelineKind kind;
    int step;          // of the innermost loop around; -1: outside of loops
    Span span;         // of the source, if there is one
    double begin, end; // cycles
} TimelineSpan;

typedef struct Timeline {
    VEC(TimelineSpan) spans; // a lane's in the order of their begins
    double end;              // cycles
    const char *stopped;     // why it ends early; NULL: it does not
} Timeline;

// Never NULL; of a schedule without roles it is empty. All of it is the arena's.
const Timeline *timeline_of(Arena *arena, const Schedule *schedule, const GpuMachine *machine);

// ---- timeline_steps.c: what a warp group does, as a list
typedef struct TimelineStep {
    const Action *action;
    int step;     // of the innermost loop; -1: none
    bool is_next; // within SCOPE_NEXT_STEP: slots are one further
    int threads;  // that take part
} TimelineStep;
typedef VEC(TimelineStep) TimelineSteps;
void timeline_steps(Arena *arena, const ScheduleRole *role, int group, TimelineSteps *steps);

#endif
