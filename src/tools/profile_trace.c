// SPDX-License-Identifier: MIT
// profile_trace.c - `kiln profile` on CUDA: a traced build is launched, and its record read.
#include "tools/profile.h"
#include "lower/gpu/schedule/schedule.h"
#include "plan/trace.h"

#include <stdlib.h>

int kernel_parts(kiln_kernel *kernel) { return kernel->steps ? kernel->steps->n_steps : 1; }

kiln_kernel *kernel_part(kiln_kernel *kernel, int i) { return kernel->steps ? kernel->steps->steps[i].kernel : kernel; }

// ---- what the events are

typedef struct Collection {
    Arena *arena;
    VEC(TraceNames) parts; // of each kernel of an operator
} Collection;

static kiln_status collect_names(const Compiled *compiled, void *context)
{
    Collection *const c = context;
    const Schedule *const schedule = compiled->unit->schedule;
    TraceNames names = { 0 };
    for (int i = 0; schedule && i < schedule->trace.count; i++) {
        const TraceEvent *const event = &schedule->trace.items[i];
        const Source *const source = event->span.source;
        const TraceName name = { .role = arena_printf(c->arena, "%s", event->role),
                                 .kind = arena_printf(c->arena, "%s", event->kind),
                                 .what = arena_printf(c->arena, "%s", event->what),
                                 .path = source ? arena_printf(c->arena, "%s", source->path) : NULL,
                                 .line = source ? source_position(source, event->span.begin).line : 0 };
        VEC_PUSH(c->arena, &names, name);
    }
    VEC_PUSH(c->arena, &c->parts, names);
    return KILN_OK;
}

static bool find_names(Profile *p, Collection *c)
{
    BuildRequest request = p->request.build;
    request.target.trace = true;
    request.bindings = p->open->check->build;
    request.n_bindings = p->open->check->n_build;
    return kernel_compile(&request, NULL, NULL, collect_names, c) == KILN_OK;
}

// ---- the launch

// "0,1,66"
static int read_ctas(const char *text, unsigned ctas[TRACE_CTAS])
{
    int n = 0;
    for (const char *at = text; *at; n++) {
        char *end;
        const long number = strtol(at, &end, 10);
        if (end == at || number < 0 || number >= INT32_MAX || (*end && *end != ','))
            return fail_usage("--ctas: expected numbers with commas between them, and found '%s'", at), -1;
        if (n == TRACE_CTAS) return fail_usage("--ctas: at most %d blocks", TRACE_CTAS), -1;
        ctas[n] = (unsigned)number;
        at = end + (*end == ',');
    }
    return n;
}

static bool choose(Case *c, const unsigned *ctas, int n)
{
    for (int i = 0; i < kernel_parts(c->build->kernel); i++)
        if (trace_choose(kernel_part(c->build->kernel, i), ctas, n)) return false;
    return true;
}

static int fail_case(const Case *c)
{
    fprintf(stderr, "kiln: %s\n", c->problem);
    return EXIT_FAILED;
}

// Once to warm up, and to compare; once for the record.
static int launch(Profile *p, const unsigned *ctas, int n)
{
    Case *const c = p->open;
    if (!choose(c, ctas, 0)) return fail_status(NULL);
    if (!case_run(c) || (p->options->compare && !case_check(c))) return fail_case(c);
    if (!choose(c, ctas, n)) return fail_status(NULL);
    if (!case_launch(c, NULL)) return fail_case(c);
    return kiln_stream_wait(c->options.device, NULL) ? fail_status(NULL) : -1;
}

static int read_record(Profile *p, const Collection *names)
{
    const int n = names->parts.count;
    TraceRecord *const records = NEW_ARRAY(p->arena, TraceRecord, n + 1);
    for (int i = 0; i < n; i++) {
        uint64_t *const words = NEW_ARRAY(p->arena, uint64_t, TRACE_BYTES / 8);
        if (trace_download(kernel_part(p->open->build->kernel, i), words)) return fail_status(NULL);
        records[i] = (TraceRecord){ words, names->parts.items[i] };
    }
    trace_read(&p->timeline, records, n, p->options->steps);
    return -1;
}

int profile_trace(Profile *p)
{
    unsigned ctas[TRACE_CTAS];
    Collection names = { .arena = p->arena };
    const int n = read_ctas(p->options->ctas, ctas);
    if (n < 0) return EXIT_USAGE;
    if (!find_names(p, &names)) return fail_status(NULL);
    int result = launch(p, ctas, n);
    if (result < 0) result = read_record(p, &names);
    if (result < 0 && p->timeline.spans.count == 0)
        return fail_usage("profile: the launch has none of the blocks %s", p->options->ctas);
    return result;
}
