// SPDX-License-Identifier: MIT
// test.c - `kiln test`: every case of every check in the files, built, run and compared.
//
// What differs only in launch values shares a build. Builds run on all processors before the first case runs; cases
// run one after another, because a kernel takes the whole machine by itself. A case that faults a GPU costs no others.
#include "tools/cases.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct TestOptions {
    CaseOptions cases;
    const char *device, *filter, *isa;
    bool check, compile_only, json, quick, verbose;
    int64_t arch;
    Folders folders;
    int n_args;
    char **args;
    char **command; // the whole command, as it was given
} TestOptions;

typedef struct TestCase {
    const CheckCase *check;
    int build;
} TestCase;

// One file under test.
typedef struct TestFile {
    const char *path;
    kiln_program *program;
    VEC(CaseBuild) builds;
    VEC(TestCase) cases;
} TestFile;

typedef struct Tally {
    int passed, failed, skipped;
    bool first;
} Tally;

// ---- collecting

static bool same_binding(const Binding *a, const Binding *b)
{
    return strcmp(a->name, b->name) == 0 && a->kind == b->kind && a->integer == b->integer &&
           memcmp(&a->real, &b->real, sizeof a->real) == 0 && a->type == b->type &&
           (a->kind != BIND_FN || strcmp(a->function, b->function) == 0);
}

static bool same_bindings(const Binding *a, int n_a, const Binding *b, int n_b)
{
    for (int i = 0; n_a == n_b && i < n_a; i++)
        if (!same_binding(&a[i], &b[i])) return false;
    return n_a == n_b;
}

static int find_or_add_build(Arena *arena, const TestOptions *options, TestFile *file, const char *name,
                             const CheckCase *check)
{
    Program *const program = file->program->program;
    for (int i = 0; i < file->builds.count; i++)
        if (strcmp(file->builds.items[i].name, name) == 0 &&
            same_bindings(file->builds.items[i].bindings, file->builds.items[i].n_bindings, check->build,
                          check->n_build))
            return i;
    VEC_PUSH(
        arena, &file->builds,
        (CaseBuild){ .program = file->program,
                     .name = name,
                     .bindings = check->build,
                     .n_bindings = check->n_build,
                     .has_reference = !options->compile_only && program_find(program, DECL_REFERENCE, name) != NULL,
                     .has_verify = !options->compile_only && program_find(program, DECL_VERIFY, name) != NULL });
    return file->builds.count - 1;
}

// Cases out of all of a kernel's.
typedef struct Choice {
    const CheckCases *all;
    VEC(const CheckCase *) cases;
} Choice;

static bool has_build(const Choice *choice, const CheckCase *one)
{
    for (int i = 0; i < choice->cases.count; i++)
        if (same_bindings(choice->cases.items[i]->build, choice->cases.items[i]->n_build, one->build, one->n_build))
            return true;
    return false;
}

static bool has_value(const Choice *choice, const Binding *value, bool of_launch)
{
    for (int i = 0; i < choice->cases.count; i++) {
        const CheckCase *const c = choice->cases.items[i];
        for (int k = 0; k < (of_launch ? c->n_launch : c->n_build); k++)
            if (same_binding(of_launch ? &c->launch[k] : &c->build[k], value)) return true;
    }
    return false;
}

static bool has_check(const Choice *choice, const Decl *check)
{
    for (int i = 0; i < choice->cases.count; i++)
        if (choice->cases.items[i]->decl == check) return true;
    return false;
}

static int count_news(const Choice *choice, const CheckCase *one, bool of_launch)
{
    int n = of_launch && !has_check(choice, one->decl);
    for (int k = 0; k < (of_launch ? one->n_launch : one->n_build); k++)
        n += !has_value(choice, of_launch ? &one->launch[k] : &one->build[k], of_launch);
    return n;
}

static bool is_wanted(const TestOptions *options, const CheckCase *one)
{
    return !options->filter || strstr(one->label, options->filter);
}

// The case with most that no chosen one has; for launches, one that needs no further build if there is one.
static const CheckCase *find_next(const Choice *choice, const TestOptions *options, bool of_launch)
{
    const CheckCase *best = NULL;
    int most = 0;
    for (int i = 0; i < choice->all->count; i++) {
        const CheckCase *const one = &choice->all->items[i];
        int n = is_wanted(options, one) ? count_news(choice, one, of_launch) : 0;
        if (n && of_launch && has_build(choice, one)) n += one->n_launch + 1;
        if (n > most) most = n, best = one;
    }
    return best;
}

// `quick`: few cases, in which every value of every parameter occurs, and every check.
static void choose_quick(Arena *arena, Choice *choice, const TestOptions *options)
{
    for (int of_launch = 0; of_launch < 2; of_launch++)
        for (const CheckCase *next; (next = find_next(choice, options, of_launch)) != NULL;)
            VEC_PUSH(arena, &choice->cases, next);
}

static void choose_all(Arena *arena, Choice *choice, const TestOptions *options)
{
    for (int i = 0; i < choice->all->count; i++)
        if (is_wanted(options, &choice->all->items[i])) VEC_PUSH(arena, &choice->cases, &choice->all->items[i]);
}

static bool add_cases(Arena *arena, TestFile *file, const char *name, const TestOptions *options)
{
    Program *const program = file->program->program;
    pthread_mutex_lock(&file->program->lock);
    program->diags = diags_new(program->arena);
    const CheckCases *const cases = check_cases(program, name);
    const bool ok = cases && !program->diags->errors;
    if (!ok) program_fail(program->diags);
    pthread_mutex_unlock(&file->program->lock);
    Choice choice = { .all = cases };
    if (ok) (options->quick ? choose_quick : choose_all)(arena, &choice, options);
    for (int i = 0; i < choice.cases.count; i++) {
        const CheckCase *const one = choice.cases.items[i];
        VEC_PUSH(arena, &file->cases, (TestCase){ one, find_or_add_build(arena, options, file, name, one) });
    }
    return ok;
}

static bool has_seen(const Decl *first, const Decl *check)
{
    for (const Decl *d = first; d != check; d = d->next)
        if (d->kind == DECL_CHECK && strcmp(d->name, check->name) == 0) return true;
    return false;
}

// The checks of the file itself; those of its imports are tested with their own files.
static bool collect(Arena *arena, TestFile *file, const TestOptions *options)
{
    const Decl *const first = file->program->program->modules[0]->decls;
    for (const Decl *d = first; d; d = d->next)
        if (d->kind == DECL_CHECK && !has_seen(first, d) && !add_cases(arena, file, d->name, options)) return false;
    return true;
}

// ---- reporting

static void report_json(Tally *tally, const char *file, const char *label, const char *outcome, const char *correct,
                        const char *why, double seconds)
{
    fprintf(json_output(), "%s\n  {\"file\": ", tally->first ? "" : ",");
    tally->first = false;
    print_json_text(json_output(), file);
    fprintf(json_output(), ", \"case\": ");
    print_json_text(json_output(), label);
    fprintf(json_output(), ", \"outcome\": \"%s\", \"correct\": %s, \"seconds\": %.6f", outcome, correct, seconds);
    if (*why) {
        fprintf(json_output(), ", \"message\": ");
        print_json_text(json_output(), why);
    }
    fprintf(json_output(), "}");
}

static void report(const TestOptions *options, Tally *tally, const char *file, const char *label, const char *outcome,
                   const char *why, double seconds)
{
    const bool failed = strcmp(outcome, "failed") == 0, skipped = strcmp(outcome, "skipped") == 0;
    output_hold();
    tally->failed += failed;
    tally->skipped += skipped;
    tally->passed += !failed && !skipped;
    if (options->json) {
        const bool compared = !options->compile_only && !skipped;
        report_json(tally, file, label, outcome, !compared ? "null" : failed ? "false" : "true", why, seconds);
        output_release();
        return;
    }
    progress_end();
    if (failed) printf("%sFAIL%s %s: %s\n      %s\n", paint(stdout, RED), paint(stdout, PLAIN), file, label, why);
    else if (skipped && options->verbose)
        printf("%sskip%s %s: %s (%s)\n", paint(stdout, YELLOW), paint(stdout, PLAIN), file, label, why);
    else if (options->verbose)
        printf("%sok%s   %s: %s  %.1f ms\n", paint(stdout, GREEN), paint(stdout, PLAIN), file, label, 1e3 * seconds);
    fflush(stdout);
    output_release();
}

// ---- compiling without running

// NULL when the code made of a kernel needs nothing it should not need.
static const char *find_resource_problem(Arena *arena, const kiln_kernel *kernel, bool checked)
{
    const int shared = kernel->plan->dynamic_shared_bytes + kernel->report.static_shared_bytes;
    const GpuTarget *const gpu = gpu_find(kernel->arch);
    if (!gpu) return NULL;
    const int limit = gpu->shared_bytes_max;
    if (!kernel->report.known) return "ptxas reported nothing";
    const bool may_spill = checked || kernel->accepts_spills;
    if (kernel->report.spill_bytes && !may_spill)
        return arena_printf(arena, "%s: %d bytes of registers are spilled (%d registers, %d bytes of stack)",
                            kernel->plan->name, kernel->report.spill_bytes, kernel->report.registers,
                            kernel->report.stack_bytes);
    if (kernel->report.stack_bytes && !may_spill)
        return arena_printf(arena, "%s: %d bytes of stack (%d registers)", kernel->plan->name,
                            kernel->report.stack_bytes, kernel->report.registers);
    if (kernel->report.serialised_wgmma) return arena_printf(arena, "%s: wgmma is serialised", kernel->plan->name);
    return shared <= limit
               ? NULL
               : arena_printf(arena, "%s: %d bytes of shared memory, a CTA has %d", kernel->plan->name, shared, limit);
}

static const char *find_resource_problems(Arena *arena, const kiln_kernel *kernel, bool checked)
{
    const char *problem = kernel->steps ? NULL : find_resource_problem(arena, kernel, checked);
    for (int i = 0; kernel->steps && !problem && i < kernel->steps->n_steps; i++)
        problem = find_resource_problem(arena, kernel->steps->steps[i].kernel, checked);
    return problem;
}

static int stack_bytes_of(const kiln_kernel *kernel)
{
    int most = kernel->report.stack_bytes;
    for (int i = 0; kernel->steps && i < kernel->steps->n_steps; i++)
        if (kernel->steps->steps[i].kernel->report.stack_bytes > most)
            most = kernel->steps->steps[i].kernel->report.stack_bytes;
    return most;
}

static void report_build(Arena *arena, const TestOptions *options, Tally *tally, const TestFile *file, int b)
{
    const CaseBuild *const build = &file->builds.items[b];
    Text label = { .arena = arena };
    text_print(&label, "%s<", build->name);
    bindings_print(&label, build->bindings, build->n_bindings);
    text_print(&label, ">");
    if (build->status) {
        report(options, tally, file->path, text_cstr(&label), build->status == KILN_UNSUPPORTED ? "skipped" : "failed",
               build->message ? build->message : "out of memory", build->seconds);
        return;
    }
    const char *const problem = find_resource_problems(arena, build->kernel, options->check);
    const int stack = stack_bytes_of(build->kernel);
    if (!problem && stack) // not wrong, but it should be known
        text_print(&label, ", %d bytes of stack", stack);
    report(options, tally, file->path, text_cstr(&label), problem ? "failed" : "passed", problem ? problem : "",
           build->seconds);
}

// ---- running

static void run_case(const TestOptions *options, Tally *tally, const TestFile *file, const TestCase *test)
{
    const CaseBuild *const build = &file->builds.items[test->build];
    const char *const label = test->check->label;
    const double begin = seconds_now();
    static Case one; // large, and one runs at a time
    if (build->status == KILN_UNSUPPORTED) {
        report(options, tally, file->path, label, "skipped", build->message ? build->message : "", 0);
        return;
    }
    if (build->status) {
        report(options, tally, file->path, label, "failed", build->message ? build->message : "out of memory", 0);
        return;
    }
    const bool ok = case_open(&one, build, test->check, &options->cases) && case_run(&one) && case_check(&one);
    char why[3072] = "";
    if (!ok) {
        const int used = snprintf(why, sizeof why, "%s\n      ", one.problem);
        case_describe(&one, why + used, sizeof why - (size_t)used);
    }
    report(options, tally, file->path, label, ok ? "passed" : "failed", why, seconds_now() - begin);
    case_close(&one);
}

typedef struct Builds {
    TestFile *file;
    const CaseOptions *options;
    _Atomic int done;
} Builds;

static void build_one(void *context, int i)
{
    Builds *const builds = context;
    progress("building %s: %d of %d", builds->file->path, ++builds->done, builds->file->builds.count);
    case_build(&builds->file->builds.items[i], builds->options);
}

static const char *compose_build_failure(Arena *arena, const TestFile *file, int build)
{
    int n = 0;
    for (int i = 0; i < file->cases.count; i++) n += file->cases.items[i].build == build;
    Text bindings = { .arena = arena };
    bindings_print(&bindings, file->builds.items[build].bindings, file->builds.items[build].n_bindings);
    return arena_printf(arena, "%s<%s> (%d case%s)", file->builds.items[build].name, text_cstr(&bindings), n,
                        n == 1 ? "" : "s");
}

// A faulted device takes nothing more; opened anew it may. What was built is in the cache.
static bool reopen_device(TestFile *file, CaseOptions *options)
{
    char name[64];
    snprintf(name, sizeof name, "%s", kiln_device_name(options->device));
    for (int i = 0; i < file->builds.count; i++) {
        CaseBuild *const build = &file->builds.items[i];
        case_build_free(build);
        build->kernel = build->reference = build->verify = NULL;
        build->message = NULL;
    }
    kiln_device_close(options->device);
    options->device = NULL;
    if (kiln_device_open(name, &options->device)) return false;
    Builds builds = { file, options, 0 };
    in_parallel(file->builds.count, build_one, &builds);
    return true;
}

// One message for a build that failed, not one for each of its cases.
static void report_failed_builds(Arena *arena, const TestOptions *options, Tally *tally, const TestFile *file)
{
    for (int b = 0; b < file->builds.count; b++) {
        const CaseBuild *const build = &file->builds.items[b];
        if (!build->status || options->json) continue;
        const bool skipped = build->status == KILN_UNSUPPORTED;
        output_hold();
        progress_end();
        printf("%s%s%s %s: %s\n      %s\n", paint(stdout, skipped ? YELLOW : RED), skipped ? "skip" : "FAIL",
               paint(stdout, PLAIN), file->path, compose_build_failure(arena, file, b),
               build->message ? build->message : "out of memory");
        for (int i = 0; i < file->cases.count; i++)
            if (file->cases.items[i].build == b) skipped ? tally->skipped++ : tally->failed++;
        output_release();
    }
}

// ---- going on in a new process, where the driver takes nothing more from one that met a fault

static const char BEHIND_A_FAULT[] = "KILN_TEST_BEHIND_A_FAULT";

// Up to where the command has come: case `next` of file number `file`, which began with `before`.
typedef struct Reached {
    int file, next;
    Tally tally, before;
} Reached;

static Reached read_reached(void)
{
    Reached r = { .tally = { .first = true } };
    const char *const text = getenv(BEHIND_A_FAULT);
    Tally *const t = &r.tally, *const b = &r.before;
    if (text && sscanf(text, "%d %d %d %d %d %d %d %d", &r.file, &r.next, &t->passed, &t->failed, &t->skipped,
                       &b->passed, &b->failed, &b->skipped) == 8)
        t->first = false;
    unsetenv(BEHIND_A_FAULT);
    return r;
}

// Returns if there can be no such process.
static void go_on_in_a_new_process(const TestOptions *options, const Reached *r)
{
    char text[128];
    const Tally *const t = &r->tally, *const b = &r->before;
    snprintf(text, sizeof text, "%d %d %d %d %d %d %d %d", r->file, r->next, t->passed, t->failed, t->skipped,
             b->passed, b->failed, b->skipped);
    setenv(BEHIND_A_FAULT, text, true);
    fflush(NULL);
    json_output_end();
    execv("/proc/self/exe", options->command);
}

// Of all builds: small tiles have notes that the kernel's own do not have.
static void report_notes(Arena *arena, const TestOptions *options, const TestFile *file)
{
    NoteTexts notes = { 0 };
    if (options->json || !options->verbose) return;
    for (int i = 0; i < file->builds.count; i++)
        if (file->builds.items[i].kernel) notes_collect(arena, &notes, file->builds.items[i].kernel);
    for (int i = 0; i < notes.count; i++) fputs(notes.items[i], stdout);
}

static void test_file(Arena *arena, TestOptions *options, Reached *reached, const char *path)
{
    TestFile file = { .path = path };
    const double begin = seconds_now();
    Tally *const tally = &reached->tally;
    if (load_program(path, &options->folders, &file.program) || !collect(arena, &file, options)) {
        report(options, tally, path, "(reading)", "failed", kiln_error_message(), 0);
        kiln_program_free(file.program);
        return;
    }
    if (reached->next == 0) reached->before = *tally;
    Builds builds = { &file, &options->cases, 0 };
    in_parallel(file.builds.count, build_one, &builds);
    const double built = seconds_now();
    for (int i = 0; options->compile_only && i < file.builds.count; i++) report_build(arena, options, tally, &file, i);
    if (!options->compile_only && reached->next == 0) report_failed_builds(arena, options, tally, &file);
    for (int i = reached->next; !options->compile_only && i < file.cases.count; i++) {
        progress("%s: case %d of %d", path, i + 1, file.cases.count);
        if (!file.builds.items[file.cases.items[i].build].status || options->json)
            run_case(options, tally, &file, &file.cases.items[i]);
        if (options->cases.device->poisoned && !reopen_device(&file, &options->cases)) {
            reached->next = i + 1;
            go_on_in_a_new_process(options, reached);
            report(options, tally, path, "(the cases after a fault)", "failed", kiln_error_message(), 0);
            break;
        }
    }
    progress_end();
    const int failed = tally->failed - reached->before.failed, passed = tally->passed - reached->before.passed;
    if (!options->json && file.cases.count)
        printf("%s%s%s %s: %d passed, %d failed, %d skipped; %d builds %.1f s, runs %.1f s\n",
               paint(stdout, failed ? RED : GREEN), failed ? "FAIL" : "ok  ", paint(stdout, PLAIN), path, passed,
               failed, tally->skipped - reached->before.skipped, file.builds.count, built - begin,
               seconds_now() - built);
    report_notes(arena, options, &file);
    fflush(stdout);
    for (int i = 0; i < file.builds.count; i++) case_build_free(&file.builds.items[i]);
    kiln_program_free(file.program);
}

static struct {
    const TestOptions *options;
    const Tally *tally;
} so_far; // for who interrupts; tally NULL: nothing yet

static void print_interrupted(void *context)
{
    static const Tally nothing;
    const Tally *const t = so_far.tally ? so_far.tally : &nothing;
    if (!so_far.options->json) {
        printf("interrupted; until then %d passed, %d failed, %d skipped\n", t->passed, t->failed, t->skipped);
        return;
    }
    fprintf(json_output(), "%s\n], \"passed\": %d, \"failed\": %d, \"skipped\": %d, \"interrupted\": true}\n",
            so_far.tally ? "" : "{\"cases\": [", t->passed, t->failed, t->skipped);
    json_output_end();
}

// Once, and only to whom it is news.
static void recommend_checks(const TestOptions *o, const Tally *tally)
{
    const bool plain = !o->json && !o->check && !o->compile_only && !o->quick && !o->filter;
    if (plain && tally->passed && !tally->failed)
        printf("'kiln test --check' runs the same with every access to a tile, and every read of one, looked at\n");
}

static int test_files(Arena *arena, void *context)
{
    TestOptions *const options = context;
    const char **paths;
    int n;
    Reached reached = read_reached();
    const Tally *const tally = &reached.tally;
    if (!find_tile_files(arena, options->n_args, options->args, &paths, &n)) return EXIT_USAGE;
    output_hold();
    so_far.tally = tally;
    if (options->json && tally->first)
        fprintf(json_output(), "{\"device\": \"%s\", \"cases\": [",
                options->cases.device ? kiln_device_name(options->cases.device) : "none");
    output_release();
    for (; reached.file < n && (options->compile_only || options->cases.device); reached.file++, reached.next = 0)
        test_file(arena, options, &reached, paths[reached.file]);
    output_hold(); // not given back: from here on nothing is interrupted
    recommend_checks(options, tally);
    if (options->json)
        fprintf(json_output(), "\n], \"passed\": %d, \"failed\": %d, \"skipped\": %d}\n", tally->passed, tally->failed,
                tally->skipped);
    json_output_end();
    if (!options->json) printf("%d passed, %d failed, %d skipped\n", tally->passed, tally->failed, tally->skipped);
    if (tally->passed + tally->failed + tally->skipped == 0)
        return fail_usage(options->filter ? "no case matches '%s'" : "no checks in these files%s",
                          options->filter ? options->filter : "");
    return tally->failed ? EXIT_FAILED : EXIT_OK;
}

// parse_options reorders its arguments.
static char **copy_command(int argc, char **argv)
{
    static char kiln[] = "kiln", test[] = "test";
    char **const command = memory_alloc(((size_t)argc + 3) * sizeof *command);
    if (!command) return NULL;
    command[0] = kiln, command[1] = test;
    memcpy(command + 2, argv, (size_t)argc * sizeof *argv);
    return command;
}

static int test_with(TestOptions *o)
{
    if (o->n_args == 0) return fail_usage("test: which files? see 'kiln test --help'");
    so_far.options = o;
    on_interrupt(print_interrupted, NULL); // before the device, which starts threads
    o->cases.build = (kiln_build_options){ .check = o->check, .isa = o->isa, .arch = (int)o->arch };
    if (!(o->compile_only && o->arch && !o->device) &&
        kiln_device_open(device_name_or_default(o->device), &o->cases.device))
        return fail_status(NULL);
    if (o->arch && o->cases.device && device_is_cpu(o->cases.device)) {
        kiln_device_close(o->cases.device);
        return fail_usage("test: --arch needs --compile-only, or a CUDA device (--device=cuda:0)");
    }
    if (o->isa && !(o->cases.device && device_is_cpu(o->cases.device))) {
        kiln_device_close(o->cases.device);
        return fail_usage("test: --isa is for the CPU");
    }
    Target target; // what cannot be is said once, not skipped case by case
    const int result =
        target_choose(o->cases.device, &o->cases.build, &target) ? fail_status(NULL) : with_arena(test_files, o);
    kiln_device_close(o->cases.device);
    return result;
}

int tool_test(int argc, char **argv)
{
    char **const command = copy_command(argc, argv);
    TestOptions o = { .args = argv, .command = command };
    const Option options[] = {
        { "--device", OPTION_TEXT, &o.device, "NAME", "cpu, cuda:0 ... (default: $KILN_TEST_DEVICE, else cpu)" },
        { "--filter", OPTION_TEXT, &o.filter, "TEXT", "only cases whose label contains TEXT" },
        { "--check", OPTION_FLAG, &o.check, NULL, "trap accesses outside tiles and reads of undefined tiles" },
        { "--isa", OPTION_TEXT, &o.isa, "NAME", "avx512, avx2 or portable instead of the machine's best" },
        { "--arch", OPTION_NUMBER, &o.arch, "N", "CUDA: 90 or 80 instead of the device's" },
        { "--compile-only", OPTION_FLAG, &o.compile_only, NULL,
          "build each specialisation, run nothing; --arch needs no GPU then" },
        FOLDER_OPTION(o.folders),
        { "--quick", OPTION_FLAG, &o.quick, NULL, "few cases, in which every value of every parameter occurs" },
        { "--verbose", OPTION_FLAG, &o.verbose, NULL, "a line for every case, and performance notes" },
        { "--json", OPTION_FLAG, &o.json, NULL, "print one JSON object" },
    };
    const Usage usage = {
        "kiln test [OPTION...] FILE|FOLDER...",
        "Builds and runs every case of every `check` in the files and compares with their `reference` or `verify`.\n"
        "Ends with 0 if none failed, 1 if one did, 2 if there was nothing to do.",
        options, COUNT(options),
        "  kiln test kernels/                      all of a library\n"
        "  kiln test --filter='gemm_nt<bf16' kernels/gemm/gemm.tile\n"
        "  kiln test --device=cuda:0 --json kernels/ > result.json\n"
        "  kiln test --arch=90 --compile-only kernels/ what ptxas says of every kernel, without a GPU\n"
    };
    const int end = parse_options(&usage, argc, argv, &o.n_args);
    const int result = end < 0 ? test_with(&o) : end;
    memory_free(command);
    return result;
}
