// SPDX-License-Identifier: MIT
// sweep_reference.c - what should come out of an operator: some instances of the reference of a kernel of the library,
// over the tensors of the case in host memory.
//
// A reference's parameter takes a tensor of the case by name. Its bytes may mean another type there (codes of 4 bits), its shape
// may have other extents, or ones before it. A tensor that an operator has written and a reference reads comes from
// the device.
#include "sweep.h"

#include "ops/call.h"
#include "runtime/build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

typedef struct Reference {
    SweepCase *c;
    const char *args;
    int64_t instances;
    kiln_program *program;
    kiln_kernel *kernel;
    kiln_tensor host[PLAN_MAX_PARAMS];
} Reference;

static bool complain(SweepCase *c, const char *what, const char *name)
{
    if (c->status) return false;
    c->status = KILN_BAD_ARGUMENT;
    snprintf(c->problem, sizeof c->problem, "%s '%s'", what, name);
    return false;
}

// ---- arguments by name

// What stands behind "NAME=" in the list; NULL: nothing.
static const char *argument_of(const Reference *r, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = r->args; *at; at += strcspn(at, ","), at += strspn(at, ", "))
        if (strncmp(at, name, n) == 0 && at[n] == '=') return at + n + 1;
    return NULL;
}

static SweepTensor *tensor_of(SweepCase *c, const char *text)
{
    const size_t n = strcspn(text, ",[");
    for (int i = 0; i < c->n; i++)
        if (strlen(c->tensors[i].name) == n && memcmp(c->tensors[i].name, text, n) == 0) return &c->tensors[i];
    return NULL;
}

static bool has_argument(const void *context, const char *name) { return argument_of(context, name) != NULL; }

// What names no parameter is of the build.
static bool build(Reference *r, Arena *arena, const char *kernel)
{
    char text[SWEEP_ARGUMENTS] = "", name[SWEEP_ARGUMENTS];
    Binding *values;
    int n;
    for (const char *at = r->args; *at; at += strcspn(at, ","), at += strspn(at, ", ")) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "="), at);
        if (!bench_is_parameter(r->program, kernel, name)) strncat(text, at, strcspn(at, ",") + 1);
    }
    if (bindings_parse(arena, r->program, kernel, text, &values, &n)) sweep_try(r->c, KILN_BAD_ARGUMENT);
    else sweep_try(r->c, bench_reference(arena, r->program, kernel, values, n, has_argument, r, &r->kernel));
    return !r->c->status;
}

// ---- tensors

// An input as it was made; what the operator has written is fetched.
static bool have_input(SweepCase *c, SweepTensor *t)
{
    const size_t bytes = kiln_tensor_bytes(&t->tensor);
    if (t->host || !t->tensor.data) return true;
    t->host = host_memory(bytes);
    t->own = true;
    if (!t->host) return complain(c, "out of memory for", t->name);
    sweep_try(c, kiln_download(c->machine->device, t->host, t->tensor.data, bytes));
    return !c->status;
}

static bool have_output(SweepCase *c, SweepTensor *t)
{
    if (!t->expected) t->expected = host_expected(t->in_place ? t->host : NULL, kiln_tensor_bytes(&t->tensor));
    t->referred = true;
    return t->expected || complain(c, "out of memory for", t->name);
}

// Of an argument "NAME[4][8]": its extents. Else ones come or go at the front, and further dimensions are one with the next.
static void shape_as(kiln_tensor *t, const char *text, DType type, int rank)
{
    const size_t name = strcspn(text, ",[");
    const int64_t bits = kiln_type_bits(t->type), wanted = dtype_bits(type);
    const int more = rank - t->rank;
    if (text[name] == '[') {
        t->rank = 0;
        for (const char *at = text + name; *at == '[' && t->rank < KILN_MAX_RANK; at += strcspn(at, "]") + 1)
            t->shape[t->rank++] = strtoll(at + 1, NULL, 10);
    } else {
        t->shape[t->rank - 1] = t->shape[t->rank - 1] * bits / wanted;
        for (int d = t->rank - 1; more > 0 && d >= 0; d--) t->shape[d + more] = t->shape[d];
        for (int d = 0; d < more; d++) t->shape[d] = 1;
        for (int d = 0; d < -more; d++) t->shape[-more] *= t->shape[d];
        for (int d = 0; more < 0 && d < rank; d++) t->shape[d] = t->shape[d - more];
        t->rank = rank;
    }
    t->type = type_of_dtype(type);
}

static bool make_tensor(Reference *r, const PlanParam *p, const char *text, kiln_tensor *host)
{
    SweepTensor *const t = tensor_of(r->c, text);
    if (!t) return complain(r->c, "no tensor for the reference's", p->name);
    if ((p->access & ACCESS_IN || !(p->access & ACCESS_OUT)) && !have_input(r->c, t)) return false;
    if (p->access & ACCESS_OUT && !have_output(r->c, t)) return false;
    *host = kiln_tensor_of(NULL, p->access & ACCESS_OUT || !t->host ? t->expected : t->host, t->tensor.type,
                           t->tensor.rank, t->tensor.shape);
    shape_as(host, text, p->type, p->rank);
    return kiln_tensor_bytes(host) == kiln_tensor_bytes(&t->tensor) ||
           complain(r->c, "another number of bytes for the reference's", p->name);
}

static bool make_arguments(Reference *r, kiln_arg *args)
{
    const LaunchPlan *const plan = r->kernel->plan;
    for (int i = 0; i < plan->n_params; i++) {
        const PlanParam *const p = &plan->params[i];
        const char *const text = argument_of(r, p->name);
        args[i] = KILN_NONE;
        if (!text && p->optional) continue;
        if (!text) return complain(r->c, "nothing for the reference's", p->name);
        if (p->is_tensor && !make_tensor(r, p, text, &r->host[i])) return false;
        if (p->is_tensor) args[i] = KILN_TENSOR(&r->host[i]);
        else args[i] = dtype_is_float(p->type) ? KILN_FLOAT(strtod(text, NULL)) : KILN_INT(strtoll(text, NULL, 10));
    }
    return true;
}

// ---- the run

static bool run(Reference *r, Arena *arena, const char *kernel)
{
    kiln_arg args[PLAN_MAX_PARAMS];
    if (setjmp(arena->out_of_memory) != 0) return complain(r->c, "out of memory for the reference of", kernel);
    if (!build(r, arena, kernel) || !make_arguments(r, args)) return false;
    sweep_try(r->c, reference_run_some(r->kernel, args, r->kernel->plan->n_params, r->instances));
    return !r->c->status;
}

static void refer(SweepCase *c, const char *file, const char *kernel, const char *text, int64_t instances)
{
    Reference r = { .c = c, .args = text, .instances = instances };
    if (c->status) return;
    sweep_try(c, program_load_texts(file, kernel_text, &r.program));
    Arena *const arena = c->status ? NULL : arena_new();
    if (arena) run(&r, arena, kernel);
    else complain(c, "no program or no memory for", kernel);
    if (arena) arena_free(arena);
    kiln_kernel_free(r.kernel);
    kiln_program_free(r.program);
}

void sweep_refer(SweepCase *c, const char *file, const char *kernel, const char *format, ...)
{
    char text[SWEEP_ARGUMENTS];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    refer(c, file, kernel, text, sweep_samples(c));
}

void sweep_refer_all(SweepCase *c, const char *file, const char *kernel, const char *format, ...)
{
    char text[SWEEP_ARGUMENTS];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    refer(c, file, kernel, text, INT64_MAX);
}

char *sweep_expected(SweepCase *c, const char *name)
{
    SweepTensor *const t = tensor_of(c, name);
    return t && have_output(c, t) ? t->expected : NULL;
}
