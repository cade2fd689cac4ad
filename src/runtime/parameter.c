// SPDX-License-Identifier: MIT
// parameter.c - what a built kernel takes: its parameters, and the extents of a tensor that is not there yet.
#include "plan/code.h"
#include "runtime/runtime.h"

int kiln_kernel_parameters(const kiln_kernel *kernel) { return kernel ? kernel->plan->n_params : 0; }

const char *kiln_kernel_parameter_name(const kiln_kernel *kernel, int index)
{
    return kernel && index >= 0 && index < kernel->plan->n_params ? kernel->plan->params[index].name : NULL;
}

static kiln_arg_kind parameter_kind(const PlanParam *param)
{
    if (param->absent) return KILN_ARG_NONE;
    if (param->is_tensor) return KILN_ARG_TENSOR;
    return dtype_is_float(param->type) ? KILN_ARG_FLOAT : KILN_ARG_INT;
}

static kiln_status check_index(const char *function, const kiln_kernel *kernel, int index)
{
    if (!kernel) return status_fail(KILN_BAD_ARGUMENT, "%s: 'kernel' is null", function);
    if (index < 0 || index >= kernel->plan->n_params)
        return status_fail(KILN_BAD_ARGUMENT, "%s: 'index' is %d, but '%s' has %d parameters", function, index,
                           kernel->plan->name, kernel->plan->n_params);
    return KILN_OK;
}

kiln_status kiln_kernel_parameter(const kiln_kernel *kernel, int index, kiln_parameter *parameter)
{
    kiln_status status = check_index("kiln_kernel_parameter", kernel, index);
    if (!status && !parameter) status = status_fail(KILN_BAD_ARGUMENT, "kiln_kernel_parameter: 'parameter' is null");
    if (!status) status = status_check_size("kiln_kernel_parameter", parameter->struct_size, sizeof *parameter);
    if (status) return status;
    const PlanParam *const param = &kernel->plan->params[index];
    *parameter = (kiln_parameter){ .struct_size = parameter->struct_size,
                                   .name = param->name,
                                   .kind = parameter_kind(param),
                                   .type = type_of_dtype(param->type),
                                   .rank = param->is_tensor ? param->rank : 0,
                                   .reads = !param->is_tensor || (param->access & ACCESS_IN),
                                   .writes = param->is_tensor && (param->access & ACCESS_OUT),
                                   .optional = param->optional,
                                   .strided = param->strided || param->spaced };
    return KILN_OK;
}

// ---- extents

typedef struct Known {
    const LaunchPlan *plan;
    bool has_symbol[PLAN_MAX_BINDS], has_scalar[PLAN_MAX_PARAMS];
    int64_t symbols[PLAN_MAX_BINDS], scalars[PLAN_MAX_PARAMS];
} Known;

static const kiln_tensor *given_tensor(const Known *known, const kiln_arg *args, int i)
{
    const PlanParam *const param = &known->plan->params[i];
    const bool is_there = param->is_tensor && !param->absent && args[i].kind == KILN_ARG_TENSOR && args[i].tensor;
    return is_there && args[i].tensor->rank == param->rank ? args[i].tensor : NULL;
}

// Whether `code` is a symbol, or one plus a constant.
static bool is_symbol(const LaunchPlan *plan, PlanCode code, int *symbol, int64_t *more)
{
    const int64_t *const words = &plan->code[code.start];
    *more = 0;
    if ((code.length != 1 && code.length != 4) || plan_kind(words[0]) != P_SYMBOL) return false;
    *symbol = plan_index(words[0]);
    if (code.length == 1) return true;
    *more = words[2];
    return plan_kind(words[1]) == P_CONST && plan_kind(words[3]) == P_BINARY && plan_what(words[3]) == X_ADD;
}

// The first extent that is a symbol, but for a constant, gives it its value.
static void learn_symbols(Known *known, const kiln_tensor *tensor, int i)
{
    int symbol;
    int64_t more;
    for (int d = 0; d < tensor->rank; d++) {
        if (!is_symbol(known->plan, known->plan->params[i].shape[d], &symbol, &more) || known->has_symbol[symbol])
            continue;
        known->symbols[symbol] = tensor->shape[d] - more;
        known->has_symbol[symbol] = true;
    }
}

static void learn_scalar(Known *known, const kiln_arg *arg, int i)
{
    const PlanParam *const param = &known->plan->params[i];
    if (param->is_tensor || param->absent || (arg->kind != KILN_ARG_INT && arg->kind != KILN_ARG_FLOAT)) return;
    const bool is_float = dtype_is_float(param->type);
    if (arg->kind == KILN_ARG_FLOAT && !is_float) return;
    const double real = arg->kind == KILN_ARG_FLOAT ? arg->real : (double)arg->integer;
    known->scalars[i] = arg->integer;
    if (is_float) memcpy(&known->scalars[i], &real, sizeof real);
    known->has_scalar[i] = true;
}

// What `code` needs and nothing gives; NULL: nothing.
static const char *find_unknown(const Known *known, PlanCode code)
{
    for (int at = 0; at < code.length; at++) {
        const int64_t word = known->plan->code[code.start + at];
        const int index = plan_index(word);
        if (plan_kind(word) == P_CONST) at++;
        if (plan_kind(word) == P_SYMBOL && !known->has_symbol[index]) return known->plan->binds[index].symbol;
        if (plan_kind(word) == P_SCALAR && !known->has_scalar[index]) return known->plan->params[index].name;
    }
    return NULL;
}

static kiln_status find_extent(const Known *known, int index, int dim, int64_t *extent)
{
    const PlanParam *const param = &known->plan->params[index];
    const char *const kernel = known->plan->name, *const unknown = find_unknown(known, param->shape[dim]);
    if (unknown)
        return status_fail(KILN_BAD_SHAPE, "%s: dimension %d of '%s' depends on %s, which no other argument gives",
                           kernel, dim, param->name, unknown);
    if (plan_eval(known->plan, param->shape[dim], known->symbols, known->scalars, extent) || *extent < 0)
        return status_fail(KILN_BAD_SHAPE, "%s: dimension %d of '%s' has no extent with these arguments", kernel, dim,
                           param->name);
    return KILN_OK;
}

// What nothing gives, a tensor of another rank would have given.
static kiln_status name_rank(const LaunchPlan *plan, const kiln_arg *args, int index, kiln_status status)
{
    for (int i = 0; i < plan->n_params; i++) {
        const PlanParam *const param = &plan->params[i];
        const bool is_there = i != index && param->is_tensor && args[i].kind == KILN_ARG_TENSOR && args[i].tensor;
        if (is_there && args[i].tensor->rank != param->rank)
            return status_fail(KILN_BAD_SHAPE, "%s: '%s' has rank %d, expected %d", plan->name, param->name,
                               args[i].tensor->rank, param->rank);
    }
    return status;
}

kiln_status kiln_kernel_extents(const kiln_kernel *kernel, const kiln_arg *args, int n_args, int index, int64_t *shape)
{
    kiln_status status = check_index("kiln_kernel_extents", kernel, index);
    if (status) return status;
    const LaunchPlan *const plan = kernel->plan;
    if (!args || !shape)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_kernel_extents: '%s' is null", args ? "shape" : "args");
    if (n_args != plan->n_params)
        return status_fail(KILN_BAD_ARGUMENT, "%s: %d arguments given, expected %d", plan->name, n_args,
                           plan->n_params);
    if (!plan->params[index].is_tensor || plan->params[index].absent)
        return status_fail(KILN_BAD_TYPE, "%s: '%s' is no tensor of this kernel", plan->name, plan->params[index].name);
    Known known = { .plan = plan };
    for (int i = 0; i < n_args; i++) {
        const kiln_tensor *const tensor = i == index ? NULL : given_tensor(&known, args, i);
        if (tensor) learn_symbols(&known, tensor, i);
        learn_scalar(&known, &args[i], i);
    }
    for (int d = 0; !status && d < plan->params[index].rank; d++) status = find_extent(&known, index, d, &shape[d]);
    return status ? name_rank(plan, args, index, status) : KILN_OK;
}
