// SPDX-License-Identifier: MIT
// machine.c - the machines that the cost model knows, the usual one of each target first.
#include "target/gpu/machine.h"

#include <string.h>

// clang-format off
static const GpuMachine machines[] = {
    { .gpu = &gpu_sm_90a, .name = "H200", .multiprocessors = 132, .hertz = 1.60e9,
      .tensor = 2048, .special = 16, .issue = 4, .shared = 1, .memory = 51, .l2_bytes = 60e6, .bytes = 4.27e12, .launch = 4.5e-6,
      .independent = 1.7, .instruction = 2.8, .load = 700, .barrier = 30, .shuffle = 25,
      .branch = 100, .begin = 1500,
      .start = 500, .warps = 64, .ctas = 32 },
    { .gpu = &gpu_sm_90a, .name = "H100", .multiprocessors = 132, .hertz = 1.60e9,
      .tensor = 2048, .special = 16, .issue = 4, .shared = 1, .memory = 51, .l2_bytes = 50e6, .bytes = 2.95e12, .launch = 4.5e-6,
      .independent = 1.7, .instruction = 2.8, .load = 700, .barrier = 30, .shuffle = 25,
      .branch = 100, .begin = 1500,
      .start = 500, .warps = 64, .ctas = 32 },
    { .gpu = &gpu_sm_80, .name = "A100", .multiprocessors = 108, .hertz = 1.41e9,
      .tensor = 1024, .special = 16, .issue = 4, .shared = 1, .memory = 45, .l2_bytes = 40e6, .bytes = 1.55e12, .launch = 4.5e-6,
      .independent = 1.7, .instruction = 2.8, .load = 600, .barrier = 30, .shuffle = 25,
      .branch = 100, .begin = 1000,
      .start = 500, .warps = 64, .ctas = 32 },
};
// clang-format on

const GpuMachine *gpu_machine(const GpuTarget *gpu, const char *text)
{
    const GpuMachine *usual = NULL;
    for (int i = 0; i < COUNT(machines); i++) {
        if (machines[i].gpu != gpu) continue;
        if (text && strstr(text, machines[i].name)) return &machines[i];
        if (!usual) usual = &machines[i];
    }
    return usual;
}
