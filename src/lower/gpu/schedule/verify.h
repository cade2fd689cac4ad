// SPDX-License-Identifier: MIT
// verify.h - the verifier of schedules: what it can find, and the one function that finds it.
#ifndef KILN_LOWER_GPU_SCHEDULE_VERIFY_H
#define KILN_LOWER_GPU_SCHEDULE_VERIFY_H

#include "lower/gpu/schedule/schedule.h"

typedef enum ScheduleFaultKind {
    FAULT_NONE,
    FAULT_NOT_VISIBLE, // 1. a tile is read that no wait or barrier has made visible to the role
    FAULT_RING,        // 2. a slot filled too early, released twice or never; counts; trip counts
    FAULT_PROXY,       // 3. threads' stores read by the async proxy without a fence, or the reverse
    FAULT_IN_FLIGHT,   // 4. operands or accumulators of an MMA in flight are accessed
    FAULT_MEMORY,      // 5. tiles alive at once overlap; shared memory or registers exceed the device's
    FAULT_BARRIER,     // 6. a named barrier used by two phases that can overlap, or by part of a warp
    FAULT_DEADLOCK,    // 7. a wait whose arrival depends on that wait
} ScheduleFaultKind;

typedef struct ScheduleFault {
    ScheduleFaultKind kind;
    Span span;
    const char *message; // names the tile, ring or barrier, the role, and what was expected
} ScheduleFault;

// The first fault, or FAULT_NONE. Runs the roles against each other with few steps of every loop and both arms of every
// condition; never changes the schedule.
ScheduleFault schedule_verify(const Schedule *schedule);

#endif
