// SPDX-License-Identifier: MIT
// counts.h - what the hardware counted of a launch, by line of the source, and how it is shown.
#ifndef KILN_TOOLS_COUNTS_H
#define KILN_TOOLS_COUNTS_H

#include "tools/ncu.h"
#include "tools/sass_lines.h"

#include <stdio.h>

typedef struct CodePlaces {
    const char *symbol; // of the kernel
    SassPlaces places;
} CodePlaces;

typedef struct Counts {
    NcuLaunches launches;
    VEC(CodePlaces) parts; // those whose lines are known
} Counts;

// All instructions of a line.
typedef struct LineCount {
    SassPlace place; // no path: of no line
    double samples, executed, l2_bytes, conflicts;
    VEC(NcuStall) stalls; // the longest first
} LineCount;
typedef VEC(LineCount) LineCounts;

// The lines of a launch, that with the most samples first. None if its instructions are not those whose lines are known.
void counts_of_lines(Arena *arena, const Counts *counts, const NcuLaunch *launch, LineCounts *lines);
LineCount *counts_line(Arena *arena, LineCounts *lines, SassPlace place); // added if there is none yet

// ---- counts_table.c
kiln_status lines_print(const Compiled *compiled,
                        CudaArch arch); // how many instructions each line has; for Target.places
void counts_print(Arena *arena, const Counts *counts);
void counts_print_json(FILE *out, Arena *arena, const Counts *counts); // a list: an object of each launch

#endif
