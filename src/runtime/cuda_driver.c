// SPDX-License-Identifier: MIT
// cuda_driver.c - find and open libcuda.
#define _GNU_SOURCE // secure_getenv
#include "runtime/cuda_driver.h"
#include "base/arena.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// cuLaunchKernelEx came with 11.8 and cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col with 12.0; older drivers know no Hopper.
enum { OLDEST_DRIVER = 12000 };

static CudaDriver driver;

static bool find_entries(CudaDriver *d)
{
    // clang-format off
    const struct { const char *name; void *slot; } entries[] = {
        { "cuInit", &d->init }, { "cuDriverGetVersion", &d->driver_version }, { "cuDeviceGetCount", &d->device_count },
        { "cuDeviceGet", &d->device_get }, { "cuDeviceGetName", &d->device_name },
        { "cuDeviceGetAttribute", &d->device_attribute },
        { "cuDevicePrimaryCtxRetain", &d->context_retain }, { "cuDevicePrimaryCtxRelease_v2", &d->context_release },
        { "cuDevicePrimaryCtxReset_v2", &d->context_reset },
        { "cuCtxPushCurrent_v2", &d->context_push }, { "cuCtxPopCurrent_v2", &d->context_pop },
        { "cuMemAlloc_v2", &d->memory_alloc }, { "cuMemFree_v2", &d->memory_free },
        { "cuMemHostAlloc", &d->host_alloc }, { "cuMemFreeHost", &d->host_free },
        { "cuMemcpyHtoD_v2", &d->upload }, { "cuMemcpyDtoH_v2", &d->download },
        { "cuStreamCreate", &d->stream_create }, { "cuStreamDestroy_v2", &d->stream_destroy },
        { "cuStreamSynchronize", &d->stream_wait }, { "cuThreadExchangeStreamCaptureMode", &d->capture_mode },
        { "cuEventCreate", &d->event_create }, { "cuEventDestroy_v2", &d->event_destroy },
        { "cuEventRecord", &d->event_record }, { "cuEventSynchronize", &d->event_wait },
        { "cuEventElapsedTime", &d->event_elapsed },
        { "cuModuleLoadData", &d->module_load }, { "cuModuleUnload", &d->module_unload },
        { "cuModuleGetFunction", &d->module_function },
        { "cuFuncSetAttribute", &d->function_set }, { "cuFuncGetAttribute", &d->function_get },
        { "cuOccupancyMaxActiveBlocksPerMultiprocessor", &d->occupancy },
        { "cuOccupancyMaxActiveClusters", &d->cluster_occupancy },
        { "cuLaunchKernelEx", &d->launch }, { "cuTensorMapEncodeTiled", &d->tensor_map },
        { "cuTensorMapEncodeIm2col", &d->tensor_map_im2col },
        { "cuGetErrorName", &d->error_name }, { "cuGetErrorString", &d->error_text },
    };
    // clang-format on
    const char *missing = NULL;
    for (int i = 0; i < COUNT(entries); i++) {
        void *const found = dlsym(d->library, entries[i].name);
        memcpy(entries[i].slot, &found, sizeof found);
        if (!found && !missing) missing = entries[i].name;
    }
    if (missing)
        snprintf(d->problem, sizeof d->problem, "the CUDA driver is too old: it has no %s; 12.0 or later is needed",
                 missing);
    return !missing;
}

static void open_driver(void)
{
    CudaDriver *const d = &driver;
    const char *const given = secure_getenv("KILN_CUDA");
    d->library = dlopen(given && *given ? given : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!d->library) {
        if (given && *given)
            snprintf(d->problem, sizeof d->problem,
                     "no CUDA driver: KILN_CUDA is '%.80s', which cannot be opened (%.100s)", given, dlerror());
        else
            snprintf(d->problem, sizeof d->problem, "no CUDA driver: libcuda.so.1 cannot be opened (%.150s)",
                     dlerror());
        return;
    }
    if (!find_entries(d)) return;
    const char *name = "unknown";
    const int error = d->init(0);
    if (error == CU_NO_DEVICE) snprintf(d->problem, sizeof d->problem, "the CUDA driver finds no GPU");
    else if (error)
        snprintf(d->problem, sizeof d->problem, "the CUDA driver does not start: %s",
                 d->error_name(error, &name) == 0 ? name : "unknown error");
    else if (d->driver_version(&d->version) != 0 || d->version < OLDEST_DRIVER)
        snprintf(d->problem, sizeof d->problem, "the CUDA driver is too old: it is %d.%d, 12.0 or later is needed",
                 d->version / 1000, d->version % 1000 / 10);
}

static void open_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_driver);
}

const CudaDriver *cuda_driver(void)
{
    open_once();
    return driver.problem[0] ? NULL : &driver;
}

const char *cuda_driver_problem(void)
{
    open_once();
    return driver.problem;
}
