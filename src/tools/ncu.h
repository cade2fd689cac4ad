// SPDX-License-Identifier: MIT
// ncu.h - what Nsight Compute's command says, read: CSV of its pages "raw" and "source" (--print-source sass).
//
// Columns are found by their names, which differ between versions in which of them there are: one that is missing is no error.
#ifndef KILN_TOOLS_NCU_H
#define KILN_TOOLS_NCU_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct NcuMetric {
    const char *name;
    double value; // in base units: bytes, nanoseconds, percent
} NcuMetric;

// What a warp that was sampled waited for.
typedef struct NcuStall {
    const char *name; // "long_sb"
    double samples;
} NcuStall;

typedef struct NcuInstruction {
    const char *sass;
    double samples, executed; // executed: by warps
    double l2_bytes;          // that loads and stores of lanes ask of the L2 cache
    double conflicts;         // passes through shared memory beyond those that its bytes need
    VEC(NcuStall) stalls;     // those with samples
} NcuInstruction;

// One launch of a kernel.
typedef struct NcuLaunch {
    const char *kernel;
    VEC(NcuMetric) metrics;
    VEC(NcuInstruction) code; // in the order of addresses
} NcuLaunch;
typedef VEC(NcuLaunch) NcuLaunches;

// Adds a launch for each row of a page "raw". Lines that are no CSV are passed over. False: there is no table.
bool ncu_read_raw(Arena *arena, const char *text, size_t n, NcuLaunches *launches);
// Adds the code of a page "source": each table to the next launch of that name that has none.
bool ncu_read_source(Arena *arena, const char *text, size_t n, NcuLaunches *launches);
double ncu_metric(const NcuLaunch *launch, const char *name); // NAN: it has none

#endif
