// SPDX-License-Identifier: MIT
// operator.c - kernels in sequence, with temporaries in a workspace that the caller provides.
#include "runtime/build.h"
#include "runtime/prepared.h"

#include <inttypes.h>

enum { TEMP_ALIGNMENT = 256 };

// ---- temporaries

static kiln_status make_temp(const Launch *launch, const Temp *temp, kiln_device *device, kiln_tensor *tensor)
{
    *tensor = (kiln_tensor){ .type = type_of_dtype(temp->type), .rank = temp->rank, .device = device };
    for (int d = 0; d < temp->rank; d++) {
        const int64_t extent = plan_eval(launch->plan, temp->shape[d], launch->symbols, launch->scalars);
        tensor->shape[d] = extent < 0 ? 0 : extent;
    }
    if (tensor_elements(tensor) < 0)
        return status_fail(KILN_BAD_SHAPE, "%s: a temporary has more elements than memory can hold", launch->plan->name);
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

kiln_status kiln_workspace_size(kiln_kernel *kernel, const kiln_arg *args, int n_args, size_t *bytes)
{
    Launch launch;
    kiln_tensor temps[MAX_TEMPS];
    if (!kernel || !bytes)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_workspace_size: '%s' is null", kernel ? "bytes" : "kernel");
    if (prepared_size(kernel, args, n_args, bytes))
        return KILN_OK;
    *bytes = 0;
    kiln_status status = launch_prepare(&launch, kernel->plan, kernel->device, args, n_args);
    if (status && launch.too_large && kernel->widen)
        return KILN_OK;              // a kernel, which needs none; its launch builds it for these shapes
    if (status || !kernel->steps)
        return status;
    status = place_temps(kernel->steps, &launch, kernel->device, NULL, temps, bytes);
    Kept *const kept = prepared_begin(kernel, &launch, n_args);
    prepared_temps(kept, temps, NULL, 0, *bytes);
    prepared_end(kernel, kept, !status, false);
    return status;
}

// ---- steps

static kiln_arg make_arg(const StepArg *arg, const Launch *launch, const kiln_tensor *temps)
{
    if (arg->none)
        return KILN_NONE;
    if (arg->param >= 0)
        return launch->args[arg->param];
    if (arg->temp >= 0)
        return KILN_TENSOR(&temps[arg->temp]);
    const int64_t value = plan_eval(launch->plan, arg->scalar, launch->symbols, launch->scalars);
    if (!arg->is_float)
        return KILN_INT(value);
    double real;
    memcpy(&real, &value, sizeof real);
    return KILN_FLOAT(real);
}

// One step, checked and laid out. `kernel` NULL: it is not to run.
typedef struct Prepared {
    kiln_kernel *kernel;
    kiln_arg     args[PLAN_MAX_PARAMS];
    Launch       launch;
} Prepared;

static kiln_status prepare_step(kiln_kernel *owner, int i_step, const Launch *outer, const kiln_tensor *temps,
                                Prepared *p)
{
    const Step *const step = &owner->steps->steps[i_step];
    kiln_kernel *kernel = step->kernel, *wide;
    p->kernel = NULL;
    if (step->when.length && !plan_eval(outer->plan, step->when, outer->symbols, outer->scalars))
        return KILN_OK;
    for (int i = 0; i < step->n_args; i++)
        p->args[i] = make_arg(&step->args[i], outer, temps);
    kiln_status status = launch_prepare(&p->launch, kernel->plan, kernel->device, p->args, step->n_args);
    if (status && p->launch.too_large && owner->widen && !(status = owner->widen(owner, UINT64_MAX, &wide))) {
        kernel = wide->steps->steps[i_step].kernel;
        status = launch_prepare(&p->launch, kernel->plan, kernel->device, p->args, step->n_args);
    }
    if (!status && p->launch.instances)
        p->kernel = kernel;
    return status;
}

// Which argument of the operator, or which temporary, each argument of a step is.
static void find_sources(const Step *step, int n_outer, int *from)
{
    for (int i = 0; i < step->n_args; i++) {
        const StepArg *const arg = &step->args[i];
        from[i] = arg->none ? -1 : arg->param >= 0 ? arg->param : arg->temp >= 0 ? n_outer + arg->temp : -1;
    }
}

static kiln_status run_steps(kiln_kernel *kernel, kiln_stream *stream, const Launch *launch, void *workspace,
                             size_t bytes, Kept *kept)
{
    int from[PLAN_MAX_PARAMS];
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
        status = status_fail(KILN_BAD_ALIGNMENT, "%s: the workspace (%p) is not aligned to %d bytes", kernel->plan->name,
                             workspace, TEMP_ALIGNMENT);
    prepared_temps(kept, temps, workspace, status ? 0 : steps->n_temps, needed);
    const bool prepared = !status;       // what fails from here on is a step
    // What later steps refuse is found out before the first is started, and then the first is prepared last.
    Prepared step;
    int at = steps->n_steps;
    while (!status && at > 0)
        status = prepare_step(kernel, --at, launch, temps, &step);
    for (int i = 0; !status && i < steps->n_steps; i++) {
        at = i;
        if (i > 0) status = prepare_step(kernel, i, launch, temps, &step);
        if (status || !step.kernel)
            continue;
        find_sources(&steps->steps[i], launch->plan->n_params, from);
        prepared_step(kept, step.kernel, &step.launch, from);
        status = step.kernel->device->kind->launch(step.kernel, stream, &step.launch);
    }
    if (status && prepared)
        status_prefix("%s, step %d", kernel->plan->name, at + 1);
    return status;
}

static void free_steps(Steps *steps)
{
    for (int i = 0; i < steps->n_steps; i++)
        kiln_kernel_free(steps->steps[i].kernel);
}

void operator_connect(kiln_kernel *kernel, Steps *steps)
{
    kernel->steps = steps;
    kernel->run_steps = run_steps;
    kernel->free_steps = free_steps;
}
