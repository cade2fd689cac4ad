// SPDX-License-Identifier: MIT
// tunings.c - the build values that `kiln tune` may try: every choice from the lists of build parameters that nothing else
// fixes, until there are as many as are asked for. A list may depend on the parameters before it, as a default may.
#include "check/context.h"

typedef struct Lister {
    Checker *cx;
    Tunings *all;
    int most;
    VEC(Binding) chosen; // of the parameters so far
    VEC(Binding) given;  // that are not the default, on the way to the first choice
} Lister;

static bool to_binding(Checker *cx, const BuildParam *param, Value v, Binding *binding)
{
    const Entity *const entity = cx->names;
    *binding = (Binding){ .name = param->name };
    if (entity->kind == ENTITY_TYPE) {
        binding->kind = BIND_TYPE;
        binding->type = entity->type;
    } else if (entity->kind == ENTITY_FUNCTION) {
        binding->kind = BIND_FN;
        binding->function = entity->function;
    } else if (entity->kind == ENTITY_VALUE && entity->value->kind == E_FLOAT) {
        binding->kind = BIND_FLOAT;
        binding->real = entity->value->real.value;
    } else if (entity->kind == ENTITY_VALUE && entity->value->kind == E_INT) {
        binding->kind = BIND_INT;
        binding->integer = entity->value->integer.value;
    } else {
        return v.kind == VALUE_POISON || check_error(cx, param->span, "a value of '%s' is not known", param->name);
    }
    return true;
}

static bool same_value(const Binding *a, const Binding *b)
{
    return a->kind == b->kind && a->integer == b->integer && memcmp(&a->real, &b->real, sizeof a->real) == 0 &&
           a->type == b->type && (a->kind != BIND_FN || strcmp(a->function, b->function) == 0);
}

// Remembers the value that is bound, declared last, if it is not the default.
static void note_given(Lister *l, const BuildParam *param, const Value *value)
{
    Checker *const cx = l->cx;
    Entity *const names = cx->names;
    Binding own, other;
    if (!to_binding(cx, param, *value, &own)) return;
    if (param->value) {
        cx->names = names->next;
        declare_build_param(cx, param, check_build_value(cx, param, param->value));
        if (to_binding(cx, param, *value, &other) && same_value(&own, &other)) param = NULL;
        cx->names = names;
    }
    if (param && !param->range) VEC_PUSH(cx->arena, &l->given, own);
}

static void list_from(Lister *l, const BuildParam *param);

typedef struct Tried {
    VEC(Binding) list;
} Tried; // values of one parameter

static bool is_tried(const Tried *tried, const Binding *binding)
{
    for (int i = 0; i < tried->list.count; i++)
        if (same_value(&tried->list.items[i], binding)) return true;
    return false;
}

// `tried`: where the value is one of a list, which may say it twice; else NULL.
static void with_value(Lister *l, const BuildParam *param, Value value, Tried *tried)
{
    Checker *const cx = l->cx;
    Entity *const names = cx->names;
    const int n = l->chosen.count;
    Binding binding;
    bool again = false;
    declare_build_param(cx, param, value);
    if (cx->errors == 0 && tried && to_binding(cx, param, value, &binding)) {
        again = is_tried(tried, &binding);
        VEC_PUSH(cx->arena, &tried->list, binding);
        VEC_PUSH(cx->arena, &l->chosen, binding);
    } else if (cx->errors == 0 && !tried && l->all->found == 0) {
        note_given(l, param, &value);
    }
    if (cx->errors == 0 && !again) list_from(l, param->next);
    l->chosen.count = n;
    cx->names = names;
}

static void keep(Lister *l)
{
    Tunings *const all = l->all;
    if (++all->found > l->most) return; // no more are asked for
    Binding *const values = NEW_ARRAY(l->cx->arena, Binding, l->chosen.count + 1);
    for (int i = 0; i < l->chosen.count; i++) values[i] = l->chosen.items[i];
    all->n_values = l->chosen.count;
    all->items[all->count++] = values;
}

// Of this parameter and those after it.
static void list_from(Lister *l, const BuildParam *param)
{
    Checker *const cx = l->cx;
    if (!param) {
        keep(l);
        return;
    }
    const Value given = given_build_value(cx, param);
    Tried tried = { .list = { 0 } };
    if (given.kind != VALUE_POISON || !param->range) {
        const bool has_default = given.kind == VALUE_POISON && param->value;
        with_value(l, param, has_default ? check_build_value(cx, param, param->value) : given, NULL);
        return;
    }
    for (const Ex *ex = param->range; ex && cx->errors == 0 && l->all->found <= l->most; ex = ex->next)
        with_value(l, param, check_build_value(cx, param, ex), &tried);
}

Tunings *check_tunings(Program *program, const char *name, const CheckOptions *options, int most)
{
    const Decl *const decl = find_launchable(program, name);
    Checker *const cx = new_checker(program, decl, options);
    Tunings *const all = NEW(program->arena, Tunings, .count = 0);
    Lister lister = { .cx = cx, .all = all, .most = most };
    all->items = NEW_ARRAY(program->arena, Binding *, most + 1);
    new_kernel(cx, name);
    list_from(&lister, decl->build);
    all->given = lister.given.items;
    all->n_given = lister.given.count;
    return cx->errors == 0 ? all : NULL;
}
