// SPDX-License-Identifier: MIT
// reference.c - references of kernels over arguments that have names, for rows of kiln bench and for sweeps.
#include "bench.h"

static const Decl *kernel_called(const kiln_program *program, const char *name)
{
    const Decl *const kernel = program_find(program->program, DECL_KERNEL, name);
    return kernel ? kernel : program_find(program->program, DECL_OPERATOR, name);
}

static bool names_parameter(const Decl *kernel, const char *name)
{
    for (const Param *p = kernel->params; p; p = p->next)
        if (strcmp(p->name, name) == 0) return true;
    return false;
}

static bool names_build_parameter(const Decl *kernel, const char *name)
{
    for (const BuildParam *p = kernel->build; p; p = p->next)
        if (strcmp(p->name, name) == 0) return true;
    return false;
}

kiln_status bench_reference(Arena *arena, kiln_program *program, const char *name, const Binding *values, int n,
                            bool (*has)(const void *context, const char *parameter), const void *context,
                            kiln_kernel **reference)
{
    const Decl *const kernel = kernel_called(program, name);
    if (!kernel) return status_fail(KILN_NOT_FOUND, "no kernel '%s' to take the reference of", name);
    Binding *const own = arena_alloc(arena, sizeof *own * (size_t)(n + PLAN_MAX_PARAMS));
    int own_n = 0;
    for (int i = 0; i < n; i++)
        if (names_build_parameter(kernel, values[i].name)) own[own_n++] = values[i];
    for (const Param *p = kernel->params; p; p = p->next)
        if (p->optional && !has(context, p->name)) own[own_n++] = (Binding){ .name = p->name, .kind = BIND_NONE };
    return reference_build(program, name, own, own_n, reference);
}

bool bench_is_parameter(const kiln_program *program, const char *kernel, const char *name)
{
    const Decl *const decl = kernel_called(program, kernel);
    return decl && names_parameter(decl, name);
}
