// SPDX-License-Identifier: MIT
// profile.h - what the files of `kiln profile` share: one case, opened, and the ways to look at it.
//
//     profile.c        the command: which case, which way, what is printed
//     profile_trace.c  CUDA: the record of a traced build
//     profile_cpu.c    the CPU: times of each instance
//     profile_ncu.c    CUDA, where Nsight Compute is installed: its counts, by source line (ncu.h, sass_lines.h, counts.h)
#ifndef KILN_TOOLS_PROFILE_H
#define KILN_TOOLS_PROFILE_H

#include "tools/cases.h"
#include "tools/counts.h"
#include "tools/timeline.h"

typedef struct ProfileOptions {
    TargetOptions target;
    const char *ctas, *chrome;
    int64_t steps;
    bool json, compare, once;
    int n_args;
    char **args;
    int argc; // the whole command line, for who runs under ncu
    char **argv;
} ProfileOptions;

typedef struct Profile {
    const ProfileOptions *options;
    Arena *arena;
    ToolRequest request;
    Case *open; // its kernel is built as the way wants it
    Timeline timeline;
    Counts counts; // of ncu
} Profile;

// The kernels that a launch of `kernel` runs, one after another: itself, or an operator's steps.
int kernel_parts(kiln_kernel *kernel);
kiln_kernel *kernel_part(kiln_kernel *kernel, int i);

// Each fills profile->timeline from one launch. -1, or the exit status after a message.
int profile_trace(Profile *profile);
int profile_cpu(Profile *profile);

// Fills profile->counts, if there is ncu and it may; else says why not.
void profile_ncu(Profile *profile);

#endif
