// SPDX-License-Identifier: MIT
// compile.c - `kiln bench --compile`: how long each kernel of the library takes to build.
//
// Every kernel and operator, in the build of its first check case: the compiler alone (reading, checking, passes,
// lowering, printing the C), the whole build with an empty cache, and the build again, from the cache.
#define _GNU_SOURCE // mkdtemp, setenv
#include "bench.h"

#include <stdlib.h>

enum { REPEATS = 5 };

typedef struct Compiling {
    const char *path, *name;
    kiln_program *program;
    const Binding *bindings;
    int n;
    bool is_operator;
} Compiling;
typedef struct CompileTimes {
    double front, cold, cached;
} CompileTimes;

// The limits of docs/benchmarks: a CPU's and a GPU's product, and the largest.
static const struct {
    double front, gemm[2], any[2], cached;
} limits = { 10e-3, { 0.5, 1 }, { 1.5, 3 }, 5e-3 };

static bool time_front(const Compiling *what, kiln_device *device, double *seconds)
{
    Times times = { 0 };
    BuildRequest request = { .device = device, .name = what->name, .bindings = what->bindings, .n_bindings = what->n };
    for (int i = 0; i < REPEATS; i++) {
        kiln_program *program = NULL;
        const double begin = seconds_now();
        bool ok = kiln_program_load_file(what->path, &program) == KILN_OK &&
                  target_choose(device, NULL, &request.target) == KILN_OK;
        request.program = program;
        request.target.silent = true; // as kiln_kernel_build has it
        ok = ok && kernel_compile(&request, NULL, NULL, NULL, NULL) == KILN_OK;
        times_add(&times, seconds_now() - begin);
        kiln_program_free(program);
        if (!ok) return false;
    }
    *seconds = times_spread(&times).median;
    return true;
}

static bool time_build(const Compiling *what, kiln_device *device, double *seconds)
{
    kiln_kernel *kernel = NULL;
    BuildRequest request = { .device = device,
                             .program = what->program,
                             .name = what->name,
                             .bindings = what->bindings,
                             .n_bindings = what->n };
    const double begin = seconds_now();
    bool ok = target_choose(device, NULL, &request.target) == KILN_OK;
    request.target.silent = true;
    ok = ok && kernel_build(&request, &kernel) == KILN_OK;
    *seconds = seconds_now() - begin;
    kiln_kernel_free(kernel);
    return ok;
}

static bool time_all(const Compiling *what, kiln_device *device, CompileTimes *t)
{
    Times cached = { 0 };
    double seconds;
    if (!time_front(what, device, &t->front) || !time_build(what, device, &t->cold)) return false;
    for (int i = 0; i < REPEATS; i++) {
        if (!time_build(what, device, &seconds)) return false;
        times_add(&cached, seconds);
    }
    t->cached = times_spread(&cached).median;
    return true;
}

// ---- which kernels

static void use_first_case(Compiling *what)
{
    pthread_mutex_lock(&what->program->lock);
    what->program->program->diags = diags_new(what->program->program->arena);
    const CheckCases *const cases = check_cases(what->program->program, what->name);
    pthread_mutex_unlock(&what->program->lock);
    what->bindings = cases && cases->count ? cases->items[0].build : NULL;
    what->n = cases && cases->count ? cases->items[0].n_build : 0;
}

typedef struct Worst {
    CompileTimes gemm, any;
    int n, failed;
} Worst;

static void begin_row(FILE *json, const Worst *worst, const char *name)
{
    fprintf(json, "%s\n  {\"name\": ", worst->n + worst->failed ? "," : "");
    print_json_text(json, name);
}

static void report_failure(FILE *json, Worst *worst, const char *name)
{
    const char *const message = kiln_error_message();
    fprintf(stderr, "kiln: %s: %.*s\n", name, (int)strcspn(message, "\n"), message);
    if (json) {
        begin_row(json, worst, name);
        fprintf(json, ", \"problem\": ");
        print_json_text(json, message);
        fprintf(json, "}");
    }
    worst->failed++;
}

static void keep_worst(CompileTimes *worst, const CompileTimes *t)
{
    worst->front = t->front > worst->front ? t->front : worst->front;
    worst->cold = t->cold > worst->cold ? t->cold : worst->cold;
    worst->cached = t->cached > worst->cached ? t->cached : worst->cached;
}

static void compile_one(const Compiling *what, kiln_device *device, FILE *json, Worst *worst)
{
    CompileTimes t = { 0 };
    progress("%s", what->name);
    const bool ok = time_all(what, device, &t);
    progress_end();
    if (!ok) {
        report_failure(json, worst, what->name);
        return;
    }
    if (json) {
        begin_row(json, worst, what->name);
        fprintf(json, ", \"front_seconds\": %.6f, \"cold_seconds\": %.6f, \"cached_seconds\": %.6f}", t.front, t.cold,
                t.cached);
    }
    if (json != stdout)
        printf("| %s%s | %.2f | %.2f | %.2f |\n", what->name, what->is_operator ? " (operator)" : "", 1e3 * t.front,
               t.cold, 1e3 * t.cached);
    fflush(stdout);
    worst->n++;
    if (what->is_operator) // several kernels, some of them built before
        return;
    keep_worst(&worst->any, &t);
    if (strncmp(what->name, "gemm_", 5) == 0) keep_worst(&worst->gemm, &t);
}

static void compile_file(const char *path, kiln_device *device, FILE *json, Worst *worst)
{
    Compiling what = { .path = path };
    if (kiln_program_load_file(path, &what.program)) {
        report_failure(json, worst, path);
        return;
    }
    for (const Decl *d = what.program->program->modules[0]->decls; d; d = d->next) {
        what.name = d->name;
        what.is_operator = d->kind == DECL_OPERATOR;
        if (d->kind != DECL_KERNEL && d->kind != DECL_OPERATOR) continue;
        use_first_case(&what);
        compile_one(&what, device, json, worst);
    }
    kiln_program_free(what.program);
}

static void print_limit(const char *what, double got, double limit, double unit, const char *name)
{
    printf("| %s | %.2f %s | < %.1f %s | %s |\n", what, got / unit, name, limit / unit, name,
           got < limit ? "met" : "not met");
}

static void print_worst(const Worst *worst, bool is_cpu)
{
    printf("\n| slowest of %d | | target | |\n| --- | --- | --- | --- |\n", worst->n);
    print_limit("compiler alone, any kernel", worst->any.front, limits.front, 1e-3, "ms");
    print_limit("cold, a matrix product", worst->gemm.cold, limits.gemm[!is_cpu], 1, "s");
    print_limit("cold, any kernel", worst->any.cold, limits.any[!is_cpu], 1, "s");
    print_limit("from the cache, any kernel", worst->any.cached, limits.cached, 1e-3, "ms");
}

int bench_compile(Arena *arena, kiln_device *device, const char *kernels, FILE *json)
{
    char folder[] = "/tmp/kiln-bench-XXXXXX";
    char *const folders[] = { (char *)kernels };
    const char **paths;
    int n;
    Worst worst = { .n = 0 };
    if (!find_tile_files(arena, 1, (char **)folders, &paths, &n)) return EXIT_USAGE;
    if (!mkdtemp(folder) || setenv("KILN_CACHE", folder, 1) != 0) return fail_usage("cannot make a folder below /tmp");
    if (json != stdout)
        printf(
            "%s; kiln %s\n\n| kernel | compiler ms | cold build s | from the cache ms |\n| --- | --- | --- | --- |\n",
            kiln_device_describe(device), KILN_VERSION);
    for (int i = 0; i < n; i++) compile_file(paths[i], device, json, &worst);
    if (json != stdout) print_worst(&worst, device_is_cpu(device));
    folder_remove(folder);
    return worst.failed || !worst.n ? EXIT_FAILED : EXIT_OK;
}
