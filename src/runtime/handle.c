// SPDX-License-Identifier: MIT
// handle.c - the kernel behind its handle: made, asked, freed. Whoever builds it fills it in.
#include "runtime/prepared.h"
#include "base/memory.h"

kiln_kernel *kernel_new(kiln_device *device)
{
    kiln_kernel *const kernel = memory_alloc(sizeof *kernel);
    Arena *const arena = kernel ? arena_new() : NULL;
    if (!arena) {
        memory_free(kernel);
        return NULL;
    }
    kernel->arena = arena;
    kernel->device = device;
    device_keep(device);
    pthread_mutex_init(&kernel->lock, NULL);
    return kernel;
}

void kiln_kernel_free(kiln_kernel *kernel)
{
    if (!kernel) return;
    if (kernel->wide) kernel->free_wide(kernel->wide);
    if (kernel->steps) kernel->free_steps(kernel->steps);
    else if (kernel->device) kernel->device->kind->unload(kernel);
    prepared_free(kernel->prepared);
    memory_free(kernel->cubin);
    kiln_device_close(kernel->device);
    pthread_mutex_destroy(&kernel->lock);
    arena_free(kernel->arena);
    memory_free(kernel);
}

const char *kiln_kernel_source(const kiln_kernel *kernel) { return kernel && !kernel->steps ? kernel->source : NULL; }
