// SPDX-License-Identifier: MIT
// steps_store.c - an operator's temporaries and steps as bytes, for the cache's records (store.c) and for code compiled
// ahead of time (code.c). Where a step's kernel comes from is for those to say. Lengths are tested: bytes of another
// version must be refused, never crash.
#include "runtime/build.h"

// ---- writing

void store_int(Text *out, int64_t value) { text_add(out, (const char *)&value, sizeof value); }

void store_bytes(Text *out, const char *bytes, size_t n)
{
    store_int(out, (int64_t)n);
    text_add(out, bytes, n);
}

void store_text(Text *out, const char *text) { store_bytes(out, text ? text : "", text ? strlen(text) : 0); }
static void store_code(Text *out, PlanCode code)
{
    store_int(out, code.start);
    store_int(out, code.length);
}

static void put_step(Text *out, const Step *step)
{
    store_code(out, step->when);
    store_int(out, step->n_args);
    for (int i = 0; i < step->n_args; i++) {
        const StepArg *const arg = &step->args[i];
        store_int(out, arg->param);
        store_int(out, arg->temp);
        store_code(out, arg->scalar);
        store_int(out, arg->none | arg->is_float << 1);
    }
}

void steps_write(Text *out, const Steps *steps, void (*write_kernel)(Text *out, const kiln_kernel *kernel))
{
    store_int(out, steps->n_temps);
    for (int i = 0; i < steps->n_temps; i++) {
        store_int(out, steps->temps[i].type);
        store_int(out, steps->temps[i].rank);
        for (int d = 0; d < steps->temps[i].rank; d++) store_code(out, steps->temps[i].shape[d]);
    }
    store_int(out, steps->n_steps);
    for (int i = 0; i < steps->n_steps; i++) {
        put_step(out, &steps->steps[i]);
        if (write_kernel) write_kernel(out, steps->steps[i].kernel);
    }
}

// ---- reading

int64_t read_int(Reader *r)
{
    int64_t value = 0;
    if (r->failed || r->end - r->at < (ptrdiff_t)sizeof value) return r->failed = true, 0;
    memcpy(&value, r->at, sizeof value);
    r->at += sizeof value;
    return value;
}

int read_count(Reader *r, int most)
{
    const int64_t n = read_int(r);
    if (n < 0 || n > most) r->failed = true;
    return r->failed ? 0 : (int)n;
}

const char *read_bytes(Reader *r, size_t *n)
{
    const int64_t length = read_int(r);
    if (r->failed || length < 0 || length > r->end - r->at) return r->failed = true, *n = 0, "";
    *n = (size_t)length;
    r->at += length;
    return r->at - length;
}

const char *read_text(Reader *r, Arena *arena)
{
    size_t n;
    const char *const bytes = read_bytes(r, &n);
    return arena_copy_text(arena, bytes, n);
}

static PlanCode read_code(Reader *r)
{
    const int start = (int)read_int(r);
    return (PlanCode){ start, (int)read_int(r) };
}

static void read_step(Reader *r, Arena *arena, Step *step)
{
    step->when = read_code(r);
    step->n_args = read_count(r, PLAN_MAX_PARAMS);
    step->args = NEW_ARRAY(arena, StepArg, step->n_args);
    for (int i = 0; i < step->n_args; i++) {
        StepArg *const arg = &step->args[i];
        arg->param = (int)read_int(r);
        arg->temp = (int)read_int(r);
        arg->scalar = read_code(r);
        const int64_t flags = read_int(r);
        arg->none = flags & 1;
        arg->is_float = flags & 2;
    }
}

kiln_status steps_read(Reader *r, kiln_kernel *kernel, ReadStepKernel *read_kernel, const void *context)
{
    Arena *const arena = kernel->arena;
    Steps *const steps = NEW(arena, Steps, .n_temps = read_count(r, 256));
    steps->temps = NEW_ARRAY(arena, Temp, steps->n_temps);
    for (int i = 0; i < steps->n_temps; i++) {
        steps->temps[i].type = (DType)read_count(r, DTYPE_COUNT - 1);
        steps->temps[i].rank = read_count(r, MAX_RANK);
        for (int d = 0; d < steps->temps[i].rank; d++) steps->temps[i].shape[d] = read_code(r);
    }
    steps->n_steps = read_count(r, 256);
    steps->steps = NEW_ARRAY(arena, Step, steps->n_steps);
    operator_connect(kernel, steps);
    kiln_status status = r->failed ? KILN_NOT_FOUND : KILN_OK;
    for (int i = 0; !status && i < steps->n_steps; i++) {
        read_step(r, arena, &steps->steps[i]);
        status = r->failed ? KILN_NOT_FOUND : read_kernel(r, kernel->device, i, &steps->steps[i].kernel, context);
    }
    return status;
}
