// SPDX-License-Identifier: MIT
// operator_plan.c - the checker's plan of an operator as the steps that run.
#include "runtime/build.h"

static StepArg convert_arg(Arena *arena, LaunchPlan *plan, const TileKernel *interface, const OperatorArg *from)
{
    StepArg arg = { .param = from->param, .temp = from->temp, .none = from->none };
    if (arg.none || arg.param >= 0 || arg.temp >= 0) return arg;
    arg.scalar = plan_add_code(arena, plan, interface, from->scalar);
    arg.is_float = dtype_is_float(from->scalar->type);
    return arg;
}

Steps *operator_steps(kiln_kernel *kernel, const OperatorPlan *from)
{
    Arena *const arena = kernel->arena;
    const TileKernel *const interface = from->interface;
    LaunchPlan *const plan = plan_new(arena, interface, "");
    Steps *const steps = NEW(arena, Steps, .n_steps = from->n_steps, .n_temps = from->n_temps);
    steps->temps = NEW_ARRAY(arena, Temp, from->n_temps);
    steps->steps = NEW_ARRAY(arena, Step, from->n_steps);
    for (int i = 0; i < from->n_temps; i++) {
        const Buffer *const temp = from->temps[i];
        steps->temps[i] = (Temp){ .type = temp->type, .rank = temp->rank };
        for (int d = 0; d < temp->rank; d++)
            steps->temps[i].shape[d] = plan_add_code(arena, plan, interface, temp->shape[d]);
    }
    for (int i = 0; i < from->n_steps; i++) {
        const OperatorStep *const step = &from->steps[i];
        Step *const made = &steps->steps[i];
        made->n_args = step->n_args;
        made->args = NEW_ARRAY(arena, StepArg, step->n_args);
        for (int a = 0; a < step->n_args; a++) made->args[a] = convert_arg(arena, plan, interface, &step->args[a]);
        if (step->when) made->when = plan_add_code(arena, plan, interface, step->when);
    }
    // The names in the plan are the compilation's: read it back, so that it stands alone.
    Text bytes = { .arena = arena };
    plan_write(&bytes, plan);
    kernel->plan = plan_read(arena, bytes.data, bytes.length);
    operator_connect(kernel, steps);
    return steps;
}
