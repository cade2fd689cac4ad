// SPDX-License-Identifier: MIT
// bench_case.c - a kernel with its tensors at full size: built, fed, run once and looked at before it may be timed.
#include "tools/bench.h"
#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

enum { PERIOD = 1048583, REPEATS = 16 };

static bool complain(BenchCase *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool complain(BenchCase *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->problem, sizeof c->problem, format, args);
    va_end(args);
    return false;
}

static bool complain_status(BenchCase *c) { return complain(c, "%s", kiln_error_message()); }

// ---- what the row says

int64_t bench_integer(const BenchCase *c, const char *name, int64_t otherwise)
{
    for (int i = 0; i < c->values->n_launch; i++)
        if (strcmp(c->values->launch[i].name, name) == 0 && c->values->launch[i].kind == BIND_INT)
            return c->values->launch[i].integer;
    for (int i = 0; i < c->values->n_build; i++)
        if (strcmp(c->values->build[i].name, name) == 0 && c->values->build[i].kind == BIND_INT)
            return c->values->build[i].integer;
    return otherwise;
}

double bench_number(const BenchCase *c, const char *name)
{
    for (int i = 0; i < c->values->n_launch; i++)
        if (strcmp(c->values->launch[i].name, name) == 0)
            return c->values->launch[i].kind == BIND_INT ? (double)c->values->launch[i].integer
                                                         : c->values->launch[i].real;
    return NAN;
}

const BenchTensor *bench_tensor(const BenchCase *c, const char *name)
{
    for (int i = 0; i < PLAN_MAX_PARAMS; i++)
        if (c->tensors[i].name && strcmp(c->tensors[i].name, name) == 0) return &c->tensors[i];
    return NULL;
}

double bench_input(const BenchTensor *t, int64_t index) { return t->values[(index + t->offset) % t->period]; }

// ---- numbers

// For each type, once: REPEATS + 1 periods as stored, and one as numbers.
typedef struct Pattern {
    char *stored;
    double *values;
} Pattern;

static const Pattern *find_or_make_pattern(DType type)
{
    static Pattern patterns[DTYPE_COUNT];
    Pattern *const p = &patterns[type];
    const size_t bytes = (size_t)dtype_bits(type) / 8 * PERIOD;
    const CaseInput input = dtype_is_float(type) ? (CaseInput){ .kind = INPUT_NORMAL, .b = 1 }
                                                 : (CaseInput){ .kind = INPUT_UNIFORM, .a = -100, .b = 100 };
    if (p->values) return p;
    p->stored = malloc(bytes * (REPEATS + 1));
    p->values = malloc(sizeof *p->values * PERIOD);
    if (!p->stored || !p->values) return NULL;
    fill_input(&input, type, p->stored, PERIOD, 1 + (uint64_t)type);
    for (int i = 0; i < PERIOD; i++) p->values[i] = element_get(type, p->stored, i);
    for (size_t i = 1; i <= REPEATS; i++) memcpy(p->stored + i * bytes, p->stored, bytes);
    return p;
}

static bool fill_tensor(BenchCase *c, BenchTensor *t, int param)
{
    const DType type = dtype_of_type(t->tensor.type);
    const size_t size = (size_t)dtype_bits(type) / 8;
    const size_t total = kiln_tensor_bytes(&t->tensor);
    const size_t piece = size * PERIOD * REPEATS;
    const Pattern *const p = size ? find_or_make_pattern(type) : NULL;
    if (latent_is_fp8(&t->tensor)) return !latent_fill_fp8(c, t) || complain_status(c);
    if (!p) return complain(c, "no numbers for '%s'", t->name);
    t->values = p->values;
    t->period = PERIOD;
    t->offset = 104729 * (param + 1) % PERIOD;
    for (size_t at = 0; at < total; at += piece)
        if (kiln_upload(c->machine->device, (char *)t->tensor.data + at, p->stored + (size_t)t->offset * size,
                        total - at < piece ? total - at : piece))
            return complain_status(c);
    return true;
}

// Index tensors, which only latent attention has.
static bool fill_indices(BenchCase *c, BenchTensor *t)
{
    const int64_t n = tensor_elements(&t->tensor);
    int32_t *const stored = malloc(sizeof *stored * (size_t)(n + 1));
    double *const values = malloc(sizeof *values * (size_t)(n + 1));
    const char *const problem = stored && values ? latent_indices(c, t->name, stored, n) : "out of memory";
    if (problem) return complain(c, "%s", problem); // the process ends with it
    for (int64_t i = 0; i < n; i++) values[i] = stored[i];
    t->values = values; // kept: a row has a few
    t->period = n;
    const kiln_status status = kiln_upload(c->machine->device, t->tensor.data, stored, sizeof *stored * (size_t)n);
    free(stored);
    return status ? complain_status(c) : true;
}

// ---- tensors

static bool make_values(BenchCase *c, int64_t *symbols, int64_t *scalars)
{
    const LaunchPlan *const plan = c->build.kernel->plan;
    for (int i = 0; i < plan->n_binds; i++)
        if (!plan->binds[i].is_stride && (symbols[i] = bench_integer(c, plan->binds[i].symbol, -1)) < 0)
            return complain(c, "the row gives no value for '%s'", plan->binds[i].symbol);
    for (int i = 0; i < plan->n_params; i++) {
        const Binding *value = NULL;
        for (int j = 0; j < c->values->n_launch; j++)
            if (strcmp(c->values->launch[j].name, plan->params[i].name) == 0) value = &c->values->launch[j];
        if (plan->params[i].is_tensor) continue;
        if (!value) return complain(c, "the row gives no value for '%s'", plan->params[i].name);
        const double real = value->kind == BIND_INT ? (double)value->integer : value->real;
        const bool is_float = dtype_is_float(plan->params[i].type);
        c->args[i] = is_float ? KILN_FLOAT(real) : KILN_INT(value->integer);
        if (is_float) memcpy(&scalars[i], &real, sizeof real);
        else scalars[i] = value->integer;
    }
    return true;
}

static bool make_tensors(BenchCase *c)
{
    const LaunchPlan *const plan = c->build.kernel->plan;
    int64_t symbols[PLAN_MAX_BINDS] = { 0 }, scalars[PLAN_MAX_PARAMS] = { 0 }, shape[KILN_MAX_RANK];
    if (!make_values(c, symbols, scalars)) return false;
    for (int i = 0; i < plan->n_params; i++) {
        const PlanParam *const param = &plan->params[i];
        BenchTensor *const t = &c->tensors[i];
        void *memory;
        if (!param->is_tensor || param->absent) continue;
        for (int d = 0; d < param->rank; d++) plan_eval(plan, param->shape[d], symbols, scalars, &shape[d]);
        t->tensor = kiln_tensor_of(c->machine->device, NULL, type_of_dtype(param->type), param->rank, shape);
        if (kiln_alloc(c->machine->device, kiln_tensor_bytes(&t->tensor), &memory)) return complain_status(c);
        t->tensor.data = memory;
        t->name = param->name;
        c->args[i] = KILN_TENSOR(&t->tensor);
        if ((param->access & ACCESS_IN) && !(param->type == DTYPE_I32 ? fill_indices(c, t) : fill_tensor(c, t, i)))
            return false;
    }
    if (latent_plan(c)) return complain_status(c);
    if (kiln_workspace_size(c->build.kernel, c->args, plan->n_params, &c->workspace_bytes)) return complain_status(c);
    return !c->workspace_bytes || !kiln_alloc(c->machine->device, c->workspace_bytes, &c->workspace) ||
           complain_status(c);
}

bool bench_case_launch(void *context)
{
    BenchCase *const c = context;
    return !kiln_launch_with(c->build.kernel, NULL, c->args, c->build.kernel->plan->n_params, c->workspace,
                             c->workspace_bytes) ||
           complain_status(c);
}

// ---- looking at the results

enum { SAMPLES_MAX = 256 };

typedef struct Sampling {
    BenchCase *c;
    const Expectation *expectation;
    const BenchTensor *output;
    int64_t index[SAMPLES_MAX];
    double expected[SAMPLES_MAX];
} Sampling;

static void expect_some(void *context, int64_t first, int64_t last)
{
    Sampling *const s = context;
    for (int64_t i = first; i < last; i++) s->expected[i] = s->expectation->element(s->c, s->output->name, s->index[i]);
}

static int64_t draw(int64_t i, int64_t n) // the first, the last, and some between
{
    const uint64_t hash = (uint64_t)i * 0x9e3779b97f4a7c15u ^ (uint64_t)i << 17;
    return i == 0 ? 0 : i == 1 ? n - 1 : (int64_t)((__uint128_t)(hash * 0xbf58476d1ce4e5b9u) * (uint64_t)n >> 64);
}

// What an element may be off by, in units of its own size and of a typical one's: three roundings of its type. Others,
// integers, are exact.
static const double units[DTYPE_COUNT] = {
    [DTYPE_BF16] = 0x1p-7, [DTYPE_F16] = 0x1p-9, [DTYPE_E4M3] = 0x1p-3, [DTYPE_F32] = 1e-4
};

static bool compare_samples(Sampling *s, int n)
{
    BenchCase *const c = s->c;
    const DType type = dtype_of_type(s->output->tensor.type);
    const size_t size = (size_t)dtype_bits(type) / 8;
    double squares = 0;
    for (int i = 0; i < n; i++) squares += s->expected[i] * s->expected[i] / n;
    for (int i = 0; i < n; i++) {
        char element[8];
        if (kiln_download(c->machine->device, element, (char *)s->output->tensor.data + (size_t)s->index[i] * size,
                          size))
            return complain_status(c);
        const double got = element_get(type, element, 0), expected = s->expected[i];
        c->wrong = !(fabs(got - expected) <= units[type] * (fabs(expected) + sqrt(squares)));
        if (c->wrong)
            return complain(c, "WRONG: element %" PRId64 " of '%s' is %g, not %g", s->index[i], s->output->name, got,
                            expected);
    }
    return true;
}

static bool poison_samples(Sampling *s, int n)
{
    static const char poison[8] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    const size_t size = (size_t)dtype_bits(dtype_of_type(s->output->tensor.type)) / 8;
    for (int i = 0; i < n && !s->output->values; i++) // inout ones hold their input
        if (kiln_upload(s->c->machine->device, (char *)s->output->tensor.data + (size_t)s->index[i] * size, poison,
                        size))
            return complain_status(s->c);
    return true;
}

static bool run_and_check(BenchCase *c)
{
    static Sampling samplings[4];
    const LaunchPlan *const plan = c->build.kernel->plan;
    const Expectation *const expectation = find_expectation(c->row->kernel);
    int n = 0;
    if (!expectation) return complain(c, "no expectation is written for '%s'", c->row->kernel);
    for (int i = 0; i < plan->n_params && n < COUNT(samplings); i++) {
        Sampling *const s = &samplings[n];
        if (!c->tensors[i].name || !(plan->params[i].access & ACCESS_OUT)) continue;
        *s = (Sampling){ .c = c, .expectation = expectation, .output = &c->tensors[i] };
        for (int k = 0; k < expectation->samples; k++) s->index[k] = draw(k, tensor_elements(&c->tensors[i].tensor));
        if (!poison_samples(s, expectation->samples)) return false;
        n++;
    }
    if (!bench_case_launch(c)) return false;
    if (kiln_stream_wait(c->machine->device, NULL)) return complain_status(c);
    for (int i = 0; i < n; i++) {
        threads_run(expectation->samples, expect_some, &samplings[i]);
        if (!compare_samples(&samplings[i], expectation->samples)) return false;
    }
    return true;
}

// ---- opening

static bool build(BenchCase *c, Arena *arena, const char *kernels)
{
    const CaseOptions options = { .device = c->machine->device };
    Binding *values;
    int n;
    if (kiln_program_load_file(arena_printf(arena, "%s/%s", kernels, c->row->file), &c->program) ||
        bindings_parse(arena, c->program, c->row->kernel, c->row->values, &values, &n))
        return complain_status(c);
    c->values = case_with_values(arena, c->program, c->row->kernel, NULL, values, n);
    c->build = (CaseBuild){
        .program = c->program, .name = c->row->kernel, .bindings = c->values->build, .n_bindings = c->values->n_build
    };
    return case_build(&c->build, &options) || complain(c, "%s", c->build.message ? c->build.message : "out of memory");
}

bool bench_case_open(BenchCase *c, Arena *arena, const Row *row, const char *kernels, Machine *machine)
{
    *c = (BenchCase){ .row = row, .machine = machine };
    return build(c, arena, kernels) && make_tensors(c) && run_and_check(c);
}

void bench_case_close(BenchCase *c)
{
    for (int i = 0; i < PLAN_MAX_PARAMS; i++)
        if (c->tensors[i].name) kiln_free(c->machine->device, c->tensors[i].tensor.data);
    if (c->machine) kiln_free(c->machine->device, c->workspace);
    case_build_free(&c->build);
    kiln_program_free(c->program);
    *c = (BenchCase){ .row = NULL };
}
