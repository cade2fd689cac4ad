// SPDX-License-Identifier: MIT
// target.c - the targets: what each takes of passes, lowerings, dialects and toolchains.
//
// Every name in the tables of passes is a stage of `kiln dump`.
#include "target/target.h"
#include "emit/emit.h"
#include "lower/cpu/lower.h"
#include "lower/gpu/lower.h"
#include "passes/passes.h"
#include "toolchain/toolchain.h"

// clang-format off
static const Pass cpu_passes[] = {
    { "simplify",        simplify },
    { "lift-branches",   lift_branches },
    { "join-indices",    join_indices },
    { "open-views",      open_views },
    { "whole-slices",    whole_slices },
    { "make-copies",     make_copies },
    { "forward-copies",  forward_copies },
    { "sink-tiles",      sink_tiles },
    { "split-bounds",    split_bounds },
    { "split-quotients", split_quotients },
    { "widen-sums",      widen_sums },
    { "trace-foralls",   trace_foralls },
    { NULL, NULL },
};

static const Pass sequential_passes[] = {
    { "make-tasks", sequential_make_tasks },
    { NULL, NULL },
};

static const Pass cuda_passes[] = {
    { "simplify",        simplify },
    { "lift-branches",   lift_branches },
    { "scalar-loops",    scalar_loops },
    { "forward-indices", forward_indices },
    { "join-indices",    join_indices },
    { "open-views",      open_views },
    { "whole-slices",    whole_slices },
    { "make-copies",     make_copies },
    { "forward-copies",  forward_copies },
    { "sink-tiles",      sink_tiles },
    { "pack-tiles",      pack_tiles },
    { "halve-steps",     halve_steps },
    { "split-groups",    split_groups },
    { "index-constants", index_constants },
    { "cover-fragments", cover_fragments },
    { "split-bounds",    split_bounds },
    { "hoist-choices",   hoist_choices },
    { NULL, NULL },
};

const TargetKind target_cpu        = { "cpu",  "CPU",  cpu_passes,        lower_cpu,        &dialect_c,    &toolchain_cc };
const TargetKind target_sequential = { "cpu",  "CPU",  sequential_passes, lower_sequential, &dialect_c,    &toolchain_cc };
const TargetKind target_cuda       = { "cuda", "CUDA", cuda_passes,       lower_gpu,        &dialect_cuda, &toolchain_nvrtc };
// clang-format on

static const TargetKind *const kinds[] = { &target_cpu, &target_cuda };

const TargetKind *target_find(const char *name)
{
    for (int i = 0; i < COUNT(kinds); i++)
        if (strcmp(kinds[i]->name, name) == 0) return kinds[i];
    return NULL;
}

int target_arch(const Target *target) { return target->gpu ? target->gpu->arch : 0; }
