// SPDX-License-Identifier: MIT
// ops.c - the handle of the operators: its kernels, each built, or taken from an archive, once.
#include "ops/call.h"
#include "base/fork.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

// File and name are constants of the library.
typedef struct OpsKernel {
    struct OpsKernel *next;
    const char *file, *name;
    char bindings[OPS_BINDINGS_BYTES];
    kiln_kernel *kernel;
} OpsKernel;

kiln_ops *ops_new(kiln_device *device, MakeKernel *make)
{
    kiln_ops *const ops = memory_alloc(sizeof *ops);
    if (!ops) return NULL;
    *ops = (kiln_ops){ .device = device, .make = make };
    device_keep(device);
    pthread_mutex_init(&ops->lock, NULL);
    known_open(&ops->known);
    snprintf(ops->turn, sizeof ops->turn, "operators %p", (void *)ops);
    return ops;
}

void kiln_ops_close(kiln_ops *ops)
{
    if (!ops) return;
    for (OpsKernel *k = ops->kernels, *next; k; k = next) {
        next = k->next;
        kiln_kernel_free(k->kernel);
        memory_free(k);
    }
    if (ops->free_programs) ops->free_programs(ops);
    kiln_device_close(ops->device);
    known_close(&ops->known);
    pthread_mutex_destroy(&ops->lock);
    memory_free(ops->isa);
    memory_free(ops);
}

bool ops_on_cpu(const kiln_ops *ops) { return device_is_cpu(ops->device); }
bool ops_look_at_values(const kiln_ops *ops) { return ops->options.check || ops_on_cpu(ops); }
bool ops_on_hopper(const kiln_ops *ops) { return ops->device->arch == 90; }
int ops_processors(const kiln_ops *ops) { return ops_on_cpu(ops) ? threads_count() : ops->device->processors; }
bool ops_is_checked(const char *file) { return strstr(file, "inputs.tile") != NULL; }

// ---- kernels; entries stay until the handle is closed

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
        if (strcmp(k->name, name) == 0 && strcmp(k->bindings, bindings) == 0) found = k->kernel;
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

// A line of an archive's list: "cpu attention/decode.tile flash_decode T=bf16, D=128".
static int print_line(char *text, size_t bytes, const kiln_ops *ops, const char *file, const char *name,
                      const char *bindings)
{
    return snprintf(text, bytes, "%s %s %s%s%s", ops_on_cpu(ops) ? "cpu" : "cuda", file, name, *bindings ? " " : "",
                    bindings);
}

size_t kiln_ops_list(kiln_ops *ops, char *text, size_t bytes)
{
    char line[OPS_BINDINGS_BYTES + 128];
    size_t at = 0;
    if (!ops) return 0;
    lock_lists(ops);
    for (const OpsKernel *k = ops->kernels; k; k = k->next) {
        print_line(line, sizeof line, ops, k->file, k->name, k->bindings);
        at += (size_t)snprintf(at < bytes ? text + at : NULL, at < bytes ? bytes - at : 0, "%s\n", line);
    }
    unlock_lists(ops);
    return at;
}

static kiln_status take_from_archive(kiln_ops *ops, const char *file, const char *name, const char *bindings,
                                     kiln_kernel **kernel)
{
    const kiln_archive *const archive = ops->archive;
    char line[OPS_BINDINGS_BYTES + 128];
    print_line(line, sizeof line, ops, file, name, bindings);
    const char *const of_any = strchr(line, ' ') + 1; // the line for both kinds of device
    for (int i = 0; i < archive->n; i++)
        if (strcmp(archive->names[i], line) == 0 || strcmp(archive->names[i], of_any) == 0)
            return kiln_kernel_from_code(ops->device, archive->codes[i], kernel);
    return status_fail(KILN_NOT_FOUND,
                       "the archive lacks a kernel; add this line to the list that it is built from: %s", line);
}

kiln_status kiln_ops_open_archive(kiln_device *device, const kiln_archive *archive, kiln_ops **ops)
{
    if (!device || !archive || !ops)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_ops_open_archive: '%s' is null",
                           !device ? "device"
                           : !ops  ? "ops"
                                   : "archive");
    kiln_ops *const made = ops_new(device, take_from_archive);
    if (!made) return status_fail(KILN_OUT_OF_MEMORY, "out of memory for the operators' handle");
    made->archive = archive;
    *ops = made;
    return KILN_OK;
}

// Makes a kernel and puts it into the list.
static kiln_status add_kernel(kiln_ops *ops, const char *file, const char *name, const char *bindings,
                              kiln_kernel **kernel)
{
    OpsKernel *const made = memory_alloc(sizeof *made);
    const kiln_status status = made ? ops->make(ops, file, name, bindings, &made->kernel)
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
    if (*kernel) return KILN_OK;
    kiln_status status = KILN_OK;
    Turn turn;
    turn_take(&turn, ops->turn);
    *kernel = find_kernel(ops, name, bindings); // another thread may have built it meanwhile
    if (!*kernel) status = add_kernel(ops, file, name, bindings, kernel);
    turn_end(&turn);
    return status;
}
