// SPDX-License-Identifier: MIT
// cases.c - build, feed, run and judge one case of a check.
//
// Every tensor lies between guards, and whatever nobody has written is poison: NaN for floating point, so that an
// element read that should not be shows in the result, and one not written that should be shows too. Kernel and
// reference start from the same poison: what neither writes agrees.
#include "tools/cases.h"
#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { POISON_FLOAT = 0xff, POISON_INTEGER = 0xa5 };

static bool complain(Case *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool complain(Case *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->problem, sizeof c->problem, format, args);
    va_end(args);
    return false;
}

static bool complain_status(Case *c, const char *what)
{
    return complain(c, "%s%s%s", what ? what : "", what ? ": " : "", kiln_error_message());
}

// ---- building

static kiln_device *cpu_device(void)
{
    static kiln_device *cpu;
    if (!cpu) kiln_device_open("cpu", &cpu);
    return cpu;
}

static kiln_status build_form(CaseBuild *build, const CaseOptions *options, KernelForm form, kiln_kernel **kernel)
{
    const bool host = form != FORM_KERNEL;
    BuildRequest request = { .device = host ? cpu_device() : options->device,
                             .program = build->program,
                             .name = build->name,
                             .bindings = build->bindings,
                             .n_bindings = build->n_bindings,
                             .checked = !host && options->build.check,
                             .form = form };
    const kiln_status status = target_choose(request.device, host ? NULL : &options->build, &request.target);
    request.target.trace = !host && options->trace;
    return status ? status : kernel_build(&request, kernel);
}

bool case_build(CaseBuild *build, const CaseOptions *options)
{
    const double begin = seconds_now();
    build->status = build_form(build, options, FORM_KERNEL, &build->kernel);
    if (!build->status && build->has_reference)
        build->status = build_form(build, options, FORM_REFERENCE, &build->reference);
    if (!build->status && build->has_verify) build->status = build_form(build, options, FORM_VERIFY, &build->verify);
    if (build->status) build->message = memory_copy_text(kiln_error_message());
    build->seconds = seconds_now() - begin;
    return build->status == KILN_OK;
}

void case_build_free(CaseBuild *build)
{
    kiln_kernel_free(build->kernel);
    kiln_kernel_free(build->reference);
    kiln_kernel_free(build->verify);
    memory_free(build->message);
}

// ---- tensors

static int poison_of(DType type) { return dtype_is_float(type) ? POISON_FLOAT : POISON_INTEGER; }

static size_t describe_tensor(const PlanParam *param, const CaseTensor *t, char *text, size_t bytes)
{
    int used = snprintf(text, bytes, "%s%s %s", t->spread ? "strided " : "", param->name, kiln_type_name(t->host.type));
    for (int d = 0; d < t->host.rank && used < (int)bytes; d++)
        used += snprintf(text + used, bytes - (size_t)used, "[%" PRId64 "]", t->host.shape[d]);
    return (size_t)used < bytes ? (size_t)used : bytes - 1;
}

static bool tensor_open(Case *c, CaseTensor *t, const kiln_tensor *like)
{
    const DType type = dtype_of_type(like->type);
    t->host = *like;
    t->bytes = kiln_tensor_bytes(like);
    t->block = aligned_alloc(4096, (2 * GUARD_BYTES + t->bytes + 4095) & ~(size_t)4095);
    if (!t->block) return complain(c, "out of memory: %zu bytes for a tensor", t->bytes);
    memset(t->block, poison_of(type), 2 * GUARD_BYTES + t->bytes);
    t->host.data = t->block + GUARD_BYTES;
    t->host.device = NULL;
    t->device = t->host;
    return true;
}

// Which byte of the guards was written, counted from the tensor's nearer end: 1 is the first past it, -1 the last before it. 0: none.
static int damaged_byte(const CaseTensor *t)
{
    const char poison = (char)poison_of(dtype_of_type(t->host.type));
    for (int i = 1; i <= GUARD_BYTES; i++) {
        if (t->block[GUARD_BYTES + t->bytes + (size_t)i - 1] != poison) return i;
        if (t->block[GUARD_BYTES - i] != poison) return -i;
    }
    return 0;
}

static void tensor_close(CaseTensor *t)
{
    if (t->device.device) kiln_free(t->device.device, (char *)t->device.data - GUARD_BYTES);
    free(t->block);
    free(t->spread);
}

// The guards travel too, so that they are looked at on the device as well.
static bool tensor_upload(Case *c, CaseTensor *t)
{
    const size_t bytes = 2 * GUARD_BYTES + (t->spread ? t->spread_bytes : t->bytes);
    void *memory;
    if (device_is_cpu(c->options.device)) return true;
    if (kiln_alloc(c->options.device, bytes, &memory)) return complain_status(c, NULL);
    t->device.device = c->options.device;
    t->device.data = (char *)memory + GUARD_BYTES;
    return !kiln_upload(c->options.device, memory, t->spread ? t->spread : t->block, bytes) || complain_status(c, NULL);
}

static bool tensor_download(Case *c, CaseTensor *t, const char *name)
{
    const size_t bytes = 2 * GUARD_BYTES + (t->spread ? t->spread_bytes : t->bytes);
    bool gaps_hold;
    if (t->device.device &&
        kiln_download(t->device.device, t->spread ? t->spread : t->block, (char *)t->device.data - GUARD_BYTES, bytes))
        return complain_status(c, NULL);
    gather_tensor(t, poison_of(dtype_of_type(t->host.type)), &gaps_hold);
    return gaps_hold || complain(c, "memory around or between the rows of '%s' was written", name);
}

// ---- what the case says

static const Binding *find_binding(const CheckCase *check, const char *name)
{
    for (int i = 0; i < check->n_launch; i++)
        if (strcmp(check->launch[i].name, name) == 0) return &check->launch[i];
    for (int i = 0; i < check->n_build; i++)
        if (strcmp(check->build[i].name, name) == 0) return &check->build[i];
    return NULL;
}

static bool make_symbols(Case *c, int64_t *symbols)
{
    const LaunchPlan *const plan = c->build->kernel->plan;
    for (int i = 0; i < plan->n_binds; i++) {
        const Binding *const b = find_binding(c->check, plan->binds[i].symbol);
        if (plan->binds[i].is_stride) continue; // shapes do not depend on it
        if (!b || b->kind != BIND_INT)
            return complain(c, "the check gives no value for the shape symbol '%s'", plan->binds[i].symbol);
        symbols[i] = b->integer;
    }
    return true;
}

static bool make_scalars(Case *c, int64_t *scalars)
{
    const LaunchPlan *const plan = c->build->kernel->plan;
    for (int i = 0; i < plan->n_params; i++) {
        const PlanParam *const param = &plan->params[i];
        if (param->is_tensor) continue;
        const Binding *const b = find_binding(c->check, param->name);
        if (!b || (b->kind != BIND_INT && b->kind != BIND_FLOAT))
            return complain(c, "the check gives no value for the argument '%s'", param->name);
        const double real = b->kind == BIND_INT ? (double)b->integer : b->real;
        if (dtype_is_float(param->type)) {
            memcpy(&scalars[i], &real, sizeof real);
            c->args[i] = KILN_FLOAT(real);
        } else {
            scalars[i] = b->kind == BIND_INT ? b->integer : (int64_t)b->real;
            c->args[i] = KILN_INT(scalars[i]);
        }
    }
    return true;
}

static const CaseInput *find_input(const CheckCase *check, int param)
{
    for (int i = 0; i < check->n_inputs; i++)
        if (check->inputs[i].param == param) return &check->inputs[i];
    return NULL;
}

static uint64_t seed_of(const Case *c, const char *tensor)
{
    uint64_t seed = 1469598103934665603u;
    for (const char *p = c->check->label ? c->check->label : ""; *p; p++)
        seed = (seed ^ (unsigned char)*p) * 1099511628211u;
    for (const char *p = tensor; *p; p++) seed = (seed ^ (unsigned char)*p) * 1099511628211u;
    return seed;
}

static bool make_input(Case *c, int i)
{
    static const CaseInput standard = { .kind = INPUT_NORMAL, .a = 0, .b = 1 }, zero = { .kind = INPUT_CONSTANT };
    const PlanParam *const param = &c->build->kernel->plan->params[i];
    const CaseInput *input = find_input(c->check, i);
    const kiln_tensor *const tensor = &c->inputs[i].host;
    if (!input && dtype_is_float(param->type)) input = &standard;
    if (!input && c->check->has_code) input = &zero;
    if (!input)
        return complain(c, "%s how to make '%s', a tensor of %s: add `input %s = ...;`",
                        c->check->decl ? "the check does not say" : "there is no check to say", param->name,
                        dtype_name(param->type), param->name);
    fill_input(input, dtype_of_type(tensor->type), tensor->data, tensor_elements(tensor), seed_of(c, param->name));
    return true;
}

// ---- opening

// Without a check the command line has to give everything; says what it lacks, as one would type it.
static bool has_values(Case *c)
{
    const LaunchPlan *const plan = c->build->kernel->plan;
    char lacks[512] = "";
    size_t n = 0;
    if (c->check->decl) return true;
    for (int i = 0; i < plan->n_binds + plan->n_params; i++) {
        const bool symbol = i < plan->n_binds;
        const char *const name = symbol ? plan->binds[i].symbol : plan->params[i - plan->n_binds].name;
        if ((symbol ? plan->binds[i].is_stride : plan->params[i - plan->n_binds].is_tensor) ||
            find_binding(c->check, name))
            continue;
        n += (size_t)snprintf(lacks + n, sizeof lacks - n, " %s=VALUE", name);
        if (n >= sizeof lacks) break;
    }
    return !n || complain(c, "'%s' has no `check` to take sizes and arguments from: give%s", c->build->name, lacks);
}

static size_t machine_bytes(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (size_t)pages * (size_t)bytes : SIZE_MAX;
}

// The shapes of all tensors, before any is made: poison and inputs up to one that memory does not hold take minutes, and
// the system grants more memory than it has.
static bool make_shapes(Case *c)
{
    const LaunchPlan *const plan = c->build->kernel->plan;
    const size_t most = machine_bytes();
    int64_t symbols[64] = { 0 }, scalars[PLAN_MAX_PARAMS] = { 0 };
    size_t total = 0;
    char what[256];
    if (!has_values(c) || !make_symbols(c, symbols) || !make_scalars(c, scalars)) return false;
    for (int i = 0; i < plan->n_params; i++) {
        const PlanParam *const param = &plan->params[i];
        kiln_tensor *const like = &c->inputs[i].host;
        if (!param->is_tensor || param->absent) continue;
        *like = (kiln_tensor){ .type = type_of_dtype(param->type), .rank = param->rank };
        for (int d = 0; d < param->rank; d++) {
            const OpFault fault = plan_eval(plan, param->shape[d], symbols, scalars, &like->shape[d]);
            if (fault) return complain(c, "dimension %d of '%s' %s", d, param->name, op_fault_text(fault));
            if (like->shape[d] < 0)
                return complain(c, "dimension %d of '%s' would be %" PRId64, d, param->name, like->shape[d]);
        }
        describe_tensor(param, &c->inputs[i], what, sizeof what);
        if (tensor_elements(like) < 0)
            return complain(c, "out of memory: %s has more elements than memory can hold", what);
        const size_t bytes = kiln_tensor_bytes(like);
        total += param->access & ACCESS_OUT ? 2 * bytes : bytes; // the reference's result too
        if (total > most)
            return complain(c,
                            "out of memory: %s takes %zu bytes; with it the tensors, and the reference's copies of "
                            "results, take %zu bytes, and this machine has %zu",
                            what, bytes, total, most);
    }
    return true;
}

static bool make_tensors(Case *c)
{
    const LaunchPlan *const plan = c->build->kernel->plan;
    if (!make_shapes(c)) return false;
    for (int i = 0; i < plan->n_params; i++) {
        const PlanParam *const param = &plan->params[i];
        if (!param->is_tensor || param->absent) continue;
        const kiln_tensor like = c->inputs[i].host;
        if (!tensor_open(c, &c->inputs[i], &like) ||
            ((param->access & ACCESS_OUT) && !tensor_open(c, &c->expected[i], &like)))
            return false;
        if ((param->access & ACCESS_IN) && !make_input(c, i)) return false;
    }
    return true;
}

static void make_args(Case *c)
{
    const LaunchPlan *const plan = c->build->kernel->plan;
    for (int i = 0; i < plan->n_params; i++) {
        const bool tensor = plan->params[i].is_tensor && !plan->params[i].absent;
        c->host_args[i] = tensor ? KILN_TENSOR(&c->inputs[i].host) : c->args[i];
        if (tensor) c->args[i] = KILN_TENSOR(&c->inputs[i].device);
    }
}

static bool run_case_code(Case *c)
{
    BuildRequest request = { .device = cpu_device(),
                             .program = c->build->program,
                             .name = c->build->name,
                             .form = FORM_CASE_CODE,
                             .one = c->check,
                             .bindings = c->build->bindings,
                             .n_bindings = c->build->n_bindings };
    kiln_kernel *code = NULL;
    kiln_status status = target_choose(request.device, NULL, &request.target);
    if (!status) status = kernel_build(&request, &code);
    if (!status) status = kiln_launch(code, NULL, c->host_args, code->plan->n_params);
    kiln_kernel_free(code);
    return !status || complain_status(c, "the statements of the check");
}

// What inout tensors hold before: the reference starts from the same.
static void copy_before(Case *c)
{
    const LaunchPlan *const plan = c->build->kernel->plan;
    for (int i = 0; i < plan->n_params; i++)
        if (c->expected[i].block) memcpy(c->expected[i].host.data, c->inputs[i].host.data, c->inputs[i].bytes);
}

static bool make_workspace(Case *c)
{
    const LaunchPlan *const plan = c->build->kernel->plan;
    if (kiln_workspace_size(c->build->kernel, c->args, plan->n_params, &c->workspace_bytes))
        return complain_status(c, NULL);
    if (!c->workspace_bytes) return true;
    if (kiln_alloc(c->options.device, c->workspace_bytes, &c->workspace)) return complain_status(c, "workspace");
    char *const poison = malloc(c->workspace_bytes);
    if (poison) {
        memset(poison, POISON_FLOAT, c->workspace_bytes);
        kiln_upload(c->options.device, c->workspace, poison, c->workspace_bytes);
    }
    free(poison);
    return true;
}

bool case_open(Case *c, const CaseBuild *build, const CheckCase *check, const CaseOptions *options)
{
    *c = (Case){ .build = build, .check = check, .options = *options };
    if (!make_tensors(c)) return false;
    make_args(c);
    if (check->has_code && !run_case_code(c)) return false;
    copy_before(c);
    for (int i = 0; i < build->kernel->plan->n_params; i++) {
        const PlanParam *const param = &build->kernel->plan->params[i];
        if (!c->inputs[i].block) continue;
        if ((param->strided || param->spaced) &&
            !spread_tensor(&c->inputs[i], param->spaced, options->tight, poison_of(param->type)))
            return complain(c, "out of memory for '%s'", param->name);
        if (!tensor_upload(c, &c->inputs[i])) return false;
    }
    return make_workspace(c);
}

void case_close(Case *c)
{
    for (int i = 0; i < PLAN_MAX_PARAMS; i++) {
        tensor_close(&c->inputs[i]);
        tensor_close(&c->expected[i]);
    }
    kiln_free(c->options.device, c->workspace);
}

// ---- what ran

void case_describe(const Case *c, char *text, size_t bytes)
{
    const LaunchPlan *const plan = c->build->kernel->plan;
    const kiln_device *const device = c->options.device;
    const int n = snprintf(text, bytes, "%s on %s", plan->key ? plan->key : plan->name, kiln_device_describe(device));
    size_t used = (size_t)n < bytes ? (size_t)n : bytes - 1;
    for (int i = 0; i < plan->n_params && used + 3 < bytes; i++)
        if (c->inputs[i].block) {
            memcpy(text + used, ", ", 3);
            used += 2 + describe_tensor(&plan->params[i], &c->inputs[i], text + used + 2, bytes - used - 2);
        }
}

// ---- running

bool case_launch(Case *c, kiln_stream *stream)
{
    return !kiln_launch_with(c->build->kernel, stream, c->args, c->build->kernel->plan->n_params, c->workspace,
                             c->workspace_bytes) ||
           complain_status(c, NULL);
}

bool case_run(Case *c)
{
    if (!case_launch(c, NULL)) return false;
    if (kiln_stream_wait(c->options.device, NULL)) return complain_status(c, c->build->name);
    for (int i = 0; i < c->build->kernel->plan->n_params; i++)
        if (c->inputs[i].block && !tensor_download(c, &c->inputs[i], c->build->kernel->plan->params[i].name))
            return false;
    return true;
}

// ---- judging

static bool check_guards(Case *c)
{
    const LaunchPlan *const plan = c->build->kernel->plan;
    for (int i = 0; i < plan->n_params; i++) {
        const int at = c->inputs[i].block ? damaged_byte(&c->inputs[i]) : 0;
        if (at)
            return complain(c, "memory %s '%s' was written: byte %d %s its %s", at > 0 ? "after" : "before",
                            plan->params[i].name, at > 0 ? at : -at, at > 0 ? "past" : "before",
                            at > 0 ? "end" : "beginning");
    }
    return true;
}

static bool run_reference(Case *c)
{
    const LaunchPlan *const plan = c->build->kernel->plan;
    kiln_arg args[PLAN_MAX_PARAMS];
    for (int i = 0; i < plan->n_params; i++)
        args[i] = c->expected[i].block ? KILN_TENSOR(&c->expected[i].host) : c->host_args[i];
    return !kiln_launch(c->build->reference, NULL, args, plan->n_params) || complain_status(c, "reference");
}

static bool run_verify(Case *c)
{
    const LaunchPlan *const plan = c->build->kernel->plan, *const verify = c->build->verify->plan;
    kiln_arg args[PLAN_MAX_PARAMS];
    memcpy(args, c->host_args, sizeof *args * (size_t)plan->n_params);
    for (int i = plan->n_params; i < verify->n_params; i++)
        for (int p = 0; p < plan->n_params; p++)
            if (strncmp(verify->params[i].name, "expected_", 9) == 0 &&
                strcmp(verify->params[i].name + 9, plan->params[p].name) == 0)
                args[i] = c->expected[p].block ? KILN_TENSOR(&c->expected[p].host) : KILN_NONE;
    return !kiln_launch(c->build->verify, NULL, args, verify->n_params) || complain_status(c, "verify");
}

// Of sums of fp8 products with 13 fraction bits of the largest term, over the longest extent that they may have: in units
// of the result's root mean square. With normal inputs the worst of 5000 sums was off by 1.6 * sqrt(n) * 2^-13.
static double lost_in_sums(const Case *c)
{
    int64_t n = 0;
    for (int i = 0; i < c->build->kernel->plan->n_params; i++) {
        const kiln_tensor *const t = &c->inputs[i].host;
        const bool fp8 = c->inputs[i].block && (t->type == KILN_E4M3 || t->type == KILN_E5M2);
        for (int d = 0; fp8 && d < t->rank; d++) n = t->shape[d] > n ? t->shape[d] : n;
    }
    return ldexp(4 * sqrt((double)n), -13);
}

static bool compare_outputs(Case *c)
{
    const LaunchPlan *const plan = c->build->kernel->plan;
    for (int i = 0; i < plan->n_params; i++) {
        if (!c->expected[i].block) continue;
        CaseTolerance t = tolerance_for(c->check, i, plan->params[i].type);
        if (t.by_type && c->options.unchecked_types) t.absolute = fmax(t.absolute, lost_in_sums(c));
        if (!compare_tensors(plan->params[i].name, &c->inputs[i].host, &c->expected[i].host, &t, c->problem,
                             sizeof c->problem))
            return false;
    }
    return true;
}

bool case_check(Case *c)
{
    if (!check_guards(c) || (c->build->reference && !run_reference(c))) return false;
    if (c->build->verify) return run_verify(c);
    return c->build->reference ? compare_outputs(c)
                               : complain(c, "nothing to compare with: '%s' has neither a reference nor a verify block",
                                          c->build->name);
}
