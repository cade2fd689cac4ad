// SPDX-License-Identifier: MIT
// operators.c - an operator as a plan: temporaries and kernels in sequence.
//
// Its parameters are bound as a kernel's are, into an interface without a body. Statements are declarations of
// temporaries and of scalars that a launch can compute, preconditions, conditions, and calls of kernels. Each call
// specialises its kernel; what the operator knows of shapes when built is passed down as bindings.
#include "check/context.h"

typedef struct Planner {
    Checker *cx;
    VEC(Buffer *) temps;
    VEC(OperatorStep) steps;
    Expr *when; // conditions at run time around this place; NULL: none
} Planner;

// ---- temporaries

static void plan_temps(Planner *plan, const St *st)
{
    Checker *const cx = plan->cx;
    const DType type = resolve_type(cx, &st->decl.type);
    for (const Declarator *one = st->decl.names; one; one = one->next) {
        Entity entity = { .kind = ENTITY_POISON,
                          .name = one->name,
                          .span = one->span,
                          .what = "a temporary",
                          .may_read = true,
                          .may_write = true };
        bool ok = type != DTYPE_NONE;
        Buffer *const temp = tile_new_buffer(cx->kernel, BUFFER_TENSOR, type, one->name, 0, one->span);
        temp->access = ACCESS_INOUT;
        if (!one->extents) ok = check_error(cx, one->span, "a temporary needs extents: %s[...]", one->name);
        if (one->init) ok = check_error(cx, one->init->span, "a temporary has no initial value; a kernel writes it");
        for (const Ex *extent = one->extents; extent && ok; extent = extent->next) {
            if (temp->rank == MAX_RANK) {
                ok = check_error(cx, extent->span, "more than %d dimensions", MAX_RANK);
                break;
            }
            Expr *const x = check_int(cx, extent, "an extent");
            if (x && !known_at_launch(x))
                ok = check_error(cx, extent->span,
                                 "the extent of a temporary depends on shapes and scalar arguments only");
            ok &= x != NULL;
            temp->shape[temp->rank++] = x;
        }
        if (ok) {
            entity.kind = ENTITY_BUFFER;
            entity.buffer = temp;
            VEC_PUSH(cx->arena, &plan->temps, temp);
        }
        declare(cx, entity);
    }
}

static int temp_index(const Planner *plan, const Buffer *buffer)
{
    for (int i = 0; i < plan->temps.count; i++)
        if (plan->temps.items[i] == buffer) return i;
    return -1;
}

// ---- one call

typedef struct StepArguments {
    OperatorArg *args;
    Entity **entities;
    Value *values;
    int n;
} StepArguments;

static Entity *optional_entity(Checker *cx, const Ex *ex)
{
    Entity *const entity = ex->kind == EX_NAME ? find_entity(cx, ex->name.name) : NULL;
    if (!entity) return NULL;
    return entity->kind == ENTITY_ABSENT || (entity->kind == ENTITY_BUFFER && entity->optional) ? entity : NULL;
}

static bool tensor_fits(Checker *cx, const Param *param, const Ex *ex, const Entity *entity)
{
    int rank = 0;
    const Buffer *const buffer = entity->buffer;
    for (const Ex *extent = param->extents; extent; extent = extent->next) rank++;
    if (rank != buffer->rank) {
        check_error(cx, ex->span, "'%s' has %d dimension%s, '%s' of the kernel has %d", entity->name, buffer->rank,
                    buffer->rank == 1 ? "" : "s", param->name, rank);
        check_note(cx, param->span, "the parameter");
        return false;
    }
    const bool reads = param->mode != MODE_OUT, writes = param->mode != MODE_IN;
    if ((!reads || entity->may_read) && (!writes || entity->may_write)) return true;
    check_error(cx, ex->span, "'%s' is '%s', and '%s' of the kernel '%s'", entity->name,
                entity->may_read ? "in" : "out", param->name,
                param->mode == MODE_IN    ? "in"
                : param->mode == MODE_OUT ? "out"
                                          : "inout");
    check_note(cx, entity->span, "declared here");
    return false;
}

// Of `c ? X : none`, whose condition is known when it is built, the side that it chooses.
static const Ex *chosen_argument(Checker *cx, const Ex *ex)
{
    while (ex->kind == EX_SELECT) {
        const Expr *const cond = check_condition(cx, ex->select.cond);
        bool known;
        if (!cond) return NULL;
        if (!is_const_bool(cond, &known)) break;
        ex = known ? ex->select.a : ex->select.b;
    }
    return ex;
}

static bool tensor_argument(Planner *plan, const Param *param, const Ex *written, OperatorArg *arg, Entity **used)
{
    Checker *const cx = plan->cx;
    *arg = (OperatorArg){ .param = -1, .temp = -1 };
    const Ex *const ex = chosen_argument(cx, written);
    if (!ex) return false;
    if (ex->kind == EX_NONE) {
        arg->none = true;
        return param->optional || check_error(cx, ex->span, "'%s' is not optional", param->name);
    }
    if (ex->kind != EX_NAME)
        return check_error(cx, ex->span, "'%s' takes the name of a tensor, a temporary, or none", param->name);
    Entity *const entity =
        param->optional && optional_entity(cx, ex) ? optional_entity(cx, ex) : get_entity(cx, ex->name.name, ex->span);
    if (entity->kind == ENTITY_POISON) return false;
    if (entity->kind == ENTITY_ABSENT) {
        arg->none = true;
        if (param->optional) return true;
    }
    if (!param->optional && entity->optional && !is_known_present(cx, entity))
        return check_error(cx, ex->span, "'%s' may be absent, and '%s' of the kernel is not optional", entity->name,
                           param->name);
    if (entity->kind == ENTITY_ABSENT) return false;
    if (entity->kind != ENTITY_BUFFER)
        return check_error(cx, ex->span, "'%s' is a tensor, and '%s' a scalar", param->name, entity->name);
    if (!tensor_fits(cx, param, ex, entity)) return false;
    arg->temp = temp_index(plan, entity->buffer);
    if (arg->temp < 0) arg->param = entity->buffer->param;
    *used = entity;
    return true;
}

static bool scalar_argument(Checker *cx, const Param *param, const Ex *ex, OperatorArg *arg, Value *value)
{
    *arg = (OperatorArg){ .param = -1, .temp = -1 };
    *value = check_scalar(cx, ex);
    if (value->kind == VALUE_POISON) return false;
    if (known_at_launch(value->expr)) return true;
    return check_error(cx, ex->span, "'%s' is given a value known at launch: shapes, scalar arguments, constants",
                       param->name);
}

static bool step_arguments(Planner *plan, const Decl *decl, const Ex *call, StepArguments *all)
{
    Checker *const cx = plan->cx;
    int wanted = 0, given = 0;
    bool ok = true;
    for (const Param *param = decl->params; param; param = param->next) wanted++;
    for (const Ex *arg = call->call.args; arg; arg = arg->next) given++;
    if (given != wanted) {
        check_error(cx, call->span, "'%s' takes %d argument%s, not %d", decl->name, wanted, wanted == 1 ? "" : "s",
                    given);
        check_note(cx, decl->name_span, "declared here");
        return false;
    }
    all->args = NEW_ARRAY(cx->arena, OperatorArg, wanted + 1);
    all->entities = NEW_ARRAY(cx->arena, Entity *, wanted + 1);
    all->values = NEW_ARRAY(cx->arena, Value, wanted + 1);
    const Ex *ex = call->call.args;
    for (const Param *param = decl->params; param; param = param->next, ex = ex->next, all->n++) {
        if (param->extents) ok &= tensor_argument(plan, param, ex, &all->args[all->n], &all->entities[all->n]);
        else ok &= scalar_argument(cx, param, ex, &all->args[all->n], &all->values[all->n]);
    }
    return ok;
}

// ---- specialising its kernel

typedef struct Bindings {
    VEC(Binding) list;
} Bindings;

static void bind_build_value(Checker *cx, Bindings *bindings, const BuildParam *build, Value v, bool *ok)
{
    Binding binding = { .name = build->name };
    if (v.kind == VALUE_POISON) {
        *ok = false;
        return;
    }
    if (v.kind == VALUE_TYPE) {
        binding.kind = BIND_TYPE;
        binding.type = v.type;
    } else if (v.kind == VALUE_FUNCTION) {
        binding.kind = BIND_FN;
        binding.function = v.function;
    } else if (v.kind == VALUE_SCALAR && v.expr->kind == E_INT) {
        binding.kind = BIND_INT;
        binding.integer = v.expr->integer.value;
    } else if (v.kind == VALUE_SCALAR && v.expr->kind == E_FLOAT) {
        binding.kind = BIND_FLOAT;
        binding.real = v.expr->real.value;
    } else {
        *ok = check_error(cx, v.span, "the value of '%s' must be known when built", build->name);
        return;
    }
    VEC_PUSH(cx->arena, &bindings->list, binding);
}

static bool build_bindings(Checker *cx, const Decl *decl, const Ex *call, const StepArguments *args, Bindings *bindings)
{
    bool ok = true;
    const Ex *given = call->call.build;
    for (const BuildParam *build = decl->build; build; build = build->next) {
        if (given) {
            bind_build_value(cx, bindings, build, check_build_value(cx, build, given), &ok);
            given = given->next;
            continue;
        }
        // Types and extents not given are told by the arguments, as a function's are.
        int i = 0;
        Value found = POISON;
        for (const Param *param = decl->params; param && found.kind == VALUE_POISON; param = param->next, i++) {
            if (!args->entities[i]) continue;
            const Buffer *const buffer = args->entities[i]->buffer;
            if (build->kind == BUILD_TYPE && param->type.name == build->name)
                found = (Value){ .kind = VALUE_TYPE, .span = call->span, .type = buffer->type };
            int d = 0;
            for (const Ex *extent = param->extents; build->kind == BUILD_INT && extent; extent = extent->next, d++)
                if (extent->kind == EX_NAME && extent->name.name == build->name && expr_is_const(buffer->shape[d]))
                    found = scalar_value(buffer->shape[d], call->span);
        }
        if (found.kind != VALUE_POISON) bind_build_value(cx, bindings, build, found, &ok);
    }
    if (given) ok = check_error(cx, given->span, "'%s' has fewer build parameters", decl->name);
    return ok;
}

static bool is_binding_of(const Bindings *bindings, Name name)
{
    for (int i = 0; i < bindings->list.count; i++)
        if (bindings->list.items[i].name == name) return true;
    return false;
}

static bool is_build_param(const Decl *decl, Name name)
{
    for (const BuildParam *build = decl->build; build; build = build->next)
        if (build->name == name) return true;
    for (const Param *param = decl->params; param; param = param->next)
        if (param->name == name) return true;
    return false;
}

// Absent tensors, and plain extents whose size is known here.
static void bind_arguments(Checker *cx, const Decl *decl, const StepArguments *args, Bindings *bindings)
{
    int i = 0;
    for (const Param *param = decl->params; param; param = param->next, i++) {
        if (args->args[i].none)
            VEC_PUSH(cx->arena, &bindings->list, ((Binding){ .name = param->name, .kind = BIND_NONE }));
        if (!args->entities[i]) continue;
        if (args->entities[i]->buffer->stride[0])
            VEC_PUSH(cx->arena, &bindings->list, ((Binding){ .name = param->name, .kind = BIND_STRIDED }));
        if (args->entities[i]->buffer->strided && !param->strided)
            VEC_PUSH(cx->arena, &bindings->list, ((Binding){ .name = param->name, .kind = BIND_UNALIGNED }));
        int d = 0;
        for (const Ex *extent = param->extents; extent; extent = extent->next, d++) {
            int64_t value;
            if (extent->kind != EX_NAME || !expr_as_int(args->entities[i]->buffer->shape[d], &value)) continue;
            if (find_file_constant_named(cx, extent->name.name) || is_build_param(decl, extent->name.name)) continue;
            if (is_binding_of(bindings, extent->name.name)) continue;
            VEC_PUSH(cx->arena, &bindings->list,
                     ((Binding){ .name = extent->name.name, .kind = BIND_INT, .integer = value }));
        }
    }
}

static bool types_agree(Checker *cx, const Decl *decl, const Ex *call, const StepArguments *args,
                        const TileKernel *kernel)
{
    bool ok = true;
    const Ex *ex = call->call.args;
    for (int i = 0; i < kernel->n_params; i++, ex = ex->next) {
        const TileParam *const param = &kernel->params[i];
        if (!param->is_tensor || !args->entities[i]) continue;
        const Buffer *const given = args->entities[i]->buffer;
        if (given->type != param->tensor->type) {
            ok = check_error(cx, ex->span, "'%s' is a tensor of %s, and '%s' of the kernel of %s",
                             args->entities[i]->name, dtype_name(given->type), param->name,
                             dtype_name(param->tensor->type));
            check_note(cx, param->span, "the parameter");
            continue;
        }
        for (int d = 0; d < given->rank; d++) {
            int64_t have, want;
            if (!expr_as_int(given->shape[d], &have) || !expr_as_int(param->tensor->shape[d], &want) || have == want)
                continue;
            ok = check_error(cx, ex->span, "extent %d of '%s' is %lld, and of '%s' of the kernel %lld", d,
                             args->entities[i]->name, (long long)have, param->name, (long long)want);
            check_note(cx, param->span, "the parameter");
        }
    }
    return ok;
}

static void plan_call(Planner *plan, const St *st)
{
    Checker *const cx = plan->cx;
    const Ex *const call = st->call.call;
    const Decl *const decl = program_find(cx->program, DECL_KERNEL, call->call.name);
    if (!decl) {
        const bool is_operator = program_find(cx->program, DECL_OPERATOR, call->call.name) != NULL;
        check_error(cx, call->call.name_span,
                    is_operator ? "'%s' is an operator; operators run kernels" : "there is no kernel '%s'",
                    call->call.name);
        const char *names[256];
        int n = 0;
        for (int m = 0; m < cx->program->n_modules; m++)
            for (const Decl *one = cx->program->modules[m]->decls; one && n < 256; one = one->next)
                if (one->kind == DECL_KERNEL) names[n++] = one->name;
        const char *const near = nearest_name(call->call.name, names, n);
        if (near && !is_operator) check_help(cx, call->call.name_span, "did you mean '%s'?", near);
        return;
    }
    StepArguments args = { 0 };
    Bindings bindings = { 0 };
    if (!step_arguments(plan, decl, call, &args) || !build_bindings(cx, decl, call, &args, &bindings)) return;
    bind_arguments(cx, decl, &args, &bindings);
    CheckOptions options = *cx->options;
    options.bindings = bindings.list.items;
    options.n_bindings = bindings.list.count;
    TileKernel *const kernel = check_kernel(cx->program, decl->name, &options);
    if (!kernel) {
        cx->errors++;
        check_note(cx, call->span, "in the kernel run here");
        return;
    }
    if (!types_agree(cx, decl, call, &args, kernel)) return;
    for (int i = 0; i < kernel->n_params; i++)
        if (!kernel->params[i].is_tensor &&
            !(args.args[i].scalar = convert_expr(cx, args.values[i], kernel->params[i].scalar->type)))
            return;
    Expr *const when = plan->when ? expr_folded(cx->arena, plan->when) : NULL;
    if (when && expr_is_int(when, 0)) return; // never, as shapes are
    VEC_PUSH(cx->arena, &plan->steps,
             ((OperatorStep){ kernel, args.args, args.n, when && expr_is_const(when) ? NULL : when }));
}

// ---- statements

static void plan_statements(Planner *plan, const St *list);

static void plan_arm(Planner *plan, const Ex *cond_ex, bool truth_of_cond, Expr *cond, const St *arm)
{
    Checker *const cx = plan->cx;
    Expr *const when = plan->when;
    Entity *const names = cx->names;
    PresentFact *const present = cx->present;
    if (!arm) return;
    St one = *arm;
    one.next = NULL;
    assume_present(cx, cond_ex, truth_of_cond);
    if (cond) plan->when = when ? expr_binary(cx->arena, X_AND, when, cond) : cond;
    plan_statements(plan, one.kind == ST_BLOCK ? one.block.body : &one);
    plan->when = when;
    cx->names = names;
    cx->present = present;
}

static void plan_if(Planner *plan, const St *st)
{
    Checker *const cx = plan->cx;
    Expr *const cond = check_condition(cx, st->branch.cond);
    bool known;
    if (!cond) return;
    if (is_const_bool(cond, &known)) {
        plan_arm(plan, st->branch.cond, known, NULL, known ? st->branch.then : st->branch.otherwise);
        return;
    }
    if (!known_at_launch(cond)) {
        check_error(cx, st->branch.cond->span, "an operator chooses by shapes, scalar arguments and build parameters");
        return;
    }
    plan_arm(plan, st->branch.cond, true, cond, st->branch.then);
    plan_arm(plan, st->branch.cond, false, expr_unary(cx->arena, X_NOT, cond), st->branch.otherwise);
}

static void plan_statement(Planner *plan, const St *st)
{
    Checker *const cx = plan->cx;
    Entity *const names = cx->names;
    switch ((int)st->kind) {
    case ST_BLOCK:
        plan_statements(plan, st->block.body);
        cx->names = names;
        break;
    case ST_DECL:
        if (st->decl.storage == STORE_TEMP) plan_temps(plan, st);
        else if (st->decl.storage == STORE_SCALAR)
            check_statements(cx, &(St){ .kind = ST_DECL, .span = st->span, .decl = st->decl });
        else check_error(cx, st->span, "tiles belong to kernels; an operator has 'temp' tensors");
        break;
    case ST_IF: plan_if(plan, st); break;
    case ST_CALL: plan_call(plan, st); break;
    case ST_REQUIRE:
        if (plan->when) check_error(cx, st->span, "a precondition stands outside of conditions");
        else check_require(cx, st);
        break;
    default:
        check_error(cx, st->span,
                    "an operator holds temporaries, scalars, preconditions, conditions and calls of kernels");
    }
}

static void plan_statements(Planner *plan, const St *list)
{
    for (; list; list = list->next) plan_statement(plan, list);
}

OperatorPlan *check_operator(Program *program, const char *name, const CheckOptions *options)
{
    const Decl *const decl = program_find(program, DECL_OPERATOR, name);
    if (!decl) {
        report_missing_operator(program, name);
        return NULL;
    }
    Checker *const cx = new_checker(program, decl, options);
    TileKernel *const k = new_kernel(cx, decl->name);
    resolve_build_params(cx, decl, options->bindings, options->n_bindings);
    k->key = build_key(cx, decl);
    bind_parameters(cx, decl, false);
    report_unused_bindings(cx);
    cx->is_launch_time = true;
    Planner plan = { .cx = cx };
    plan_statements(&plan, decl->body);
    finish_parameters(cx);
    k->body = NULL;
    if (plan.steps.count == 0 && cx->errors == 0) check_error(cx, decl->name_span, "the operator runs no kernel");
    if (cx->errors > 0) return NULL;
    return NEW(cx->arena, OperatorPlan, .interface = k, .temps = plan.temps.items, .n_temps = plan.temps.count,
               .steps = plan.steps.items, .n_steps = plan.steps.count);
}
