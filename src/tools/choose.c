// SPDX-License-Identifier: MIT
// choose.c - what `kiln run` and `kiln tune` run: values of the command line, the others from the case of a check that is most
// like them.
#include "tools/measure.h"

#include <string.h>

static double size_of(const CheckCase *check)
{
    double size = 1;
    for (int i = 0; i < check->n_launch; i++)
        if (check->launch[i].kind == BIND_INT)
            size *= check->launch[i].integer < 0 ? 1 : (double)check->launch[i].integer;
    return size;
}

// Whether the case's build is one of those that were asked for; rows lie apart only where that was.
static bool agrees(const CheckCase *check, const Binding *values, int n)
{
    for (int j = 0; j < check->n_build; j++) {
        const Binding *const b = &check->build[j];
        bool asked = b->kind != BIND_STRIDED && b->kind != BIND_UNALIGNED;
        for (int i = 0; i < n; i++) {
            const Binding *const a = &values[i];
            if (strcmp(a->name, b->name) != 0) continue;
            if (a->kind != b->kind || a->integer != b->integer || a->type != b->type ||
                (a->kind == BIND_FN && strcmp(a->function, b->function) != 0))
                return false;
            asked = true;
        }
        if (!asked) return false;
    }
    return true;
}

// Build values: those of a list, then those of another that it does not name, then defaults.
typedef struct BuildValues {
    const Decl *decl;
    const Binding *first, *then;
    int n_first, n_then;
} BuildValues;

static const Binding *find_value(const Binding *values, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(values[i].name, name) == 0) return &values[i];
    return NULL;
}

// What a type parameter before `end` stands for. A default is a type or the name of an earlier parameter.
static DType type_called(const BuildValues *v, const char *name, const BuildParam *end)
{
    const Binding *given = find_value(v->first, v->n_first, name);
    if (!given) given = find_value(v->then, v->n_then, name);
    if (given) return given->type;
    for (const BuildParam *p = v->decl->build; p && p != end; p = p->next) {
        if (strcmp(p->name, name) != 0 || !p->value) continue;
        if (p->value->kind == EX_TYPE) return p->value->type.type;
        if (p->value->kind == EX_NAME) return type_called(v, p->value->name.name, p);
    }
    return DTYPE_NONE;
}

static bool same_types(const BuildValues *a, const BuildValues *b)
{
    for (const BuildParam *p = a->decl->build; p; p = p->next)
        if (p->kind == BUILD_TYPE && type_called(a, p->name, NULL) != type_called(b, p->name, NULL)) return false;
    return true;
}

// What a case is good for: the larger, the more of it.
typedef struct Likeness {
    bool fits;  // its build values, beside those given
    bool types; // its tolerance and inputs: the build has its types
    BuildValues wanted, own;
} Likeness;

static Likeness compare_case(const Decl *decl, const CheckCase *check, const Binding *values, int n)
{
    Likeness like = { .fits = agrees(check, values, n), .own = { decl, check->build, NULL, check->n_build, 0 } };
    like.wanted = (BuildValues){ decl, values, check->build, n, like.fits ? check->n_build : 0 };
    like.types = same_types(&like.wanted, &like.own);
    return like;
}

static DType type_of_param(const BuildValues *v, const Param *param)
{
    return param->type.name ? type_called(v, param->type.name, NULL) : param->type.type;
}

// An input is for the type of its tensor; a floating one is normal without it, an integer one has to have one.
static void keep_inputs(Arena *arena, CheckCase *check, const Likeness *like)
{
    CaseInput *const kept = NEW_ARRAY(arena, CaseInput, check->n_inputs);
    int n = 0;
    for (int i = 0; i < check->n_inputs; i++) {
        const Param *param = like->own.decl->params;
        for (int at = 0; at < check->inputs[i].param; at++) param = param->next;
        const DType type = type_of_param(&like->wanted, param);
        if (type == type_of_param(&like->own, param) || !dtype_is_float(type)) kept[n++] = check->inputs[i];
    }
    check->inputs = kept;
    check->n_inputs = n;
}

// Of the case, what holds for the values given; its sizes always do.
static const CheckCase *what_holds(Choice *choice, Arena *arena, const CheckCase *check, const Likeness *like)
{
    CheckCase *const copy = NEW(arena, CheckCase, .decl = NULL);
    *copy = *check;
    if (!like->fits) copy->n_build = 0;
    if (like->types) {
        choice->tolerance = check->n_tolerances ? arena_printf(arena, "that of %s", check->label) : "by type";
        return copy;
    }
    choice->tolerance = "by type, as no check has these types";
    choice->unchecked_types = true;
    copy->n_tolerances = 0;
    keep_inputs(arena, copy, like);
    return copy;
}

// The largest case of those that have the types, and agree with the values given, where there are any.
static const CheckCase *choose_base(Choice *choice, Arena *arena, kiln_program *program, const char *name,
                                    const Binding *values, int n)
{
    pthread_mutex_lock(&program->lock);
    program->program->diags = diags_new(program->program->arena);
    const CheckCases *const cases = check_cases(program->program, name);
    pthread_mutex_unlock(&program->lock);
    const Decl *decl = program_find(program->program, DECL_KERNEL, name);
    if (!decl) decl = program_find(program->program, DECL_OPERATOR, name);
    const CheckCase *largest = NULL;
    Likeness best = { .fits = false };
    for (int i = 0; cases && i < cases->count; i++) {
        const CheckCase *const one = &cases->items[i];
        const Likeness like = compare_case(decl, one, values, n);
        const int rank = 2 * like.types + like.fits, best_rank = 2 * best.types + best.fits;
        if (largest && (rank < best_rank || (rank == best_rank && size_of(one) <= size_of(largest)))) continue;
        largest = one;
        best = like;
    }
    choice->tolerance = "by type, as there is no check";
    return largest ? what_holds(choice, arena, largest, &best) : NULL;
}

// A type is not: with another one it would be another check.
static bool is_tunable(const Decl *decl, const char *name)
{
    for (const BuildParam *p = decl->build; p; p = p->next)
        if (strcmp(p->name, name) == 0) return p->range && p->kind != BUILD_TYPE;
    return false;
}

const CheckCase *case_to_tune(const Choice *choice, Arena *arena, kiln_program *program, const char *name)
{
    const CheckCase *const wanted = choice->wanted;
    const Decl *decl = program_find(program->program, DECL_KERNEL, name);
    if (!decl) decl = program_find(program->program, DECL_OPERATOR, name);
    CheckCase *const copy = NEW(arena, CheckCase, .decl = NULL);
    Binding *const kept = NEW_ARRAY(arena, Binding, wanted->n_build + 1);
    *copy = *wanted;
    copy->build = kept;
    copy->n_build = 0;
    for (int i = 0; i < wanted->n_build; i++) {
        const Binding *const one = &wanted->build[i];
        if (find_value(choice->given, choice->n_given, one->name) || !is_tunable(decl, one->name))
            kept[copy->n_build++] = *one;
    }
    return case_with_values(arena, program, name, copy, NULL, 0);
}

int case_choose(Choice *choice, Arena *arena, kiln_program *program, const char *name, const char *text)
{
    Binding *values = NULL;
    int n = 0;
    *choice = (Choice){ .base = NULL };
    if (bindings_parse(arena, program, name, text, &values, &n)) return fail_status(NULL);
    choice->given = values;
    choice->n_given = n;
    choice->base = choose_base(choice, arena, program, name, values, n);
    choice->wanted = case_with_values(arena, program, name, choice->base, values, n);
    return -1;
}

static const double CHECKED_BYTES_MAX = 4e8;

static bool is_small(const Case *c, double most)
{
    const Work work = work_of_case(c);
    return !work.gave_up && work.operations <= most && count_bytes(c) <= CHECKED_BYTES_MAX;
}

const CheckCase *case_to_check(const Choice *choice, Arena *arena, const Case *timed, double most)
{
    if (is_small(timed, most)) return timed->check;
    if (!choice->base) return NULL;
    CheckCase *const copy = NEW(arena, CheckCase, .decl = NULL);
    *copy = *choice->base;
    copy->build = timed->check->build;
    copy->n_build = timed->check->n_build;
    return copy;
}
