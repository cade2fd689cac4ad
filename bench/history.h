// SPDX-License-Identifier: MIT
// history.h - runs of `kiln bench` as they were saved (--save), and which of them can be compared.
#ifndef KILN_BENCH_HISTORY_H
#define KILN_BENCH_HISTORY_H

#include "tools/tool.h"

#include <time.h>

// A row as it was saved. Numbers that it lacks are NAN; seconds, work in a second, operations and bytes.
typedef struct SavedRow {
    const char *name, *kernel, *values;
    const char *baseline, *verdict, *target_text; // "" if it has none
    const char *problem;                          // NULL: it was timed
    double median, fastest, slowest, baseline_median, baseline_fastest;
    double floor, rate, ceiling, ratio, host, host_target, spill_bytes;
    bool by_memory; // rate and ceiling are bytes
} SavedRow;

typedef struct SavedRun {
    const char *path, *device, *date, *version; // date: "2026-11-27 18:04", UTC
    double copy_rate;                           // bytes in a second; 0: not measured
    bool interrupted;
    VEC(SavedRow) rows;
} SavedRun;

typedef VEC(SavedRun) SavedRuns;

// The JSON of a run, or of several parts of one, each on a line (bench/gpu.sh). False: it is neither. `date` where the text has none; strings are the arena's.
bool saved_run_parse(Arena *arena, const char *path, const char *text, size_t n, const char *date, SavedRun *run);
// Files, or folders of .json files, with commas between them; the oldest first. What is no run is named on standard error, if it
// was named itself. False: a file or folder cannot be read, which was printed.
bool saved_runs_read(Arena *arena, const char *list, SavedRuns *runs);
void saved_runs_keep_earlier(SavedRuns *runs, const SavedRun *run); // those that began before it
const char *saved_date(Arena *arena, time_t when);
const SavedRow *saved_row_find(const SavedRun *run,
                               const SavedRow *like); // the same name and values; NULL: it has none, timed

// From one time to another of the same row.
typedef struct Change {
    double speed;   // 1.1: it has become faster by a tenth
    bool is_marked; // by CHANGE_MARKED or more, and each median is outside of the other's times
} Change;
#define CHANGE_MARKED 0.02
Change saved_change(const SavedRow *before, const SavedRow *after);

// ---- page.c
// One self-contained page: the run beside its baselines and ceilings, and beside the earlier runs on the same device. False: out
// of memory, which was printed.
bool bench_page_write(FILE *out, const SavedRun *run, const SavedRuns *history);

#endif
