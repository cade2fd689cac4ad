// SPDX-License-Identifier: MIT
// measure.c - time launches of a case.
#include "tools/measure.h"

#include <stdlib.h>
#include <string.h>

enum { RUNS_MIN = 10, RUNS_MAX = 2000 };

// One launch, on the device's own clock.
static bool time_launch(Case *c, kiln_event *begin, kiln_event *end, double *seconds)
{
    double ms;
    if (kiln_event_record(begin, NULL) || !case_launch(c, NULL) || kiln_event_record(end, NULL) ||
        kiln_event_wait(end) || kiln_event_elapsed(begin, end, &ms)) {
        if (!c->problem[0]) snprintf(c->problem, sizeof c->problem, "%s", kiln_error_message());
        return false;
    }
    *seconds = ms * 1e-3;
    return true;
}

static bool time_launches(Case *c, double seconds, kiln_event *begin, kiln_event *end, Measurement *m)
{
    static double times[RUNS_MAX];
    double warm_up, sum = 0;
    if (!time_launch(c, begin, end, &warm_up)) return false;
    for (m->runs = 0; m->runs < RUNS_MAX && (m->runs < RUNS_MIN || sum < seconds); m->runs++) {
        if (!time_launch(c, begin, end, &times[m->runs])) return false;
        sum += times[m->runs];
    }
    qsort(times, (size_t)m->runs, sizeof *times, compare_doubles);
    m->fastest = times[0];
    m->median = times[m->runs / 2];
    m->slowest = times[m->runs - 1];
    return true;
}

bool measure_case(Case *c, double seconds, Measurement *m)
{
    const Work work = work_of_case(c);
    const bool ok = measure_times(c, seconds, m);
    m->work = work;
    return ok;
}

bool measure_times(Case *c, double seconds, Measurement *m)
{
    kiln_event *begin = NULL, *end = NULL;
    *m = (Measurement){ .runs = 0 };
    c->problem[0] = 0;
    bool ok =
        kiln_event_open(c->options.device, &begin) == KILN_OK && kiln_event_open(c->options.device, &end) == KILN_OK;
    if (!ok) snprintf(c->problem, sizeof c->problem, "%s", kiln_error_message());
    ok = ok && time_launches(c, seconds, begin, end, m);
    kiln_event_close(begin);
    kiln_event_close(end);
    return ok;
}

// ---- what is expected: by the cost model, of each step; 0: of some it is not known.
typedef struct Expected {
    double seconds;
    bool unknown;
} Expected;

static kiln_status add_expected(const Compiled *compiled, void *context)
{
    Expected *const expected = context;
    expected->seconds += compiled->unit->expected_seconds;
    expected->unknown |= compiled->unit->expected_seconds <= 0;
    return KILN_OK;
}

double case_expected_seconds(const BuildRequest *build, const CheckCase *check)
{
    BuildRequest request = *build;
    Expected expected = { 0, false };
    LaunchValue values[64];
    if (!request.target.gpu) return 0;
    request.bindings = check->build;
    request.n_bindings = check->n_build;
    request.target.launch = values;
    for (int i = 0; i < check->n_launch && i < COUNT(values); i++)
        if (check->launch[i].kind == BIND_INT)
            values[request.target.n_launch++] = (LaunchValue){ check->launch[i].name, check->launch[i].integer };
    return kernel_compile(&request, NULL, NULL, add_expected, &expected) || expected.unknown ? 0 : expected.seconds;
}

// ---- values from the command line

static bool is_build_name(const Decl *decl, const Binding *value)
{
    for (const BuildParam *p = decl->build; p; p = p->next)
        if (strcmp(p->name, value->name) == 0) return true;
    return value->kind == BIND_NONE || value->kind == BIND_STRIDED || value->kind == BIND_UNALIGNED;
}

static void replace_or_add(Arena *arena, Binding **list, int *n, const Binding *value)
{
    Binding *const copy = NEW_ARRAY(arena, Binding, *n + 1);
    int at = 0;
    if (*n) memcpy(copy, *list, sizeof *copy * (size_t)*n);
    while (at < *n && strcmp(copy[at].name, value->name) != 0) at++;
    copy[at] = *value;
    *n += at == *n;
    *list = copy;
}

CheckCase *case_with_values(Arena *arena, kiln_program *program, const char *name, const CheckCase *base,
                            const Binding *values, int n)
{
    const Decl *decl = program_find(program->program, DECL_KERNEL, name);
    CheckCase *const copy = base ? NEW(arena, CheckCase, .decl = NULL) : NEW(arena, CheckCase, .label = name);
    if (!decl) decl = program_find(program->program, DECL_OPERATOR, name);
    if (base) *copy = *base;
    for (int i = 0; i < n; i++)
        if (is_build_name(decl, &values[i])) replace_or_add(arena, &copy->build, &copy->n_build, &values[i]);
        else replace_or_add(arena, &copy->launch, &copy->n_launch, &values[i]);
    Text label = { .arena = arena };
    text_print(&label, "%s<", name);
    bindings_print(&label, copy->build, copy->n_build);
    text_print(&label, ">(");
    bindings_print(&label, copy->launch, copy->n_launch);
    text_print(&label, ")");
    copy->label = text_cstr(&label);
    return copy;
}
