// SPDX-License-Identifier: MIT
// cliffs.h - what the files of `kiln bench --cliffs` share: kernels, and the variants of them that mean the same.
//
//     cliffs.c         the command: variants made, built, checked, timed
//     cliffs_rows.c    the kernels
//     cliffs_report.c  what a variant's code lacks, and the tables
#ifndef KILN_CLIFFS_H
#define KILN_CLIFFS_H

#include "bench.h"
#include "rewrite.h"

typedef struct CliffRow {
    const char *name, *file;
    const char *kernel, *cpu_kernel; // what is rewritten; cpu_kernel NULL: the same on the CPU
    const char *run;                 // what is launched: the kernel, or an operator that calls it
    const char *build, *small;       // values of the case that is checked
    const char *large;               // launch values that are timed
    const char *inputs;              // statements of the check
    const char *constants;           // the kernel's build values, where it is not what is launched; else NULL
} CliffRow;
const CliffRow *cliff_rows(int *n);

// One way to write a row's kernel.
typedef struct Variant {
    const CliffRow *row;
    int original;     // its row's first variant
    const char *name; // the rewriting; "original"
    const char *what; // where, and what was done
    const char *text; // the whole source, with the check
    kiln_program *program;
    CaseBuild build;
    const CheckCase *small, *large;
    kiln_kernel *plain;               // plan and source alone
    bool same_code;                   // as the original's
    const char *wrong;                // what was wrong with its results; NULL
    double seconds, original_seconds; // 0: not timed
} Variant;
typedef VEC(Variant) Variants;

typedef struct CliffOptions {
    const char *kernels, *device, *keep, *only;
    bool check_only, compile_only, verbose, list;
    int64_t arch, seed, sites, few, limit, depth;
    int n_args;
    char **args;
} CliffOptions;

// What the code of a variant has otherwise than the original's, in words; "" if it has nothing worse.
const char *compare_code(Arena *arena, const Variant *original, const Variant *variant);
bool has_same_source(Arena *arena, const kiln_kernel *a, const kiln_kernel *b);                     // but for names
void report_row(Arena *arena, const CliffOptions *options, const Variants *variants, int original); // once it is timed
int report_variants(Arena *arena, const CliffOptions *options, Variants *variants);                 // the exit status

int bench_cliffs(Arena *arena, CliffOptions *options);

#endif
