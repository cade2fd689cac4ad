// SPDX-License-Identifier: MIT
// tuned.h - the file of `kiln tune`: for kernels, targets and shapes the build values that were the fastest.
//
// One row a line, fields apart by tabs; lines that begin with '#' are comments:
//
//     kernel  target  given     launch                   tuned            seconds  seconds by default  device
//     gemm    sm_90   T=bf16    M=4096, N=4096, K=4096   BM=128, BN=256   1.92e-4  2.05e-4             NVIDIA H200
#ifndef KILN_RUNTIME_TUNED_H
#define KILN_RUNTIME_TUNED_H

#include "runtime/build.h"

typedef struct TunedRow {
    const char *kernel, *target, *given, *launch, *tuned; // given, launch, tuned: "NAME=VALUE, NAME=VALUE"
    double seconds, by_default;
    const char *device; // described, for people
} TunedRow;

const char *tuned_target(const Target *target); // "cpu" or "sm_90"; static
// Puts a row in the place of one of the same kernel, target, given and launch values, or after the last. The file is
// replaced as a whole.
kiln_status tuned_write(const char *path, const TunedRow *row);
// Adds tuned values to a request's bindings where these do not name them: of the rows of its kernel and target whose given
// values are its own that are not defaults, those of the one whose launch values are nearest to `launch` (NULL: the first). `path`
// NULL: nothing. The new bindings are the arena's.
kiln_status tuned_apply(Arena *arena, BuildRequest *request, const char *path, const char *launch);
#endif
