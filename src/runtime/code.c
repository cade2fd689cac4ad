// SPDX-License-Identifier: MIT
// code.c - kernels and operators from code that was compiled ahead of time and linked in.
//
// Code comes in forms, the best first; the first one that the device runs is taken. What KILN_ISA names is the most that a
// CPU form may need.
#include "kiln/code.h"
#include "runtime/build.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>

// ---- forms

static bool is_for_cuda(const char *form) { return strncmp(form, "sm_", 3) == 0; }

// Cubins run on the GPUs of their generation, from the one they were made for on; with an 'a' after it on that one alone.
static bool runs_on_gpu(const char *form, int arch)
{
    char *end;
    const int made_for = (int)strtol(form + 3, &end, 10);
    return *end == 'a' ? arch == made_for : arch / 10 == made_for / 10 && arch >= made_for;
}

static bool runs_on(const char *form, const kiln_device *device, const CpuForm *limit)
{
    if (!device_is_cpu(device)) return is_for_cuda(form) && runs_on_gpu(form, device->arch);
    return !is_for_cuda(form) && cpu_form_runs(form, limit);
}

static void list_forms(const kiln_code *code, char *text, size_t bytes)
{
    size_t at = 0;
    for (const kiln_code *c = code; c && at < bytes; c = c->next)
        at += (size_t)snprintf(text + at, bytes - at, "%s%s", at ? ", " : "", c->form);
}

static kiln_status refuse(const kiln_device *device, const kiln_code *code, const char *name, const CpuForm *limit)
{
    const bool cpu = device_is_cpu(device);
    bool any = false;
    char forms[256];
    list_forms(code, forms, sizeof forms);
    for (const kiln_code *c = code; c; c = c->next) any |= is_for_cuda(c->form) != cpu;
    if (!any)
        return status_fail(KILN_BAD_DEVICE, "%s: compiled for %s, but the device is %s", name, forms, device->name);
    if (cpu)
        return status_fail(KILN_UNSUPPORTED, "%s: compiled for %s; the best of this machine is %s", name, forms,
                           limit->name);
    return status_fail(KILN_UNSUPPORTED, "%s: compiled for %s, but %s is sm_%d", name, forms, device->name,
                       device->arch);
}

// ---- one form

static kiln_status take_step_kernel(Reader *r, kiln_device *device, int step, kiln_kernel **kernel, const void *context)
{
    const kiln_code *const code = context;
    (void)r;
    return step < code->n_kernels ? kiln_kernel_from_code(device, code->kernels[step], kernel) : KILN_NOT_FOUND;
}

static kiln_status take_steps(kiln_kernel *kernel, const kiln_code *code)
{
    Reader reader = { (const char *)code->steps, (const char *)code->steps + code->steps_bytes, false };
    return steps_read(&reader, kernel, take_step_kernel, code);
}

static kiln_status take_cubin(kiln_kernel *kernel, const kiln_code *code)
{
    kernel->arch = kernel->plan->arch;
    kernel->cubin = memory_alloc(code->cubin_bytes);
    if (!kernel->cubin) return status_fail(KILN_OUT_OF_MEMORY, "out of memory for a kernel");
    memcpy(kernel->cubin, code->cubin, code->cubin_bytes);
    return cuda_load(kernel);
}

static kiln_status take_code(kiln_kernel *kernel, const kiln_code *code)
{
    if (code->steps) return take_steps(kernel, code);
    if (code->cubin) return take_cubin(kernel, code);
    kernel->entry = code->entry;
    return code->entry ? KILN_OK : KILN_NOT_FOUND;
}

static kiln_status fill_kernel(kiln_kernel *kernel, const kiln_code *code)
{
    const CpuForm *limit;
    kiln_status status = cpu_form_choose(NULL, &limit);
    if (status && device_is_cpu(kernel->device)) return status;
    if (setjmp(kernel->arena->out_of_memory) != 0) return status_fail(KILN_OUT_OF_MEMORY, "out of memory for a kernel");
    const kiln_code *found = code;
    while (found && !runs_on(found->form, kernel->device, limit)) found = found->next;
    const kiln_code *const read = found ? found : code;
    kernel->plan = plan_read(kernel->arena, (const char *)read->plan, read->plan_bytes);
    if (kernel->plan && !found) return refuse(kernel->device, code, kernel->plan->name, limit);
    status = kernel->plan ? take_code(kernel, read) : KILN_NOT_FOUND;
    return status != KILN_NOT_FOUND
               ? status
               : status_fail(KILN_UNSUPPORTED, "the generated code is damaged or made by another version of Kiln");
}

kiln_status kiln_kernel_from_code(kiln_device *device, const kiln_code *code, kiln_kernel **kernel)
{
    if (!device || !code || !code->form || !code->plan || !kernel)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_kernel_from_code: '%s' is null",
                           !device   ? "device"
                           : !kernel ? "kernel"
                                     : "code");
    kiln_kernel *const made = kernel_new(device);
    if (!made) return status_fail(KILN_OUT_OF_MEMORY, "out of memory for a kernel");
    const kiln_status status = fill_kernel(made, code);
    if (status) kiln_kernel_free(made);
    else *kernel = made;
    return status;
}
