// SPDX-License-Identifier: MIT
// work.h - how much an action uses of each unit of a multiprocessor, each time the threads of its role come to it.
//
// The amounts are those of all threads of the role together, in the unit's own terms, so that they hold for every machine of
// the architecture; rates are the machine's (target/gpu/machine.h). What is *needed* is what any code must use for the same
// result: without padding and repetition, without conflicts, and by the unit that is made for it.
#ifndef KILN_LOWER_GPU_SCHEDULE_WORK_H
#define KILN_LOWER_GPU_SCHEDULE_WORK_H

#include "ir/tile.h"

typedef enum Unit {
    UNIT_TENSOR,  // multiply-adds of 16-bit elements: of bytes they count half, of tf32 twice
    UNIT_SPECIAL, // results of exp2, log2, rsqrt, sin and the like
    UNIT_ISSUE,   // instructions of a warp
    UNIT_SHARED,  // passes of 128 bytes through the banks of shared memory
    UNIT_MEMORY,  // bytes between the multiprocessor and the L2 cache, whole sectors
    UNITS
} Unit;

// Of a tensor: what caches do not keep is moved once for each time.
typedef struct Traffic {
    const Buffer *tensor;
    double bytes;
    bool writes;
} Traffic;

enum { TRAFFIC_MAX = 8 };

typedef struct ActionWork {
    double used[UNITS], needed[UNITS];
    // what a thread waits for, one after the other: elements of tensors, exchanges between lanes, barriers, plain cycles
    double loads, shuffles, barriers, cycles;
    double branches;           // elements of a thread with a branch of their own, around what is loaded from memory
    int conflicts;             // the most lanes that meet at one bank; 1: none
    const Buffer *conflicting; // the tile in which they do
    double sectors; // bytes moved over bytes wanted, of the access to a tensor that wastes most; 1: nothing is wasted
    double idle;    // threads over those that have iterations at all; 1: all have
    double alone;   // elements of a slice that a thread copies by itself, one after the other; 0: none
    double repeats; // iterations of all threads over iterations of the statement; 1: nobody repeats another's
    Traffic traffic[TRAFFIC_MAX];
    int n_traffic;
} ActionWork;

#endif
