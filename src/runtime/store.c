// SPDX-License-Identifier: MIT
// store.c - what the cache keeps of a kernel beside its code, so that a later build runs no compiler at all.
//
// A record is the name of the code's entry, the plan, the explanation, the notes, whether spills are accepted and the source; of
// an operator: its plan, temporaries and steps with their records. Records are read only after the cache checked their sum, but lengths
// are still tested: an entry of another version must be a miss, never a crash.
#include "runtime/build.h"
#include "base/memory.h"

enum { RECORD_KERNEL = 0x4b31, RECORD_OPERATOR = 0x4f31 };

// ---- writing

static void put_plan(Text *out, const LaunchPlan *plan)
{
    Text bytes = { .arena = out->arena };
    plan_write(&bytes, plan);
    store_bytes(out, bytes.data, bytes.length);
}

void kernel_store(Text *out, const kiln_kernel *kernel)
{
    store_int(out, kernel->steps ? RECORD_OPERATOR : RECORD_KERNEL);
    put_plan(out, kernel->plan);
    if (kernel->steps) {
        steps_write(out, kernel->steps, kernel_store);
        return;
    }
    store_text(out, kernel->object_name);
    store_text(out, kernel->explanation);
    store_text(out, kernel->notes);
    store_int(out, kernel->accepts_spills);
    store_text(out, kernel->source);
}

// ---- reading

static void get_plan(Reader *r, kiln_kernel *kernel)
{
    size_t n;
    const char *const bytes = read_bytes(r, &n);
    kernel->plan = r->failed ? NULL : plan_read(kernel->arena, bytes, n);
    if (!kernel->plan) r->failed = true;
}

static kiln_status get_kernel(Reader *r, kiln_device *device, kiln_kernel **kernel);

static kiln_status get_step_kernel(Reader *r, kiln_device *device, int step, kiln_kernel **kernel, const void *context)
{
    (void)step, (void)context;
    return get_kernel(r, device, kernel);
}

static kiln_status get_code_object(Reader *r, kiln_kernel *kernel)
{
    const char *const name = read_text(r, kernel->arena);
    kernel->explanation = read_text(r, kernel->arena);
    kernel->notes = read_text(r, kernel->arena);
    kernel->accepts_spills = read_int(r);
    kernel->source = read_text(r, kernel->arena);
    if (r->failed || strlen(name) != HASH_NAME - 1) return KILN_NOT_FOUND;
    memcpy(kernel->object_name, name, HASH_NAME);
    return kernel_attach(kernel);
}

static kiln_status get_kernel(Reader *r, kiln_device *device, kiln_kernel **kernel)
{
    const int64_t record = read_int(r);
    *kernel = NULL;
    if (r->failed || (record != RECORD_KERNEL && record != RECORD_OPERATOR)) return KILN_NOT_FOUND;
    kiln_kernel *const made = kernel_new(device);
    if (!made) return status_fail(KILN_OUT_OF_MEMORY, "out of memory for a kernel");
    // The arena's jump must not cross a frame that holds something: each kernel has its own arena, and this is the
    // only frame between it and the reader.
    kiln_status status;
    if (setjmp(made->arena->out_of_memory) == 0) {
        get_plan(r, made);
        status = r->failed                   ? KILN_NOT_FOUND
                 : record == RECORD_OPERATOR ? steps_read(r, made, get_step_kernel, NULL)
                                             : get_code_object(r, made);
    } else {
        status = status_fail(KILN_OUT_OF_MEMORY, "out of memory for a kernel");
    }
    if (status) kiln_kernel_free(made);
    else *kernel = made;
    return status;
}

kiln_status kernel_restore(const char *bytes, size_t n, kiln_device *device, kiln_kernel **kernel)
{
    Reader reader = { bytes, bytes + n, false };
    return get_kernel(&reader, device, kernel);
}
