// SPDX-License-Identifier: MIT
// gpu.c - the GPUs that there is code for, the best first, and questions about them.
#include "target/gpu/gpu.h"

#include <stdio.h>

static const DType tensor_core_types[] = { DTYPE_BF16, DTYPE_F16, DTYPE_TF32, DTYPE_E4M3,
                                           DTYPE_E5M2, DTYPE_I8,  DTYPE_U8,   DTYPE_NONE };

// Where a GPU has no fp8, its prelude widens to f16 (tensor_core.cuh): the shapes are the same.
// clang-format off
static const MmaShape hopper_mma[] = {
    { .kind = MMA_WARP_GROUP, .m = 64, .n = 8, .n_max = 256, .k_bytes = 32, .in_flight = true, .types = tensor_core_types },
    { .kind = MMA_WARP,       .m = 16, .n = 8, .n_max = 8,   .k_bytes = 32, .types = tensor_core_types },
    { .m = 0 },
};
// clang-format on

const GpuTarget gpu_sm_90a = {
    .arch = 90,
    .name = "sm_90a",
    .title = "Hopper",
    .exact = true,
    .warp_lanes = 32,
    .registers = 65536,
    .thread_registers = 255,
    .shared_bytes_max = 227 * 1024,
    .mma = hopper_mma,
    .cp_async = true,
    .tma = true,
    .mbarriers = true,
    .async_proxy = true,
    .converts_fp8 = true,
    .stmatrix = true,
    .clusters = true,
    .setmaxnreg = true,
    .early_launch = true,
};

const GpuTarget gpu_sm_80 = {
    .arch = 80,
    .name = "sm_80",
    .title = "Ampere and later",
    .warp_lanes = 32,
    .registers = 65536,
    .thread_registers = 255,
    .shared_bytes_max = 163 * 1024,
    .mma = hopper_mma + 1,
    .cp_async = true,
};

static const GpuTarget *const gpus[] = { &gpu_sm_90a, &gpu_sm_80 };

const GpuTarget *gpu_find(int arch)
{
    for (int i = 0; i < COUNT(gpus); i++)
        if (gpus[i]->arch == arch) return gpus[i];
    return NULL;
}

bool gpu_code_runs(const GpuTarget *gpu, int device_arch)
{
    return gpu->exact ? device_arch == gpu->arch : device_arch >= gpu->arch;
}

const GpuTarget *gpu_for_device(int device_arch)
{
    int i = 0;
    while (i < COUNT(gpus) - 1 && !gpu_code_runs(gpus[i], device_arch)) i++;
    return gpus[i];
}

const char *gpu_list(char *text, size_t bytes)
{
    size_t at = 0;
    for (int i = 0; i < COUNT(gpus) && at < bytes; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s%d (%s)",
                               i == 0                 ? ""
                               : i == COUNT(gpus) - 1 ? " or "
                                                      : ", ",
                               gpus[i]->arch, gpus[i]->title);
    return text;
}

const MmaShape *gpu_mma(const GpuTarget *gpu, MmaKind kind)
{
    for (const MmaShape *mma = gpu->mma; mma->m; mma++)
        if (mma->kind == kind) return mma;
    return NULL;
}

bool gpu_has_mma_in_flight(const GpuTarget *gpu)
{
    for (const MmaShape *mma = gpu->mma; mma->m; mma++)
        if (mma->in_flight) return true;
    return false;
}

int mma_step(const MmaShape *mma, DType type)
{
    for (const DType *one = mma->types; *one != DTYPE_NONE; one++)
        if (*one == type) return mma->k_bytes * 8 / dtype_bits(type);
    return 0;
}
