// SPDX-License-Identifier: MIT
// operator.c - kernels in sequence, with temporaries in a workspace that the caller provides.
#include "runtime/build.h"
#include "runtime/prepared.h"

#include <inttypes.h>

enum { TEMP_ALIGNMENT = WORKSPACE_ALIGNMENT };

// ---- temporaries

static kiln_status make_temp(const Launch *launch, const Temp *temp, kiln_device *device, kiln_tensor *tensor)
{
    *tensor = (kiln_tensor){ .type = type_of_dtype(temp->type), .rank = temp->rank, .device = device };
    for (int d = 0; d < temp->rank; d++) {
        int64_t extent;
        const kiln_status status = launch_eval(launch, temp->shape[d], &extent, "dimension %d of a temporary", d);
        if (status) return status;
        tensor->shape[d] = extent < 0 ? 0 : extent;
    }
    if (tensor_elements(tensor) < 0)
        return status_fail(KILN_BAD_SHAPE, "%s: a temporary has more elements than memory can hold",
                           launch->plan->name);
    return KILN_OK;
}

// The temporaries, laid one after another from `base`; `bytes` is what they take together.
static kiln_status place_temps(const Steps *steps, const Launch *launch, kiln_device *device, char *base,
                               kiln_tensor *tensors, size_t *bytes)
{
    kiln_status status = KILN_OK;
    *bytes = 0;
    for (int i = 0; !status && i < steps->n_temps; i++) {
        status = make_temp(launch, &steps->temps[i], device, &tensors[i]);
        tensors[i].data = base ? base + *bytes : NULL;
        *bytes += (kiln_tensor_bytes(&tensors[i]) + TEMP_ALIGNMENT - 1) & ~(size_t)(TEMP_ALIGNMENT - 1);
    }
    return status;
}

static void keep_size(kiln_kernel *kernel, const kiln_arg *args, int n_args, size_t bytes, const Launch *launch)
{
    Recording r;
    recording_of_args(&r, launch, n_args);
    r.bytes = bytes;
    prepared_keep(kernel, &r, args, n_args, false);
}

kiln_status kiln_workspace_size(kiln_kernel *kernel, const kiln_arg *args, int n_args, size_t *bytes)
{
    Launch launch;
    kiln_tensor temps[MAX_TEMPS];
    if (!kernel || !bytes)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_workspace_size: '%s' is null", kernel ? "bytes" : "kernel");
    if (prepared_size(kernel, args, n_args, bytes)) return KILN_OK;
    *bytes = 0;
    kiln_status status = launch_prepare(&launch, kernel->plan, kernel->device, args, n_args);
    if (status && launch.needs_other && kernel->widen)
        return KILN_OK; // a kernel, which needs none; its launch builds it for these shapes
    if (status || !kernel->steps) return status;
    status = place_temps(kernel->steps, &launch, kernel->device, NULL, temps, bytes);
    if (!status) keep_size(kernel, args, n_args, *bytes, &launch);
    return status;
}

// ---- steps

static kiln_status make_scalar(const StepArg *arg, const Launch *launch, int i, kiln_arg *made)
{
    int64_t value;
    double real;
    const kiln_status status = launch_eval(launch, arg->scalar, &value, "argument %d of a step", i + 1);
    memcpy(&real, &value, sizeof real);
    *made = arg->is_float ? KILN_FLOAT(real) : KILN_INT(value);
    return status;
}

static kiln_status make_arg(const StepArg *arg, const Launch *launch, const kiln_tensor *temps, int i, kiln_arg *made)
{
    if (!arg->none && arg->param < 0 && arg->temp < 0) return make_scalar(arg, launch, i, made);
    *made = arg->none ? KILN_NONE : arg->param >= 0 ? launch->args[arg->param] : KILN_TENSOR(&temps[arg->temp]);
    return KILN_OK;
}

// One step, checked and laid out. `kernel` NULL: it is not to run.
typedef struct Prepared {
    kiln_kernel *kernel;
    kiln_arg args[PLAN_MAX_PARAMS];
    Launch launch;
} Prepared;

static kiln_status prepare_step(kiln_kernel *owner, int i_step, const Launch *outer, const kiln_tensor *temps,
                                Prepared *p)
{
    const Step *const step = &owner->steps->steps[i_step];
    kiln_kernel *kernel = step->kernel, *wide;
    p->kernel = NULL;
    int64_t runs = 1;
    kiln_status status = KILN_OK;
    if (step->when.length) status = launch_eval(outer, step->when, &runs, "the condition of step %d", i_step + 1);
    if (status || !runs) return status;
    for (int i = 0; !status && i < step->n_args; i++) status = make_arg(&step->args[i], outer, temps, i, &p->args[i]);
    if (status) return status;
    status = launch_prepare(&p->launch, kernel->plan, kernel->device, p->args, step->n_args);
    const uint64_t symbols = p->launch.too_large ? UINT64_MAX : 0;
    if (status && p->launch.needs_other && owner->widen && !(status = owner->widen(owner, symbols, &wide))) {
        kernel = wide->steps->steps[i_step].kernel;
        status = launch_prepare(&p->launch, kernel->plan, kernel->device, p->args, step->n_args);
    }
    if (!status && p->launch.instances) p->kernel = kernel;
    return status;
}

static kiln_status run_steps(kiln_kernel *kernel, kiln_stream *stream, const Launch *launch, void *workspace,
                             size_t bytes, Recording *r)
{
    const Steps *const steps = kernel->steps;
    kiln_tensor temps[MAX_TEMPS];
    size_t needed;
    kiln_status status = place_temps(steps, launch, kernel->device, workspace, temps, &needed);
    if (!status && (bytes < needed || (needed && !workspace)))
        status = status_fail(KILN_BAD_ARGUMENT,
                             "%s: needs a workspace of %zu bytes, %zu given (kiln_workspace_size tells, "
                             "kiln_launch_with takes it)",
                             kernel->plan->name, needed, workspace ? bytes : 0);
    if (!status && needed && (uintptr_t)workspace % TEMP_ALIGNMENT != 0)
        status = status_fail(KILN_BAD_ALIGNMENT, "%s: the workspace (%p) is not aligned to %d bytes",
                             kernel->plan->name, workspace, TEMP_ALIGNMENT);
    if (!status) recording_need(r, workspace, needed);
    const bool prepared = !status; // what fails from here on is a step
    // What later steps refuse is found out before the first is started, and then the first is prepared last.
    Prepared step;
    int at = steps->n_steps;
    while (!status && at > 0) status = prepare_step(kernel, --at, launch, temps, &step);
    for (int i = 0; !status && i < steps->n_steps; i++) {
        at = i;
        if (i > 0) status = prepare_step(kernel, i, launch, temps, &step);
        if (status || !step.kernel) continue;
        recording_step(r, step.kernel, &step.launch);
        status = step.kernel->device->kind->launch(step.kernel, stream, &step.launch);
    }
    if (status && prepared) status_prefix("%s, step %d", kernel->plan->name, at + 1);
    return status;
}

static void free_steps(Steps *steps)
{
    for (int i = 0; i < steps->n_steps; i++) kiln_kernel_free(steps->steps[i].kernel);
}

void operator_connect(kiln_kernel *kernel, Steps *steps)
{
    kernel->steps = steps;
    kernel->run_steps = run_steps;
    kernel->free_steps = free_steps;
}
