// SPDX-License-Identifier: MIT
// code.c - kernels and operators from code that was compiled ahead of time and linked in.
#include "kiln/code.h"
#include "runtime/build.h"
#include "base/memory.h"

static kiln_status check_target(const kiln_device *device, const LaunchPlan *plan, const kiln_code *code)
{
    const bool cuda = strcmp(plan->target, "cuda") == 0;
    if (cuda == device_is_cpu(device))
        return status_fail(KILN_BAD_DEVICE, "%s: compiled for %s, but the device is %s", plan->name, plan->target,
                           device->name);
    if (cuda ? !code->cubin : !code->entry)
        return status_fail(KILN_UNSUPPORTED, "%s: the generated file holds no code for %s", plan->name, plan->target);
    if (cuda && (device->arch < plan->arch || (plan->arch == 90 && device->arch != 90)))
        return status_fail(KILN_UNSUPPORTED, "%s: compiled for sm_%d, but %s is sm_%d", plan->name, plan->arch,
                           device->name, device->arch);
    return KILN_OK;
}

static kiln_status fill_kernel(kiln_kernel *kernel, const kiln_code *code)
{
    if (setjmp(kernel->arena->out_of_memory) != 0)
        return status_fail(KILN_OUT_OF_MEMORY, "out of memory for a kernel");
    kernel->plan = plan_read(kernel->arena, (const char *)code->plan, code->plan_bytes);
    if (!kernel->plan)
        return status_fail(KILN_UNSUPPORTED, "the generated code is damaged or made by another version of Kiln");
    const kiln_status status = check_target(kernel->device, kernel->plan, code);
    if (status || code->entry) {
        kernel->entry = code->entry;
        return status;
    }
    kernel->arch = kernel->plan->arch;
    kernel->n_cubin = code->cubin_bytes;
    kernel->cubin = memory_alloc(code->cubin_bytes);
    if (!kernel->cubin)
        return status_fail(KILN_OUT_OF_MEMORY, "out of memory for a kernel");
    memcpy(kernel->cubin, code->cubin, code->cubin_bytes);
    return cuda_load(kernel);
}

kiln_status kiln_kernel_from_code(kiln_device *device, const kiln_code *code, kiln_kernel **kernel)
{
    if (!device || !code || !code->plan || !kernel)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_kernel_from_code: '%s' is null", !device ? "device" : !kernel ? "kernel"
                           : "code");
    kiln_kernel *const made = kernel_new(device);
    if (!made)
        return status_fail(KILN_OUT_OF_MEMORY, "out of memory for a kernel");
    const kiln_status status = fill_kernel(made, code);
    if (status)
        kiln_kernel_free(made);
    else
        *kernel = made;
    return status;
}

// ---- operators

static kiln_status take_step_kernel(Reader *r, kiln_device *device, int step, kiln_kernel **kernel, const void *context)
{
    const kiln_operator_code *const code = context;
    (void)r;
    return step < code->n_kernels ? kiln_kernel_from_code(device, code->kernels[step], kernel) : KILN_NOT_FOUND;
}

static kiln_status fill_operator(kiln_kernel *kernel, const kiln_operator_code *code)
{
    Reader reader = { (const char *)code->steps, (const char *)code->steps + code->steps_bytes, false };
    if (setjmp(kernel->arena->out_of_memory) != 0)
        return status_fail(KILN_OUT_OF_MEMORY, "out of memory for an operator");
    kernel->plan = plan_read(kernel->arena, (const char *)code->plan, code->plan_bytes);
    const kiln_status status = kernel->plan ? steps_read(&reader, kernel, take_step_kernel, code) : KILN_NOT_FOUND;
    return status == KILN_NOT_FOUND
               ? status_fail(KILN_UNSUPPORTED, "the generated code is damaged or made by another version of Kiln")
               : status;
}

kiln_status kiln_operator_from_code(kiln_device *device, const kiln_operator_code *code, kiln_kernel **kernel)
{
    if (!device || !code || !code->plan || !code->steps || !kernel)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_operator_from_code: '%s' is null", !device ? "device" : !kernel ? "kernel"
                           : "code");
    kiln_kernel *const made = kernel_new(device);
    if (!made)
        return status_fail(KILN_OUT_OF_MEMORY, "out of memory for an operator");
    const kiln_status status = fill_operator(made, code);
    if (status)
        kiln_kernel_free(made);
    else
        *kernel = made;
    return status;
}
