// SPDX-License-Identifier: MIT
// profile_cpu.c - `kiln profile` on the CPU: when each instance of the grid ran, on which thread, and which took longest.
#include "tools/profile.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>

enum { INSTANCES_MAX = 1 << 18, THREADS_MAX = 4096, SLOWEST = 5 };

typedef struct Instance {
    CpuInstance at;
    int part; // of the operator
    int64_t number;
} Instance;

typedef struct CpuProfile {
    Profile *profile;
    CpuTimes *times; // of each part
    Instance *all;   // in the order of time
    int64_t n;
    const void *threads[THREADS_MAX];
    int n_threads;
} CpuProfile;

// ---- the launch

static void note_times(CpuProfile *c, bool on)
{
    kiln_kernel *const kernel = c->profile->open->build->kernel;
    for (int i = 0; i < kernel_parts(kernel); i++) kernel_part(kernel, i)->times = on ? &c->times[i] : NULL;
}

static bool launch(CpuProfile *c)
{
    Case *const open = c->profile->open;
    if (!case_run(open) || (c->profile->options->compare && !case_check(open))) return false;
    note_times(c, true);
    const bool ok = case_launch(open, NULL);
    note_times(c, false);
    return ok;
}

// ---- the timeline

static int earlier_first(const void *a, const void *b)
{
    return compare_doubles(&((const Instance *)a)->at.begin, &((const Instance *)b)->at.begin);
}

static void add_thread(CpuProfile *c, const void *thread)
{
    for (int i = 0; i < c->n_threads; i++)
        if (c->threads[i] == thread) return;
    if (c->n_threads < THREADS_MAX) c->threads[c->n_threads++] = thread;
}

static void sort_instances(CpuProfile *c, int parts)
{
    c->all = NEW_ARRAY(c->profile->arena, Instance, (int64_t)parts * INSTANCES_MAX + 1);
    for (int part = 0; part < parts; part++)
        for (int64_t i = 0; i < INSTANCES_MAX; i++)
            if (c->times[part].items[i].thread) c->all[c->n++] = (Instance){ c->times[part].items[i], part, i };
    qsort(c->all, (size_t)c->n, sizeof *c->all, earlier_first);
    for (int64_t i = 0; i < c->n; i++) add_thread(c, c->all[i].at.thread);
}

static void add_span(CpuProfile *c, const Instance *instance, int thread, int of)
{
    Timeline *const t = &c->profile->timeline;
    TimeSpan span = { .role = "thread", .kind = "instance", .warp = thread, .depth = 1 };
    span.what = arena_printf(t->arena, "instance %" PRId64, instance->number);
    span.begin = 1e6 * (instance->at.begin - c->all[0].at.begin);
    span.end = 1e6 * (instance->at.end - c->all[0].at.begin);
    VEC_PUSH(t->arena, &t->spans, span);
    if (t->spans.count == of + 2) t->spans.items[of].begin = span.begin;
    t->spans.items[of].end = span.end;
}

static void make_timeline(CpuProfile *c)
{
    Timeline *const t = &c->profile->timeline;
    t->unit = "us";
    t->unit_seconds = 1e-6;
    for (int thread = 0; thread < c->n_threads; thread++) {
        const int of = t->spans.count;
        const TimeSpan whole = { .role = "thread", .kind = "thread", .what = "thread", .warp = thread };
        VEC_PUSH(t->arena, &t->spans, whole);
        for (int64_t i = 0; i < c->n; i++)
            if (c->all[i].at.thread == c->threads[thread]) add_span(c, &c->all[i], thread, of);
    }
}

// ---- the table

static double length_of(const Instance *instance) { return instance->at.end - instance->at.begin; }

static int longer_first(const void *a, const void *b)
{
    const double x = length_of(a), y = length_of(b);
    return (x < y) - (x > y);
}

static void print_threads(const CpuProfile *c, double begin, double end)
{
    printf("  %-8s %10s %8s %12s\n", "thread", "instances", "busy", "ends at us");
    for (int thread = 0; thread < c->n_threads; thread++) {
        double busy = 0, last = begin;
        long n = 0;
        for (int64_t i = 0; i < c->n; i++) {
            if (c->all[i].at.thread != c->threads[thread]) continue;
            busy += length_of(&c->all[i]);
            last = c->all[i].at.end;
            n++;
        }
        printf("  %-8d %10ld %7.1f%% %12.1f\n", thread, n, 100 * busy / (end - begin), 1e6 * (last - begin));
    }
}

static void print_place(const CpuProfile *c, const Instance *instance)
{
    const kiln_kernel *const kernel = kernel_part(c->profile->open->build->kernel, instance->part);
    printf("    %10.2f us  instance %" PRId64, 1e6 * length_of(instance), instance->number);
    if (c->profile->open->build->kernel->steps) printf(" of %s", kernel->plan->name);
    printf("\n");
}

// It sorts the instances anew: the timeline is made before.
static void print_table(CpuProfile *c)
{
    double begin = c->all[0].at.begin, end = begin;
    for (int64_t i = 0; i < c->n; i++)
        if (c->all[i].at.end > end) end = c->all[i].at.end;
    printf("%" PRId64 " instances in %.1f us on %d threads of %d\n", c->n, 1e6 * (end - begin), c->n_threads,
           threads_count());
    print_threads(c, begin, end);
    qsort(c->all, (size_t)c->n, sizeof *c->all, longer_first);
    printf("  one instance: %.2f us (median), %.2f to %.2f\n  the slowest:\n", 1e6 * length_of(&c->all[c->n / 2]),
           1e6 * length_of(&c->all[c->n - 1]), 1e6 * length_of(&c->all[0]));
    for (int64_t i = 0; i < c->n && i < SLOWEST; i++) print_place(c, &c->all[i]);
    printf("  what a line costs: perf record, perf annotate; kiln dump --stage=asm; kiln explain\n");
}

int profile_cpu(Profile *profile)
{
    CpuProfile *const c = NEW(profile->arena, CpuProfile, .profile = profile);
    const int parts = kernel_parts(profile->open->build->kernel);
    c->times = NEW_ARRAY(profile->arena, CpuTimes, parts);
    for (int i = 0; i < parts; i++)
        c->times[i] = (CpuTimes){ NEW_ARRAY(profile->arena, CpuInstance, INSTANCES_MAX), INSTANCES_MAX };
    if (!launch(c)) {
        fprintf(stderr, "kiln: %s\n", profile->open->problem);
        return EXIT_FAILED;
    }
    sort_instances(c, parts);
    if (c->n == 0) return fail_usage("profile: the launch has no instances");
    make_timeline(c);
    if (!profile->options->json) print_table(c);
    return -1;
}
