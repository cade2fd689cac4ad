// SPDX-License-Identifier: MIT
// profile.h - what the files of `kiln profile` share: one case, opened, and the ways to look at it.
//
//     profile.c        the command: which case, which way, what is printed
//     profile_trace.c  CUDA: the record of a traced build
//     profile_cpu.c    the CPU: times of each instance
//     profile_ncu.c    CUDA, where Nsight Compute is installed: its counts, by source line (ncu.h reads them)
#ifndef KILN_TOOLS_PROFILE_H
#define KILN_TOOLS_PROFILE_H

#include "tools/cases.h"
#include "tools/timeline.h"

typedef struct ProfileOptions {
    TargetOptions target;
    const char *ctas, *chrome;
    int64_t steps;
    bool json, compare, child; // child: this process runs under Nsight Compute
    int n_args;
    char **args;
    int argc; // the whole command line, for the child
    char **argv;
} ProfileOptions;

typedef struct Profile {
    const ProfileOptions *options;
    Arena *arena;
    ToolRequest request;
    Case *open; // its kernel is built as the way wants it
    Timeline timeline;
} Profile;

// The kernels that a launch of `kernel` runs, one after another: itself, or an operator's steps.
int kernel_parts(kiln_kernel *kernel);
kiln_kernel *kernel_part(kiln_kernel *kernel, int i);

// Each fills profile->timeline from one launch. -1, or the exit status after a message.
int profile_trace(Profile *profile);
int profile_cpu(Profile *profile);

// Builds the kernel with places in its text, runs this command again under `ncu`, and prints a table of its lines.
int profile_ncu(Profile *profile, const char *ncu);
#endif
