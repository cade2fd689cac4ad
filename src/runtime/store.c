// store.c - what the cache keeps of a kernel beside its code, so that a later build runs no compiler at all.
//
// A record is the name of the code's entry, the plan, the explanation and the source; of an operator: its plan,
// temporaries and steps with their records. Records are read only after the cache checked their sum, but lengths
// are still tested: an entry of another version must be a miss, never a crash.
#include "runtime/build.h"
#include "base/memory.h"

enum { RECORD_KERNEL = 0x4b31, RECORD_OPERATOR = 0x4f31 };

// ---- writing

static void put_int(Text *out, int64_t value) { text_add(out, (const char *)&value, sizeof value); }

static void put_bytes(Text *out, const char *bytes, size_t n)
{
    put_int(out, (int64_t)n);
    text_add(out, bytes, n);
}

static void put_text(Text *out, const char *text) { put_bytes(out, text ? text : "", text ? strlen(text) : 0); }
static void put_code(Text *out, PlanCode code) { put_int(out, code.start); put_int(out, code.length); }

static void put_plan(Text *out, const LaunchPlan *plan)
{
    Text bytes = { .arena = out->arena };
    plan_write(&bytes, plan);
    put_bytes(out, bytes.data, bytes.length);
}

static void put_step(Text *out, const Step *step)
{
    put_code(out, step->when);
    put_int(out, step->n_args);
    for (int i = 0; i < step->n_args; i++) {
        const StepArg *const arg = &step->args[i];
        put_int(out, arg->param);
        put_int(out, arg->temp);
        put_code(out, arg->scalar);
        put_int(out, arg->none | arg->is_float << 1);
    }
    kernel_store(out, step->kernel);
}

static void put_steps(Text *out, const Steps *steps)
{
    put_int(out, steps->n_temps);
    for (int i = 0; i < steps->n_temps; i++) {
        put_int(out, steps->temps[i].type);
        put_int(out, steps->temps[i].rank);
        for (int d = 0; d < steps->temps[i].rank; d++)
            put_code(out, steps->temps[i].shape[d]);
    }
    put_int(out, steps->n_steps);
    for (int i = 0; i < steps->n_steps; i++)
        put_step(out, &steps->steps[i]);
}

void kernel_store(Text *out, const kiln_kernel *kernel)
{
    put_int(out, kernel->steps ? RECORD_OPERATOR : RECORD_KERNEL);
    put_plan(out, kernel->plan);
    if (kernel->steps) {
        put_steps(out, kernel->steps);
        return;
    }
    put_text(out, kernel->object_name);
    put_text(out, kernel->explanation);
    put_text(out, kernel->source);
}

// ---- reading

typedef struct Reader { const char *at, *end; bool failed; } Reader;

static int64_t get_int(Reader *r)
{
    int64_t value = 0;
    if (r->failed || r->end - r->at < (ptrdiff_t)sizeof value)
        return r->failed = true, 0;
    memcpy(&value, r->at, sizeof value);
    r->at += sizeof value;
    return value;
}

static int get_count(Reader *r, int most)
{
    const int64_t n = get_int(r);
    if (n < 0 || n > most)
        r->failed = true;
    return r->failed ? 0 : (int)n;
}

static const char *get_bytes(Reader *r, size_t *n)
{
    const int64_t length = get_int(r);
    if (r->failed || length < 0 || length > r->end - r->at)
        return r->failed = true, *n = 0, "";
    *n = (size_t)length;
    r->at += length;
    return r->at - length;
}

static const char *get_text(Reader *r, Arena *arena)
{
    size_t n;
    const char *const bytes = get_bytes(r, &n);
    return arena_copy_text(arena, bytes, n);
}

static PlanCode get_code(Reader *r)
{
    const int start = (int)get_int(r);
    return (PlanCode){ start, (int)get_int(r) };
}

static void get_plan(Reader *r, kiln_kernel *kernel)
{
    size_t n;
    const char *const bytes = get_bytes(r, &n);
    kernel->plan = r->failed ? NULL : plan_read(kernel->arena, bytes, n);
    if (!kernel->plan)
        r->failed = true;
}

static kiln_status get_kernel(Reader *r, kiln_device *device, kiln_kernel **kernel);

static kiln_status get_step(Reader *r, Arena *arena, kiln_device *device, Step *step)
{
    step->when = get_code(r);
    step->n_args = get_count(r, PLAN_MAX_PARAMS);
    step->args = NEW_ARRAY(arena, StepArg, step->n_args);
    for (int i = 0; i < step->n_args; i++) {
        StepArg *const arg = &step->args[i];
        arg->param = (int)get_int(r);
        arg->temp = (int)get_int(r);
        arg->scalar = get_code(r);
        const int64_t flags = get_int(r);
        arg->none = flags & 1;
        arg->is_float = flags & 2;
    }
    return get_kernel(r, device, &step->kernel);
}

static kiln_status get_steps(Reader *r, kiln_kernel *kernel)
{
    Arena *const arena = kernel->arena;
    Steps *const steps = NEW(arena, Steps, .n_temps = get_count(r, 256));
    steps->temps = NEW_ARRAY(arena, Temp, steps->n_temps);
    for (int i = 0; i < steps->n_temps; i++) {
        steps->temps[i].type = (DType)get_count(r, DTYPE_COUNT - 1);
        steps->temps[i].rank = get_count(r, MAX_RANK);
        for (int d = 0; d < steps->temps[i].rank; d++)
            steps->temps[i].shape[d] = get_code(r);
    }
    steps->n_steps = get_count(r, 256);
    steps->steps = NEW_ARRAY(arena, Step, steps->n_steps);
    operator_connect(kernel, steps);
    kiln_status status = r->failed ? KILN_NOT_FOUND : KILN_OK;
    for (int i = 0; !status && i < steps->n_steps; i++)
        status = get_step(r, arena, kernel->device, &steps->steps[i]);
    return status;
}

static kiln_status get_code_object(Reader *r, kiln_kernel *kernel)
{
    const char *const name = get_text(r, kernel->arena);
    kernel->explanation = get_text(r, kernel->arena);
    kernel->source = get_text(r, kernel->arena);
    if (r->failed || strlen(name) != HASH_NAME - 1)
        return KILN_NOT_FOUND;
    memcpy(kernel->object_name, name, HASH_NAME);
    return kernel_attach(kernel);
}

static kiln_status get_kernel(Reader *r, kiln_device *device, kiln_kernel **kernel)
{
    const int64_t record = get_int(r);
    *kernel = NULL;
    if (r->failed || (record != RECORD_KERNEL && record != RECORD_OPERATOR))
        return KILN_NOT_FOUND;
    kiln_kernel *const made = kernel_new(device);
    if (!made)
        return status_fail(KILN_OUT_OF_MEMORY, "out of memory for a kernel");
    // The arena's jump must not cross a frame that holds something: each kernel has its own arena, and this is the
    // only frame between it and the reader.
    kiln_status status;
    if (setjmp(made->arena->out_of_memory) == 0) {
        get_plan(r, made);
        status = r->failed ? KILN_NOT_FOUND : record == RECORD_OPERATOR ? get_steps(r, made) : get_code_object(r, made);
    } else {
        status = status_fail(KILN_OUT_OF_MEMORY, "out of memory for a kernel");
    }
    if (status)
        kiln_kernel_free(made);
    else
        *kernel = made;
    return status;
}

kiln_status kernel_restore(const char *bytes, size_t n, kiln_device *device, kiln_kernel **kernel)
{
    Reader reader = { bytes, bytes + n, false };
    return get_kernel(&reader, device, kernel);
}
