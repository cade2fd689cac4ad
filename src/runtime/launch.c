// SPDX-License-Identifier: MIT
// launch.c - check the arguments of a launch against the plan, then lay out the words the code takes.
//
// The order is fixed, so that the first message is about the cause: count, kinds, pointers, types, ranks, extents,
// strides, device, alignment of each argument; then what binds and must agree between them; then overlap; then the
// author's `require`s. Nothing has been started when one of these fails, and every message names the argument.
#include "runtime/prepared.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

// ---- one argument

static const char *const arg_kind_names[] = { "none", "a tensor", "an integer", "a floating-point number" };

static kiln_status check_kind(const Launch *launch, int i)
{
    const PlanParam *const param = &launch->plan->params[i];
    const kiln_arg *const arg = &launch->args[i];
    const char *const kernel = launch->plan->name;
    if ((unsigned)arg->kind > KILN_ARG_FLOAT)
        return status_fail(KILN_BAD_TYPE, "%s: argument %d ('%s') has an unknown kind (%d)", kernel, i + 1, param->name,
                           (int)arg->kind);
    if (param->absent)
        return arg->kind == KILN_ARG_NONE
                   ? KILN_OK
                   : status_fail(KILN_BAD_ARGUMENT,
                                 "%s: argument %d ('%s') is given, but the kernel was built with %s=none", kernel,
                                 i + 1, param->name, param->name);
    if (param->is_tensor && arg->kind == KILN_ARG_NONE && param->optional)
        return status_fail(KILN_BAD_ARGUMENT,
                           "%s: argument %d ('%s') is none, but the kernel was built for it to be "
                           "present; build it with %s=none",
                           kernel, i + 1, param->name, param->name);
    if (param->is_tensor)
        return arg->kind == KILN_ARG_TENSOR
                   ? KILN_OK
                   : status_fail(KILN_BAD_TYPE, "%s: argument %d ('%s') is %s, expected a tensor of %s", kernel, i + 1,
                                 param->name, arg_kind_names[arg->kind], dtype_name(param->type));
    const bool fits = arg->kind == KILN_ARG_INT || (arg->kind == KILN_ARG_FLOAT && dtype_is_float(param->type));
    return fits ? KILN_OK
                : status_fail(KILN_BAD_TYPE, "%s: argument %d ('%s') is %s, expected a scalar of type %s", kernel,
                              i + 1, param->name, arg_kind_names[arg->kind], dtype_name(param->type));
}

// What types build parameters have chosen: " in softmax<f16,f16,1024>"; "": there are none.
static const char *built_as(const LaunchPlan *plan, const char **key)
{
    *key = plan->key && strchr(plan->key, '<') ? plan->key : "";
    return **key ? " in " : "";
}

static kiln_status check_pointer(const Launch *launch, int i)
{
    const PlanParam *const param = &launch->plan->params[i];
    const kiln_tensor *const tensor = launch->args[i].tensor;
    if (!tensor)
        return status_fail(KILN_BAD_ARGUMENT, "%s: argument %d ('%s') is a null tensor pointer", launch->plan->name,
                           i + 1, param->name);
    if (type_of_dtype(param->type) != tensor->type) {
        const char *key, *const in = built_as(launch->plan, &key);
        return status_fail(KILN_BAD_TYPE, "%s: '%s' is a tensor of %s, expected %s%s%s", launch->plan->name,
                           param->name, kiln_type_name(tensor->type), kiln_type_name(type_of_dtype(param->type)), in,
                           key);
    }
    if (tensor->rank != param->rank)
        return status_fail(KILN_BAD_SHAPE, "%s: '%s' has rank %d, expected %d", launch->plan->name, param->name,
                           tensor->rank, param->rank);
    return KILN_OK;
}

static kiln_status check_extents(const Launch *launch, int i)
{
    const PlanParam *const param = &launch->plan->params[i];
    const kiln_tensor *const tensor = launch->args[i].tensor;
    for (int d = 0; d < tensor->rank; d++)
        if (tensor->shape[d] < 0)
            return status_fail(KILN_BAD_SHAPE, "%s: dimension %d of '%s' is %" PRId64, launch->plan->name, d,
                               param->name, tensor->shape[d]);
    const int64_t elements = tensor_elements(tensor);
    if (elements < 0)
        return status_fail(KILN_BAD_SHAPE, "%s: '%s' has more elements than memory can hold", launch->plan->name,
                           param->name);
    if (elements > 0 && !tensor->data)
        return status_fail(KILN_BAD_ARGUMENT,
                           "%s: '%s' has no data: its pointer is null and it has %" PRId64 " elements",
                           launch->plan->name, param->name, elements);
    return KILN_OK;
}

static kiln_status fail_overlap(const Launch *launch, int i, int dim)
{
    return status_fail(
        KILN_BAD_SHAPE, "%s: '%s' is written, but with stride %" PRId64 " in dimension %d its elements overlap",
        launch->plan->name, launch->plan->params[i].name, tensor_stride(launch->args[i].tensor, dim), dim);
}

// Contiguous rows that lie multiples of 16 bytes apart.
static kiln_status check_rows(const Launch *launch, int i)
{
    const PlanParam *const param = &launch->plan->params[i];
    const char *const kernel = launch->plan->name;
    int dim;
    switch (tensor_check_rows(launch->args[i].tensor, (param->access & ACCESS_OUT) != 0, &dim)) {
    case ROWS_FIT: return KILN_OK;
    case ROWS_BROKEN:
        return status_fail(KILN_BAD_SHAPE, "%s: '%s' has stride %" PRId64 " in its last dimension, expected 1", kernel,
                           param->name, tensor_stride(launch->args[i].tensor, dim));
    case ROWS_UNALIGNED:
        return status_fail(
            KILN_BAD_ALIGNMENT,
            "%s: dimension %d of '%s' has stride %" PRId64 ", which is %" PRId64
            " bytes, expected a positive multiple of 16 below 2^36 elements",
            kernel, dim, param->name, tensor_stride(launch->args[i].tensor, dim),
            (int64_t)((uint64_t)tensor_stride(launch->args[i].tensor, dim) * (uint64_t)dtype_bits(param->type)) / 8);
    case ROWS_OVERLAP: return fail_overlap(launch, i, dim);
    }
    return KILN_OK;
}

static kiln_status check_strides(const Launch *launch, int i)
{
    const PlanParam *const param = &launch->plan->params[i];
    const kiln_tensor *const tensor = launch->args[i].tensor;
    int dim;
    int64_t expected;
    if (param->spaced) return check_rows(launch, i);
    if (!param->strided && !tensor_is_contiguous(tensor, &dim, &expected))
        return status_fail(KILN_BAD_SHAPE,
                           "%s: '%s' must be contiguous: dimension %d has stride %" PRId64 ", expected %" PRId64
                           " (the kernel was not built with %s=strided)",
                           launch->plan->name, param->name, dim, tensor->strides[dim], expected, param->name);
    if (!tensor->has_strides) return KILN_OK;
    for (int d = 0; d < tensor->rank; d++) {
        const int64_t stride = tensor->strides[d], extent = tensor->shape[d];
        int64_t reach;
        if (extent > 1 &&
            (__builtin_mul_overflow(stride, extent, &reach) || reach > INT64_C(1) << 58 || reach < -(INT64_C(1) << 58)))
            return status_fail(KILN_BAD_SHAPE,
                               "%s: dimension %d of '%s' has stride %" PRId64 ", which leaves the memory",
                               launch->plan->name, d, param->name, stride);
    }
    if ((param->access & ACCESS_OUT) && tensor_overlaps_itself(tensor, &dim)) return fail_overlap(launch, i, dim);
    return KILN_OK;
}

int launch_alignment(const LaunchPlan *plan, const PlanParam *param)
{
    const int bytes = dtype_bits(param->type) / 8;
    if (param->strided) return bytes > 1 ? bytes : 1; // accessed by elements
    return plan->min_alignment > bytes ? plan->min_alignment : bytes > 1 ? bytes : 1;
}

static kiln_status check_place(const Launch *launch, const kiln_device *device, int i)
{
    const PlanParam *const param = &launch->plan->params[i];
    const kiln_tensor *const tensor = launch->args[i].tensor;
    const bool same = tensor->device == device || (device_is_cpu(tensor->device) && device_is_cpu(device));
    if (!same)
        return status_fail(KILN_BAD_DEVICE, "%s: '%s' is memory of %s, but the kernel runs on %s", launch->plan->name,
                           param->name, tensor->device ? tensor->device->name : "the host", kiln_device_name(device));
    const int alignment = launch_alignment(launch->plan, param);
    if (tensor->data && (uintptr_t)tensor->data % (uintptr_t)alignment != 0)
        return status_fail(KILN_BAD_ALIGNMENT, "%s: the data of '%s' (%p) is not aligned to %d bytes",
                           launch->plan->name, param->name, tensor->data, alignment);
    return KILN_OK;
}

static kiln_status check_tensor(const Launch *launch, const kiln_device *device, int i)
{
    kiln_status status = check_pointer(launch, i);
    if (!status) status = check_extents(launch, i);
    if (!status) status = check_strides(launch, i);
    if (!status) status = check_place(launch, device, i);
    return status;
}

static bool integer_fits(DType type, int64_t value)
{
    const int bits = dtype_bits(type);
    if (type == DTYPE_BOOL) return value == 0 || value == 1;
    if (bits >= 64) return value >= 0 || !dtype_is_unsigned(type);
    if (dtype_is_unsigned(type)) return value >= 0 && value >> bits == 0;
    return value >= -(INT64_C(1) << (bits - 1)) && value < INT64_C(1) << (bits - 1);
}

static kiln_status take_scalar(Launch *launch, int i)
{
    const PlanParam *const param = &launch->plan->params[i];
    const kiln_arg *const arg = &launch->args[i];
    if (dtype_is_float(param->type)) {
        const double value = arg->kind == KILN_ARG_INT ? (double)arg->integer : arg->real;
        memcpy(&launch->scalars[i], &value, sizeof value);
        return KILN_OK;
    }
    if (!integer_fits(param->type, arg->integer))
        return status_fail(KILN_BAD_ARGUMENT, "%s: argument %d ('%s') is %" PRId64 ", which %s cannot hold",
                           launch->plan->name, i + 1, param->name, arg->integer, dtype_name(param->type));
    launch->scalars[i] = arg->integer;
    return KILN_OK;
}

// ---- between arguments

static int64_t extent_of(const Launch *launch, int param, int dim) { return launch->args[param].tensor->shape[dim]; }

static bool is_present_tensor(const Launch *launch, int i)
{
    return launch->plan->params[i].is_tensor && !launch->plan->params[i].absent;
}

static kiln_status bind_symbols(Launch *launch)
{
    const LaunchPlan *const plan = launch->plan;
    for (int i = 0; i < plan->n_binds; i++) {
        const PlanBind *const bind = &plan->binds[i];
        if (bind->is_stride) {
            launch->symbols[i] = tensor_row_stride(launch->args[bind->param].tensor, bind->dim);
            continue;
        }
        launch->symbols[i] = extent_of(launch, bind->param, bind->dim) - bind->subtract;
        if (launch->symbols[i] < 0)
            return status_fail(KILN_BAD_SHAPE,
                               "%s: dimension %d of '%s' is %" PRId64 ", expected at least %" PRId64
                               " (it is %s + %" PRId64 ")",
                               plan->name, bind->dim, plan->params[bind->param].name,
                               extent_of(launch, bind->param, bind->dim), bind->subtract, bind->symbol, bind->subtract);
    }
    return KILN_OK;
}

// The value of `code`; where it has none, that is said of `what`, with the values it may have been made of.
kiln_status launch_eval(const Launch *launch, PlanCode code, int64_t *value, const char *what, ...)
{
    const LaunchPlan *const plan = launch->plan;
    const OpFault fault = plan_eval(plan, code, launch->symbols, launch->scalars, value);
    if (!fault) return KILN_OK;
    char subject[240], values[240] = "";
    va_list args;
    va_start(args, what);
    vsnprintf(subject, sizeof subject, what, args);
    va_end(args);
    size_t n = 0;
    for (int i = 0; i < plan->n_binds && n < sizeof values; i++)
        n += (size_t)snprintf(values + n, sizeof values - n, "%s%s = %" PRId64, n ? ", " : "", plan->binds[i].symbol,
                              launch->symbols[i]);
    for (int i = 0; i < plan->n_params && n < sizeof values; i++)
        if (!plan->params[i].is_tensor && !dtype_is_float(plan->params[i].type))
            n += (size_t)snprintf(values + n, sizeof values - n, "%s%s = %" PRId64, n ? ", " : "", plan->params[i].name,
                                  launch->scalars[i]);
    return status_fail(KILN_BAD_SHAPE, "%s: %s %s%s%s%s", plan->name, subject, op_fault_text(fault),
                       *values ? " (" : "", values, *values ? ")" : "");
}

// Where the other half of a mismatch came from: "because 'A' has K = 64".
static void name_source(const Launch *launch, const char *text, char *out, size_t n)
{
    out[0] = 0;
    for (int i = 0; i < launch->plan->n_binds; i++) {
        const PlanBind *const bind = &launch->plan->binds[i];
        if (strcmp(bind->symbol, text) == 0)
            snprintf(out, n, ", but '%s' has %s = %" PRId64, launch->plan->params[bind->param].name, text,
                     launch->symbols[i]);
    }
}

static kiln_status check_shapes(const Launch *launch)
{
    const LaunchPlan *const plan = launch->plan;
    for (int i = 0; i < plan->n_checks; i++) {
        const PlanCheck *const check = &plan->checks[i];
        const int64_t is = extent_of(launch, check->param, check->dim);
        const char *text = check->text ? check->text : "";
        char source[160], number[24];
        int64_t expected;
        const kiln_status status = launch_eval(launch, check->expected, &expected, "dimension %d of '%s', %s,",
                                               check->dim, plan->params[check->param].name, text);
        if (status) return status;
        if (is == expected) continue;
        snprintf(number, sizeof number, "%" PRId64, expected);
        if (strcmp(text, number) == 0) text = ""; // it says nothing more
        name_source(launch, text, source, sizeof source);
        if (source[0])
            return status_fail(KILN_BAD_SHAPE, "%s: '%s' of '%s' (dimension %d) is %" PRId64 "%s", plan->name, text,
                               plan->params[check->param].name, check->dim, is, source);
        return status_fail(KILN_BAD_SHAPE, "%s: dimension %d of '%s' is %" PRId64 ", expected %" PRId64 "%s%s%s",
                           plan->name, check->dim, plan->params[check->param].name, is, expected, *text ? " (" : "",
                           text, *text ? ")" : "");
    }
    return KILN_OK;
}

static kiln_status check_overlap(const Launch *launch)
{
    const LaunchPlan *const plan = launch->plan;
    uintptr_t begin[PLAN_MAX_PARAMS], end[PLAN_MAX_PARAMS];
    for (int i = 0; i < plan->n_params; i++) {
        if (!is_present_tensor(launch, i) || !tensor_range(launch->args[i].tensor, &begin[i], &end[i]))
            begin[i] = end[i] = 0; // nothing lies in it
        for (int j = 0; j < i; j++) {
            const bool i_writes = plan->params[i].access & ACCESS_OUT, j_writes = plan->params[j].access & ACCESS_OUT;
            if (begin[i] >= end[j] || begin[j] >= end[i] || (!i_writes && !j_writes) ||
                !tensors_overlap(launch->args[i].tensor, launch->args[j].tensor))
                continue;
            return status_fail(KILN_BAD_ARGUMENT, "%s: '%s' and '%s' overlap in memory, and '%s' is written",
                               plan->name, plan->params[j].name, plan->params[i].name,
                               plan->params[i_writes ? i : j].name);
        }
    }
    return KILN_OK;
}

static kiln_status check_requires(const Launch *launch)
{
    const LaunchPlan *const plan = launch->plan;
    for (int i = 0; i < plan->n_requires; i++) {
        const PlanRequire *const require = &plan->requires[i];
        int64_t holds;
        const kiln_status status =
            launch_eval(launch, require->cond, &holds, "the requirement \"%s\"", require->message);
        if (status) return status;
        if (!holds) return status_fail(KILN_BAD_SHAPE, "%s: %s", plan->name, require->message);
    }
    return KILN_OK;
}

static kiln_status check_symbols(Launch *launch)
{
    const LaunchPlan *const plan = launch->plan;
    int first = -1;
    for (int i = 0; plan->symbol_max && i < plan->n_binds; i++) {
        const bool is_wide = plan->wide >> i & 1;
        if (plan->binds[i].is_stride || launch->symbols[i] <= (is_wide ? WIDE_SYMBOL_MAX : plan->symbol_max)) continue;
        launch->too_large |= (uint64_t)!is_wide << i;
        if (first < 0 || is_wide) first = i;
    }
    if (first < 0) return KILN_OK;
    launch->needs_other = !(plan->wide >> first & 1); // else no build would do
    return status_fail(KILN_BAD_SHAPE, "%s: %s is at most %" PRId64, plan->name, plan->binds[first].symbol,
                       plan->wide >> first & 1 ? WIDE_SYMBOL_MAX : plan->symbol_max);
}

static kiln_status check_boxes(Launch *launch)
{
    const LaunchPlan *const plan = launch->plan;
    int64_t holds = 1;
    if (plan->boxes.length) plan_eval(plan, plan->boxes, launch->symbols, launch->scalars, &holds);
    if (holds) return KILN_OK;
    launch->needs_other = true;
    return status_fail(KILN_UNSUPPORTED, "%s: there is no build for rows that are not multiples of 16 bytes",
                       plan->name);
}

// ---- the words

static kiln_status measure_grid(Launch *launch)
{
    launch->instances = 1;
    for (int i = 0; i < launch->plan->n_grid; i++) {
        int64_t extent;
        const kiln_status status = launch_eval(launch, launch->plan->grid[i], &extent, "extent %d of the grid", i);
        if (status) return status;
        launch->grid[i] = extent < 0 ? 0 : extent;
    }
    for (int i = 0; i < launch->plan->n_grid; i++)
        if (launch->grid[i] == 0) launch->instances = 0;
    for (int i = 0; launch->instances && i < launch->plan->n_grid; i++)
        if (__builtin_mul_overflow(launch->instances, launch->grid[i], &launch->instances) ||
            launch->instances > INT64_C(1) << 62)
            return status_fail(KILN_BAD_SHAPE, "%s: the grid has more than 2^62 instances", launch->plan->name);
    return KILN_OK;
}

// A scalar in its own type, in the low bytes of a word.
static int64_t scalar_word(DType type, int64_t value)
{
    if (!dtype_is_float(type)) return value;
    double wide;
    int64_t word = 0;
    memcpy(&wide, &value, sizeof wide);
    element_set(type, &word, 0, wide);
    return word;
}

static void add_tensor_words(Launch *launch, const PlanParam *param, const kiln_tensor *tensor)
{
    launch->words[launch->n_words++] = (int64_t)(uintptr_t)tensor->data;
    int64_t stride = 1, strides[MAX_RANK];
    for (int d = param->rank - 1; d >= 0; stride *= tensor->shape[d], d--)
        strides[d] = tensor->has_strides ? tensor->strides[d] : stride;
    for (int d = 0; param->strided && d < param->rank; d++) launch->words[launch->n_words++] = strides[d];
}

static void lay_out_words(Launch *launch)
{
    const LaunchPlan *const plan = launch->plan;
    launch->n_words = 0;
    for (int i = 0; i < plan->n_params; i++) {
        const PlanParam *const param = &plan->params[i];
        if (param->absent) continue;
        if (param->is_tensor) add_tensor_words(launch, param, launch->args[i].tensor);
        else launch->words[launch->n_words++] = scalar_word(param->type, launch->scalars[i]);
    }
    for (int i = 0; i < plan->n_binds; i++) launch->words[launch->n_words++] = launch->symbols[i];
    for (int i = 0; i < plan->n_grid; i++) launch->words[launch->n_words++] = launch->grid[i];
}

// What has no value is 0: it stands for tensors that were found to be sound.
static int64_t value_of(const Launch *launch, PlanCode code)
{
    int64_t value = 0;
    if (code.length) plan_eval(launch->plan, code, launch->symbols, launch->scalars, &value);
    return value;
}

static void compute_rest(Launch *launch)
{
    const LaunchPlan *const plan = launch->plan;
    int n = 0;
    for (int i = 0; i < plan->n_maps; i++) {
        const PlanMap *const map = &plan->maps[i];
        for (int d = 0; d < map->rank; d++) {
            launch->computed[n++] = value_of(launch, map->dim[d]);
            launch->computed[n++] = value_of(launch, map->stride[d]);
        }
        for (int d = 0; map->has_steps && d < map->rank; d++) launch->computed[n++] = value_of(launch, map->step[d]);
        for (int w = 0; w < map->n_walked; w++) {
            launch->computed[n++] = value_of(launch, map->walked[w].first);
            launch->computed[n++] = value_of(launch, map->walked[w].last);
        }
    }
    for (int i = 0; i < plan->n_extras; i++) launch->computed[n++] = value_of(launch, plan->extras[i].value);
    launch->n_computed = n;
}

void launch_address_words(const LaunchPlan *plan, int *words)
{
    int n = 0;
    for (int i = 0; i < plan->n_params; i++) {
        const PlanParam *const param = &plan->params[i];
        words[i] = n;
        n += param->absent ? 0 : 1 + (param->is_tensor && param->strided ? param->rank : 0);
    }
}

kiln_status launch_prepare(Launch *launch, const LaunchPlan *plan, const kiln_device *device, const kiln_arg *args,
                           int n_args)
{
    launch->plan = plan;
    launch->args = args;
    launch->needs_other = false;
    launch->too_large = 0;
    if (n_args != plan->n_params)
        return status_fail(KILN_BAD_ARGUMENT, "%s: %d arguments given, expected %d", plan->name, n_args,
                           plan->n_params);
    if (n_args && !args) return status_fail(KILN_BAD_ARGUMENT, "%s: 'args' is null", plan->name);
    kiln_status status = KILN_OK;
    for (int i = 0; !status && i < n_args; i++) status = check_kind(launch, i);
    for (int i = 0; !status && i < n_args; i++)
        if (!plan->params[i].is_tensor) status = take_scalar(launch, i);
        else if (!plan->params[i].absent) status = check_tensor(launch, device, i);
    if (!status) status = bind_symbols(launch);
    if (!status) status = check_shapes(launch);
    if (!status) status = check_overlap(launch);
    if (!status) status = check_requires(launch);
    if (!status) status = check_symbols(launch);
    if (!status) status = check_boxes(launch);
    if (!status) status = measure_grid(launch);
    if (!status) lay_out_words(launch);
    if (!status) compute_rest(launch);
    return status;
}

// ---- the public entry points

static kiln_status check_kernel_and_stream(const kiln_kernel *kernel, const kiln_stream *stream)
{
    if (!kernel) return status_fail(KILN_BAD_ARGUMENT, "kiln_launch: 'kernel' is null");
    if (!kernel->device)
        return status_fail(KILN_BAD_DEVICE, "%s: built without a device, so it cannot be launched", kernel->plan->name);
    if (stream && stream->device != kernel->device)
        return status_fail(KILN_BAD_DEVICE, "%s: runs on %s, but the stream is of %s", kernel->plan->name,
                           kernel->device->name, stream->device->name);
    return KILN_OK;
}

// `runs`: the kernel, or one that is built for larger shapes or for any rows.
static kiln_status prepare(kiln_kernel *kernel, const kiln_arg *args, int n_args, Launch *launch, kiln_kernel **runs)
{
    *runs = kernel;
    kiln_status status = launch_prepare(launch, kernel->plan, kernel->device, args, n_args);
    if (status && launch->needs_other && kernel->widen && !(status = kernel->widen(kernel, launch->too_large, runs)))
        status = launch_prepare(launch, (*runs)->plan, (*runs)->device, args, n_args);
    return status;
}

static kiln_status run_recorded(kiln_kernel *runs, kiln_stream *stream, const Launch *launch, void *workspace,
                                size_t workspace_bytes, Recording *r)
{
    if (runs->steps) return runs->run_steps(runs, stream, launch, workspace, workspace_bytes, r);
    if (!launch->instances) return KILN_OK;
    recording_step(r, runs, launch);
    return runs->device->kind->launch(runs, stream, launch);
}

kiln_status launch_recorded(kiln_kernel *kernel, kiln_stream *stream, const kiln_arg *args, int n_args, void *workspace,
                            size_t workspace_bytes, Recording *r)
{
    Launch launch;
    kiln_kernel *runs;
    kiln_status status = check_kernel_and_stream(kernel, stream);
    if (!status) status = prepare(kernel, args, n_args, &launch, &runs);
    return status ? status : run_recorded(runs, stream, &launch, workspace, workspace_bytes, r);
}

__attribute__((noinline)) static kiln_status launch_first(kiln_kernel *kernel, kiln_stream *stream,
                                                          const kiln_arg *args, int n_args, void *workspace,
                                                          size_t workspace_bytes)
{
    Launch launch;
    Recording r;
    kiln_kernel *runs;
    kiln_status status = prepare(kernel, args, n_args, &launch, &runs);
    if (status) return status;
    recording_of_args(&r, &launch, n_args);
    status = run_recorded(runs, stream, &launch, workspace, workspace_bytes, &r);
    if (!status) prepared_keep(kernel, &r, args, n_args, true);
    return status;
}

kiln_status kiln_launch_with(kiln_kernel *kernel, kiln_stream *stream, const kiln_arg *args, int n_args,
                             void *workspace, size_t workspace_bytes)
{
    kiln_status status = check_kernel_and_stream(kernel, stream);
    if (status || prepared_launch(kernel, stream, args, n_args, workspace, workspace_bytes, &status)) return status;
    return launch_first(kernel, stream, args, n_args, workspace, workspace_bytes);
}

kiln_status kiln_launch(kiln_kernel *kernel, kiln_stream *stream, const kiln_arg *args, int n_args)
{
    return kiln_launch_with(kernel, stream, args, n_args, NULL, 0);
}
