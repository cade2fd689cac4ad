// SPDX-License-Identifier: MIT
// timeline.h - what ran when: spans of time of a kernel's warps, or of the CPU's threads, and how they are shown.
//
// `kiln profile` makes one: from the record of a traced kernel (trace_read.c), or from the times of a launch's instances
// (profile_cpu.c). It is shown as a table (timeline_table.c), as a Chrome trace or as JSON (timeline_json.c).
#ifndef KILN_TOOLS_TIMELINE_H
#define KILN_TOOLS_TIMELINE_H

#include "tools/tool.h"

// Of one warp or thread. Spans of one track nest: two of them are apart, or one holds the other.
typedef struct TimeSpan {
    const char *role; // "producer", "consumers"; of a CPU "thread"
    const char
        *kind; // "role", "tile", "step"; waits: "full", "empty", "copies", "stores", "products", "barrier", "cluster";
               // of a CPU "thread" and "instance"
    const char *what;  // "full slot of a b"
    const char *path;  // of the source; NULL: none
    int line;          // from 1; 0: none
    int part;          // of an operator: the kernel
    int cta, warp;     // its track, with the part: of a CPU 0 and the thread's number
    int depth;         // spans of its track that hold it
    double begin, end; // in units, from the timeline's first moment
} TimeSpan;

typedef struct Timeline {
    Arena *arena;
    const char *kernel, *device; // for people
    const char *unit;            // "cycles", "us"
    double unit_seconds;         // 0: not known
    VEC(TimeSpan) spans;         // of one track after another, in the order of their beginnings
    long lost;                   // records that found no room
    int cut;                     // tracks whose later steps were left out, as was asked for
} Timeline;

bool span_is_wait(const TimeSpan *span);

// ---- trace_read.c: the record of a traced kernel

// A copy of the schedule's events, which end with a compilation.
typedef struct TraceName {
    const char *role, *kind, *what, *path;
    int line;
} TraceName;
typedef VEC(TraceName) TraceNames;

typedef struct TraceRecord {
    const uint64_t *words; // TRACE_BYTES, as plan/trace.h lays them out
    TraceNames names;
} TraceRecord;

// Of n kernels of one launch. steps: of each warp, the first so many; 0: all. Adds to `timeline`.
void trace_read(Timeline *timeline, const TraceRecord *records, int n, int64_t steps);

// ---- timeline_table.c
// All spans of a role that say the same.
typedef struct TimeRow {
    const TimeSpan *like;
    double time; // of all of them
    long times;
} TimeRow;

typedef struct TimeRole {
    const char *name;
    int tracks;
    double time;               // of all its tracks
    VEC(TimeRow) waits, steps; // waits: the longest first
} TimeRole;
typedef VEC(TimeRole) TimeRoles;

TimeRoles timeline_roles(const Timeline *timeline);

// For each role: how long its warps wait, for what and at which line, and what is left.
void timeline_print(const Timeline *timeline);
// A line of the source without its indentation and comment, cut to fit; "" if it cannot be read.
const char *source_line_text(Arena *arena, const char *path, int line);

// ---- timeline_json.c
void timeline_print_json(FILE *out, const Timeline *timeline);   // the members of an object
void timeline_print_chrome(FILE *out, const Timeline *timeline); // for Perfetto or chrome://tracing

// ---- timeline_read.c
// What `kiln profile --json` printed, of n bytes. False: it is not that. All text is the arena's.
bool timeline_read(Timeline *timeline, Arena *arena, const char *text, size_t n);

#endif
