// SPDX-License-Identifier: MIT
// ops_build.c - the handle of the operators where there is a compiler: kernels are built from the sources in the library.
#include "ops/call.h"
#include "base/memory.h"

#include <stdio.h>

// File and name are constants of the library.
typedef struct OpsProgram {
    struct OpsProgram *next;
    const char *file;
    kiln_program *program;
} OpsProgram;

// In the turn, as all that follows: no other thread changes the list.
static kiln_status find_program(kiln_ops *ops, const char *file, kiln_program **program)
{
    for (const OpsProgram *p = ops->programs; p; p = p->next)
        if (strcmp(p->file, file) == 0) {
            *program = p->program;
            return KILN_OK;
        }
    OpsProgram *const made = memory_alloc(sizeof *made);
    if (!made) return status_fail(KILN_OUT_OF_MEMORY, "out of memory for %s", file);
    const kiln_status status = program_load_texts(file, kernel_text, &made->program);
    if (status) {
        memory_free(made);
        return status;
    }
    made->file = file;
    made->next = ops->programs;
    ops->programs = made;
    *program = made->program;
    return KILN_OK;
}

static kiln_status build(kiln_ops *ops, const char *file, const char *name, const char *bindings, kiln_kernel **kernel)
{
    kiln_program *program = NULL;
    kiln_build_options options = ops->options;
    options.check |= ops_is_checked(file);
    const kiln_status status = find_program(ops, file, &program);
    return status ? status : kiln_kernel_build(ops->device, program, name, bindings, &options, kernel);
}

static void free_programs(kiln_ops *ops)
{
    for (OpsProgram *p = ops->programs, *next; p; p = next) {
        next = p->next;
        kiln_program_free(p->program);
        memory_free(p);
    }
}

kiln_status kiln_ops_open(kiln_device *device, const kiln_build_options *options, kiln_ops **ops)
{
    if (!device || !ops)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_ops_open: '%s' is null", device ? "ops" : "device");
    Target target;
    const kiln_status status = target_choose(device, options, &target);
    if (status) return status;
    kiln_ops *const made = ops_new(device, build);
    char *const isa = options && options->isa ? memory_copy_text(options->isa) : NULL;
    if (!made || (options && options->isa && !isa)) {
        kiln_ops_close(made);
        memory_free(isa);
        return status_fail(KILN_OUT_OF_MEMORY, "out of memory for the operators' handle");
    }
    if (options) made->options = *options;
    made->options.isa = made->isa = isa;
    made->options.tuned = made->options.tuned_for = NULL; // operators choose themselves
    made->free_programs = free_programs;
    *ops = made;
    return KILN_OK;
}
