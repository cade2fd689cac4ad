// SPDX-License-Identifier: MIT
// trace.c - the memory that a traced kernel writes its record into; each launch binds it.
#include "runtime/runtime.h"
#include "base/memory.h"
#include "plan/trace.h"

kiln_status trace_choose(kiln_kernel *kernel, const unsigned *ctas, int n)
{
    const DeviceKind *const kind = kernel->device->kind;
    uint64_t *const words = memory_alloc(TRACE_BYTES); // zeros
    if (!words) return status_fail(KILN_OUT_OF_MEMORY, "out of memory for a trace");
    kiln_status status = KILN_OK;
    for (int i = 0; i < n && i < TRACE_CTAS; i++) words[i] = (uint64_t)ctas[i] + 1;
    if (!kernel->trace) status = kind->alloc(kernel->device, TRACE_BYTES, &kernel->trace);
    if (!status) status = kind->upload(kernel->device, kernel->trace, words, TRACE_BYTES);
    memory_free(words);
    return status;
}

kiln_status trace_download(kiln_kernel *kernel, uint64_t *words)
{
    return kernel->device->kind->download(kernel->device, words, kernel->trace, TRACE_BYTES);
}
