// SPDX-License-Identifier: MIT
// case.c - a kernel with its tensors at full size: built, fed, run once and compared with its reference before it may be
// timed.
//
// Tensors are made in host memory, where the reference finds them, on all processors: some have gigabytes. What is
// written holds 0xFF before, and what the drawn instances of the reference leave so is not compared.
#include "bench.h"

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

// ---- numbers

// Numbers as stored, once for each type; `piece` bytes repeat after `period`.
typedef struct Pattern {
    char *stored;
    size_t period, piece;
} Pattern;

static const Pattern *find_or_make_pattern(DType type)
{
    static Pattern patterns[DTYPE_COUNT];
    Pattern *const p = &patterns[type];
    const size_t bytes = (size_t)dtype_bits(type) / 8 * PERIOD;
    const CaseInput input = dtype_is_float(type) ? (CaseInput){ .kind = INPUT_NORMAL, .b = 1 }
                                                 : (CaseInput){ .kind = INPUT_UNIFORM, .a = -100, .b = 100 };
    if (p->stored) return p;
    *p = (Pattern){ malloc(bytes * (REPEATS + 1)), bytes, bytes * REPEATS };
    if (!p->stored) return NULL;
    fill_input(&input, type, p->stored, PERIOD, 1 + (uint64_t)type);
    for (size_t i = 1; i <= REPEATS; i++) memcpy(p->stored + i * bytes, p->stored, bytes);
    return p;
}

static bool fill_tensor(BenchCase *c, BenchTensor *t, int param)
{
    const DType type = dtype_of_type(t->tensor.type);
    const size_t bytes = kiln_tensor_bytes(&t->tensor);
    if (latent_is_fp8(&t->tensor)) {
        size_t piece;
        const char *const tokens = latent_tokens(&piece);
        if (tokens) host_repeat(t->before, tokens, piece, bytes);
        return tokens || complain(c, "out of memory for the fp8 cache");
    }
    if (type == DTYPE_I32) { // which only latent attention reads
        const char *const problem =
            latent_indices(c, t->name, (int32_t *)(void *)t->before, tensor_elements(&t->tensor));
        return !problem || complain(c, "%s", problem);
    }
    const Pattern *const p = dtype_bits(type) < 8 ? NULL : find_or_make_pattern(type);
    if (p)
        host_repeat(t->before, p->stored + p->period / PERIOD * (size_t)(104729 * (param + 1) % PERIOD), p->piece,
                    bytes);
    return p || complain(c, "no numbers for '%s'", t->name);
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

// Of a tensor that is bound to `strided`: a row more to each item of the outermost dimension, as quantisers of paged caches
// leave one.
static void pad_items(kiln_tensor *t)
{
    int64_t stride = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        t->strides[d] = stride;
        stride *= t->shape[d] + (d == 1 && t->rank > 1);
    }
    t->has_strides = true;
}

static size_t item_bytes(const kiln_tensor *t)
{
    return kiln_tensor_bytes(t) / (size_t)(t->shape[0] ? t->shape[0] : 1);
}

static size_t item_stride(const kiln_tensor *t) { return (size_t)t->strides[0] * (size_t)kiln_type_bits(t->type) / 8; }

static size_t device_bytes(const kiln_tensor *t)
{
    return t->has_strides ? item_stride(t) * (size_t)t->shape[0] : kiln_tensor_bytes(t);
}

static bool upload(BenchCase *c, const BenchTensor *t, const char *from)
{
    const kiln_tensor *const to = &t->tensor;
    const int64_t items = to->has_strides ? to->shape[0] : 1;
    const size_t each = to->has_strides ? item_bytes(to) : kiln_tensor_bytes(to);
    for (int64_t i = 0; i < items; i++) {
        char *const at = (char *)to->data + (to->has_strides ? (size_t)i * item_stride(to) : 0);
        if (kiln_upload(c->machine->device, at, from + (size_t)i * each, each)) return complain_status(c);
    }
    return true;
}

// What is only read is, on the CPU, the kernel's own tensor.
static bool is_own(const BenchCase *c, const BenchTensor *t)
{
    return c->machine->is_cpu && !t->written && !t->tensor.has_strides;
}

static bool make_input(BenchCase *c, BenchTensor *t, int param)
{
    const size_t bytes = kiln_tensor_bytes(&t->tensor);
    t->before = is_own(c, t) ? t->tensor.data : host_memory(bytes);
    if (!t->before) return complain(c, "out of memory for '%s'", t->name);
    if (!fill_tensor(c, t, param)) return false;
    return is_own(c, t) || upload(c, t, t->before);
}

static bool make_output(BenchCase *c, BenchTensor *t)
{
    const size_t bytes = kiln_tensor_bytes(&t->tensor);
    t->expected = host_expected(t->read ? t->before : NULL, bytes);
    if (!t->expected) return complain(c, "out of memory for '%s'", t->name);
    return t->read || !kiln_upload(c->machine->device, t->tensor.data, t->expected, bytes) || complain_status(c);
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
        if (param->spaced && param->access & ACCESS_OUT) return complain(c, "'%s' is written and strided", param->name);
        if (param->spaced) pad_items(&t->tensor);
        if (kiln_alloc(c->machine->device, device_bytes(&t->tensor), &memory)) return complain_status(c);
        t->tensor.data = memory;
        t->name = param->name;
        t->read = param->access & ACCESS_IN;
        t->written = param->access & ACCESS_OUT;
        c->args[i] = KILN_TENSOR(&t->tensor);
        if ((t->read && !make_input(c, t, i)) || (t->written && !make_output(c, t))) return false;
    }
    if (latent_plan(c)) return complain_status(c);
    if (kiln_workspace_size(c->build.kernel, c->args, plan->n_params, &c->workspace_bytes)) return complain_status(c);
    return !c->workspace_bytes || !kiln_alloc(c->machine->device, c->workspace_bytes, &c->workspace) ||
           complain_status(c);
}

// What only comparing needs.
static void free_host(BenchCase *c)
{
    for (BenchTensor *t = c->tensors; t < c->tensors + PLAN_MAX_PARAMS; t++) {
        if (t->name && !is_own(c, t)) free(t->before);
        free(t->expected);
        t->before = t->expected = NULL;
    }
}

bool bench_case_launch(void *context)
{
    BenchCase *const c = context;
    return !kiln_launch_with(c->build.kernel, NULL, c->args, c->build.kernel->plan->n_params, c->workspace,
                             c->workspace_bytes) ||
           complain_status(c);
}

// ---- what should come out

// A reference over the case's tensors.
typedef struct Referring {
    BenchCase *c;
    const char *without; // the parameter that gets none; NULL: all get theirs
} Referring;

static const BenchTensor *tensor_for(const Referring *r, const char *parameter)
{
    return r->without && strcmp(parameter, r->without) == 0 ? NULL : bench_tensor(r->c, parameter);
}

static bool has_tensor(const void *context, const char *parameter) { return tensor_for(context, parameter) != NULL; }

static bool run_reference(const Referring *r, kiln_kernel *reference, int64_t instances)
{
    const LaunchPlan *const plan = reference->plan;
    kiln_arg args[PLAN_MAX_PARAMS];
    kiln_tensor host[PLAN_MAX_PARAMS];
    for (int i = 0; i < plan->n_params; i++) {
        const PlanParam *const param = &plan->params[i];
        const BenchTensor *const t = tensor_for(r, param->name);
        args[i] = dtype_is_float(param->type) ? KILN_FLOAT(bench_number(r->c, param->name))
                                              : KILN_INT(bench_integer(r->c, param->name, 1)); // of a plan: any
        if (!param->is_tensor) continue;
        args[i] = t ? KILN_TENSOR(&host[i]) : KILN_NONE;
        if (!t) continue;
        host[i] = t->tensor;
        host[i].device = NULL;
        host[i].has_strides = false;
        host[i].data = t->before && !t->written ? t->before : t->expected;
    }
    return !reference_run_some(reference, args, plan->n_params, instances) || complain_status(r->c);
}

static bool refer(BenchCase *c, Arena *arena, const char *kernel, const char *without, int64_t instances)
{
    const Referring r = { c, without };
    kiln_kernel *reference = NULL;
    if (bench_reference(arena, c->program, kernel, c->values->build, c->values->n_build, has_tensor, &r, &reference))
        return complain_status(c);
    const bool ok = run_reference(&r, reference, instances);
    kiln_kernel_free(reference);
    return ok;
}

static bool make_between(BenchCase *c, const char *name, const char *like)
{
    const BenchTensor *const shape = bench_tensor(c, like);
    BenchTensor *t = c->tensors + c->build.kernel->plan->n_params;
    while (t < c->tensors + PLAN_MAX_PARAMS && t->name) t++;
    if (!shape || t == c->tensors + PLAN_MAX_PARAMS) return complain(c, "no room for '%s'", name);
    *t = (BenchTensor){ .tensor = shape->tensor, .name = name };
    t->tensor.data = NULL;
    t->expected = host_expected(NULL, kiln_tensor_bytes(&t->tensor));
    return t->expected || complain(c, "out of memory for '%s'", name);
}

static bool expect(BenchCase *c, Arena *arena, const Expectation *e)
{
    const ByParts *const by = e->by_parts;
    if (!by) return refer(c, arena, e->reference ? e->reference : c->row->kernel, NULL, e->samples);
    for (int i = 0; i < COUNT(by->between) && by->between[i]; i++)
        if (!make_between(c, by->between[i], by->like)) return false;
    for (int i = 0; i < PARTS_MAX && by->parts[i].kernel; i++)
        if (!refer(c, arena, by->parts[i].kernel, by->parts[i].without, by->parts[i].whole ? INT64_MAX : e->samples))
            return false;
    return true;
}

// ---- looking at the results

static bool compare_output(BenchCase *c, const BenchTensor *t)
{
    const Results results = { t->name, &t->tensor, t->read ? t->before : NULL, t->expected, 1 };
    const Verdict verdict = results_compare(&results, c->machine->device, c->problem, sizeof c->problem);
    c->wrong = verdict == RESULTS_WRONG;
    return verdict == RESULTS_FIT;
}

static bool run_and_check(BenchCase *c, Arena *arena, const Expectation *e)
{
    if (!bench_case_launch(c)) return false;
    if (kiln_stream_wait(c->machine->device, NULL)) return complain_status(c);
    if (!expect(c, arena, e)) return false;
    for (const BenchTensor *t = c->tensors; t < c->tensors + PLAN_MAX_PARAMS; t++)
        if (t->name && t->written && !compare_output(c, t)) return false;
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
    const Expectation *const e = find_expectation(row->kernel);
    *c = (BenchCase){ .row = row, .machine = machine };
    if (!e) return complain(c, "no expectation is written for '%s'", row->kernel);
    const bool ok = build(c, arena, kernels) && make_tensors(c) && run_and_check(c, arena, e);
    free_host(c);
    return ok;
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
