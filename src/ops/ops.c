// SPDX-License-Identifier: MIT
// ops.c - the handle of the operators: programs and kernels, each loaded or built once.
#include "ops/call.h"
#include "base/fork.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

// File and name are constants of the library.
typedef struct OpsProgram {
    struct OpsProgram *next;
    const char   *file;
    kiln_program *program;
} OpsProgram;

typedef struct OpsKernel {
    struct OpsKernel *next;
    const char  *file, *name;
    char         bindings[OPS_BINDINGS_BYTES];
    kiln_kernel *kernel;
} OpsKernel;

kiln_status kiln_ops_open(kiln_device *device, const kiln_build_options *options, kiln_ops **ops)
{
    if (!device || !ops)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_ops_open: '%s' is null", device ? "ops" : "device");
    Target target;
    const kiln_status status = target_choose(device, options, &target);
    if (status)
        return status;
    kiln_ops *const made = memory_alloc(sizeof *made);
    char *const isa = options && options->isa ? memory_copy_text(options->isa) : NULL;
    if (!made || (options && options->isa && !isa)) {
        memory_free(made);
        memory_free(isa);
        return status_fail(KILN_OUT_OF_MEMORY, "out of memory for the operators' handle");
    }
    if (options)
        made->options = *options;
    made->options.isa = made->isa = isa;
    made->device = device;
    device_keep(device);
    pthread_mutex_init(&made->lock, NULL);
    known_open(&made->known);
    snprintf(made->turn, sizeof made->turn, "operators %p", (void *)made);
    *ops = made;
    return KILN_OK;
}

void kiln_ops_close(kiln_ops *ops)
{
    if (!ops)
        return;
    for (OpsKernel *k = ops->kernels, *next; k; k = next) {
        next = k->next;
        kiln_kernel_free(k->kernel);
        memory_free(k);
    }
    for (OpsProgram *p = ops->programs, *next; p; p = next) {
        next = p->next;
        kiln_program_free(p->program);
        memory_free(p);
    }
    kiln_device_close(ops->device);
    known_close(&ops->known);
    pthread_mutex_destroy(&ops->lock);
    memory_free(ops->isa);
    memory_free(ops);
}

bool ops_on_cpu(const kiln_ops *ops) { return device_is_cpu(ops->device); }
bool ops_look_at_values(const kiln_ops *ops) { return ops->options.check || ops_on_cpu(ops); }
int  ops_processors(const kiln_ops *ops) { return ops_on_cpu(ops) ? threads_count() : ops->device->processors; }

// ---- programs and kernels; entries stay until the handle is closed

static void lock_lists(kiln_ops *ops)
{
    fork_hold();
    pthread_mutex_lock(&ops->lock);
}

static void unlock_lists(kiln_ops *ops)
{
    pthread_mutex_unlock(&ops->lock);
    fork_release();
}

static kiln_kernel *find_kernel(kiln_ops *ops, const char *name, const char *bindings)
{
    kiln_kernel *found = NULL;
    lock_lists(ops);
    for (const OpsKernel *k = ops->kernels; k && !found; k = k->next)
        if (strcmp(k->name, name) == 0 && strcmp(k->bindings, bindings) == 0)
            found = k->kernel;
    unlock_lists(ops);
    return found;
}

int ops_kernel_count(kiln_ops *ops)
{
    int n = 0;
    lock_lists(ops);
    for (const OpsKernel *k = ops->kernels; k; k = k->next) n++;
    unlock_lists(ops);
    return n;
}

// In the turn, as all that follows: no other thread changes the list.
static kiln_status find_program(kiln_ops *ops, const char *file, kiln_program **program)
{
    for (const OpsProgram *p = ops->programs; p; p = p->next)
        if (strcmp(p->file, file) == 0) {
            *program = p->program;
            return KILN_OK;
        }
    OpsProgram *const made = memory_alloc(sizeof *made);
    if (!made)
        return status_fail(KILN_OUT_OF_MEMORY, "out of memory for %s", file);
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

// What looks for wrong values is built to trap in every handle.
static kiln_status build(kiln_ops *ops, const char *file, const char *name, const char *bindings, kiln_kernel **kernel)
{
    kiln_program *program = NULL;
    kiln_build_options options = ops->options;
    options.check |= strstr(file, "inputs.tile") != NULL;
    kiln_status status = find_program(ops, file, &program);
    OpsKernel *const made = status ? NULL : memory_alloc(sizeof *made);
    if (status)
        return status;
    status = made ? kiln_kernel_build(ops->device, program, name, bindings, &options, &made->kernel)
                  : status_fail(KILN_OUT_OF_MEMORY, "out of memory for '%s'", name);
    if (status) {
        memory_free(made);
        return status;
    }
    made->file = file;
    made->name = name;
    strcpy(made->bindings, bindings);
    *kernel = made->kernel;
    lock_lists(ops);
    made->next = ops->kernels;
    ops->kernels = made;
    unlock_lists(ops);
    return KILN_OK;
}

kiln_status ops_kernel(kiln_ops *ops, const char *file, const char *name, const char *bindings, kiln_kernel **kernel)
{
    *kernel = find_kernel(ops, name, bindings);
    if (*kernel)
        return KILN_OK;
    kiln_status status = KILN_OK;
    Turn turn;
    turn_take(&turn, ops->turn);
    *kernel = find_kernel(ops, name, bindings);            // another thread may have built it meanwhile
    if (!*kernel)
        status = build(ops, file, name, bindings, kernel);
    turn_end(&turn);
    return status;
}
