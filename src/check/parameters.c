// SPDX-License-Identifier: MIT
// parameters.c - build parameters: what stands in <...>, given by bindings, defaults, or deduced from a call.
#include "check/context.h"

static const char *const kind_names[] = {
    [BUILD_TYPE] = "a type",    [BUILD_INT] = "an integer", [BUILD_BOOL] = "true or false",
    [BUILD_FLOAT] = "a number", [BUILD_FN] = "a function",
};

static const Binding *find_binding(Checker *cx, Name name, const Binding *bindings, int n)
{
    for (int i = 0; i < n; i++)
        if (bindings[i].kind < BIND_NONE && strcmp(bindings[i].name, name) == 0) {
            if (cx->binding_used && bindings == cx->options->bindings) cx->binding_used[i] = true;
            return &bindings[i];
        }
    return NULL;
}

static const Binding *find_value_binding(Checker *cx, Name name)
{
    return find_binding(cx, name, cx->options->bindings, cx->options->n_bindings);
}

// What the parameter stands for with this value; poison (reported) if the value is of another kind.
static Entity build_entity(Checker *cx, const BuildParam *param, Value value)
{
    Entity entity = { .kind = ENTITY_POISON, .name = param->name, .span = param->span, .what = "a build parameter" };
    if (value.kind == VALUE_POISON) return entity;
    if (param->kind == BUILD_TYPE) {
        if (value.kind == VALUE_TYPE) {
            entity.kind = ENTITY_TYPE;
            entity.type = value.type;
            return entity;
        }
    } else if (param->kind == BUILD_FN) {
        if (value.kind == VALUE_FUNCTION) {
            entity.kind = ENTITY_FUNCTION;
            entity.function = value.function;
            return entity;
        }
    } else if (value.kind == VALUE_SCALAR && expr_is_const(value.expr)) {
        const DType type = param->kind == BUILD_INT    ? DTYPE_INT
                           : param->kind == BUILD_BOOL ? DTYPE_BOOL
                                                       : default_float(cx);
        const bool is_number = value.expr->kind == E_FLOAT || value.expr->type != DTYPE_BOOL;
        if (param->kind != BUILD_INT || (value.expr->kind == E_INT && is_number)) {
            entity.value = convert_expr(cx, value, type);
            if (entity.value) entity.kind = ENTITY_VALUE;
            entity.type = type;
            entity.is_constant = true;
            return entity;
        }
    }
    if (param->kind != BUILD_FN && value.kind == VALUE_SCALAR && !expr_is_const(value.expr))
        check_error(cx, value.span, "the value of '%s' must be known when built", param->name);
    else
        check_error(cx, value.span, "'%s' is %s, not %s", param->name, kind_names[param->kind], show_value(cx, &value));
    return entity;
}

// Of the program, or one that computes a number from numbers. It changes no scalar, so that what a body assigns does not
// depend on it.
Value check_function_name(Checker *cx, const Ex *ex)
{
    if (ex->kind != EX_NAME) return check_expression(cx, ex);
    const Name name = called_function(cx, ex->name.name);
    const Decl *const fn = find_function(cx, name);
    if (!fn && !is_builtin_math(name)) {
        const Entity *const entity = find_entity(cx, name);
        if (!entity && is_builtin(name))
            check_error(cx, ex->span, "'%s' cannot be a build parameter: it computes no number from numbers", name);
        else if (!entity) report_no_function(cx, name, ex->span);
        return entity ? check_expression(cx, ex) : POISON;
    }
    for (const Param *param = fn ? fn->params : NULL; param; param = param->next)
        if (!param->extents && (param->mode == MODE_OUT || param->mode == MODE_INOUT)) {
            check_error(cx, ex->span, "'%s' changes a scalar, so it cannot be a build parameter", name);
            check_note(cx, param->span, "here");
            return POISON;
        }
    return (Value){ .kind = VALUE_FUNCTION, .span = ex->span, .function = name };
}

Value check_build_value(Checker *cx, const BuildParam *param, const Ex *ex)
{
    return param->kind == BUILD_FN ? check_function_name(cx, ex) : check_expression(cx, ex);
}

static Value binding_value(Checker *cx, const Binding *binding, Span span)
{
    switch (binding->kind) {
    case BIND_INT:
        return (Value){
            .kind = VALUE_SCALAR, .span = span, .expr = int_const(cx->arena, binding->integer), .flexible = true
        };
    case BIND_FLOAT:
        return (Value){ .kind = VALUE_SCALAR,
                        .span = span,
                        .expr = expr_float(cx->arena, DTYPE_F64, binding->real),
                        .flexible = true };
    case BIND_TYPE: return (Value){ .kind = VALUE_TYPE, .span = span, .type = binding->type };
    case BIND_FN: {
        const Ex name = { .kind = EX_NAME, .span = span, .name = { intern_text(cx->arena, binding->function) } };
        return check_function_name(cx, &name);
    }
    case BIND_NONE: return (Value){ .kind = VALUE_NONE, .span = span };
    case BIND_STRIDED:
    case BIND_UNALIGNED: break;
    }
    return POISON;
}

Value given_build_value(Checker *cx, const BuildParam *param)
{
    const Binding *const binding = find_value_binding(cx, param->name);
    return binding ? binding_value(cx, binding, param->span) : POISON;
}

void declare_build_param(Checker *cx, const BuildParam *param, Value value)
{
    declare(cx, build_entity(cx, param, value));
}

// Of a kernel, an operator or a function.
bool check_build_count(Checker *cx, const Decl *decl)
{
    int n = 0;
    for (const BuildParam *param = decl->build; param; param = param->next)
        if (++n > PARAMETERS_MAX) return check_error(cx, param->span, "more than %d build parameters", PARAMETERS_MAX);
    return true;
}

bool resolve_build_params(Checker *cx, const Decl *decl, const Binding *bindings, int n)
{
    bool ok = check_build_count(cx, decl);
    for (const BuildParam *param = decl->build; param; param = param->next) {
        const Binding *const binding = find_binding(cx, param->name, bindings, n);
        Value value = POISON;
        if (binding) value = binding_value(cx, binding, param->span);
        else if (param->value) value = check_build_value(cx, param, param->value);
        else {
            check_error(cx, param->span, "'%s' has no default and was given no value", param->name);
            check_help(cx, param->span, "give one when building: %s<%s=...>", decl->name, param->name);
        }
        declare_build_param(cx, param, value);
        ok &= value.kind != VALUE_POISON;
    }
    return ok;
}

static bool is_bound_to(Checker *cx, Name name, BindKind kind)
{
    for (int i = 0; i < cx->options->n_bindings; i++)
        if (cx->options->bindings[i].kind == kind && strcmp(cx->options->bindings[i].name, name) == 0) {
            cx->binding_used[i] = true;
            return true;
        }
    return false;
}

bool is_bound_absent(Checker *cx, Name name) { return is_bound_to(cx, name, BIND_NONE); }
bool is_bound_strided(Checker *cx, Name name) { return is_bound_to(cx, name, BIND_STRIDED); }
bool is_bound_unaligned(Checker *cx, Name name) { return is_bound_to(cx, name, BIND_UNALIGNED); }

// A binding for a shape symbol or scalar, as a constant of `type`; NULL if it has none or a wrong one (reported).
Expr *bound_constant(Checker *cx, Name name, Span span, DType type)
{
    const Binding *const binding = find_value_binding(cx, name);
    if (!binding) return NULL;
    if (binding->kind == BIND_TYPE || binding->kind == BIND_FN) {
        check_error(cx, span, "'%s' is a number, not %s", name, binding->kind == BIND_TYPE ? "a type" : "a function");
        return NULL;
    }
    return convert_expr(cx, binding_value(cx, binding, span), type);
}

bool report_unused_bindings(Checker *cx)
{
    bool ok = true;
    for (int i = 0; i < cx->options->n_bindings; i++) {
        if (cx->binding_used[i]) continue;
        const char *const name = cx->options->bindings[i].name;
        const bool none = cx->options->bindings[i].kind == BIND_NONE;
        const Entity *const entity = find_entity(cx, intern_text(cx->arena, name));
        if (none && entity) {
            ok = check_error(cx, entity->span, "'%s' is not optional and cannot be none", name);
            continue;
        }
        const char *candidates[256];
        int n = 0;
        for (const Entity *e = cx->names; e && n < 256; e = e->next)
            if (e->what && e->kind != ENTITY_UNBOUND) candidates[n++] = e->name;
        ok = check_error(cx, cx->decl->name_span,
                         none ? "'%s' has no optional tensor '%s'"
                              : "'%s' has no build parameter, shape symbol or scalar argument '%s'",
                         cx->decl->name, name);
        const char *const near = nearest_name(name, candidates, n);
        if (near) check_help(cx, cx->decl->name_span, "did you mean '%s'?", near);
    }
    return ok;
}

const char *build_key(Checker *cx, const Decl *decl)
{
    Text text = { .arena = cx->arena };
    text_print(&text, "%s", decl->name);
    for (const BuildParam *param = decl->build; param; param = param->next) {
        const Entity *const entity = find_entity(cx, param->name);
        text_print(&text, "%s", param == decl->build ? "<" : ",");
        if (entity && entity->kind == ENTITY_TYPE) text_print(&text, "%s", dtype_name(entity->type));
        else if (entity && entity->kind == ENTITY_FUNCTION) text_print(&text, "%s", entity->function);
        else if (entity && entity->value) expr_print(&text, entity->value);
    }
    if (decl->build) text_print(&text, ">");
    return text_cstr(&text);
}
