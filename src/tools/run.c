// SPDX-License-Identifier: MIT
// run.c - `kiln run`: a kernel built, checked, and timed beside what the machine can do.
#include "tools/measure.h"
#include "runtime/tuned.h"

#include <math.h>
#include <string.h>

typedef struct RunOptions {
    TargetOptions target;
    bool demo, json, no_check;
    double seconds;
    int n_args;
    char **args;
} RunOptions;

// References are scalar code, at some 1e9 operations a second; past these a smaller case is checked instead. A demo may
// take longer, because what it shows is that the result is right at the size it shows.
static const double CHECKED_OPERATIONS_MAX = 3e9, CHECKED_IN_DEMO_MAX = 12e9;

// What `--demo` runs where the command line says nothing else: sizes of a real model.
static const char demo_values[] = "T=bf16, D=128, DV=128, CAUSAL=true, LSE=none, B=1, S=2048, SKV=2048, H=8, HKV=2, "
                                  "scale=0.08838834764831845";

static const double CACHED_BYTES = 48e6;

typedef struct Running {
    const RunOptions *options;
    ToolRequest request;
    Arena *arena;
    Choice choice;
    CaseOptions cases;
} Running;

// ---- what to run

// Values of --tuned for build parameters that nothing else says, of the row nearest to this launch.
static int take_tuned(Running *r)
{
    BuildRequest request = r->request.build;
    if (!r->options->target.tuned) return -1;
    const CheckCase *const wanted = case_to_tune(&r->choice, r->arena, request.program, request.name);
    Text launch = { .arena = r->arena };
    const char *const given = r->options->target.tuned_for;
    request.bindings = wanted->build;
    request.n_bindings = wanted->n_build;
    bindings_print(&launch, wanted->launch, wanted->n_launch);
    if (tuned_apply(r->arena, &request, r->options->target.tuned, given ? given : text_cstr(&launch)))
        return fail_status(NULL);
    r->choice.wanted =
        case_with_values(r->arena, request.program, request.name, wanted, request.bindings, request.n_bindings);
    return -1;
}

static int choose_case(Running *r)
{
    const bool demo =
        r->options->demo && !r->request.n_values && strcmp(r->request.build.name, "attention_forward") == 0;
    const char *const text = demo ? demo_values : text_cstr(&r->request.bindings);
    const int result = case_choose(&r->choice, r->arena, r->request.build.program, r->request.build.name, text);
    r->cases.unchecked_types = r->choice.unchecked_types;
    return result < 0 ? take_tuned(r) : result;
}

static CaseBuild build_of(const Running *r, const CheckCase *check)
{
    const kiln_program *const program = r->request.build.program;
    const char *const name = r->request.build.name;
    return (CaseBuild){ .program = r->request.build.program,
                        .name = name,
                        .bindings = check->build,
                        .n_bindings = check->n_build,
                        .has_reference = !r->options->no_check && program_find(program->program, DECL_REFERENCE, name),
                        .has_verify = !r->options->no_check && program_find(program->program, DECL_VERIFY, name) };
}

// ---- checking

// What a comparison found. `with` NULL: there was none, and `text` says why; else `text` is what was wrong, if it was.
typedef struct Verdict {
    const char *with; // "reference" or "verify block"
    const char *size; // where another size than the timed one was compared: its values; else NULL
    bool wrong;
    double seconds;
    char text[1024];
} Verdict;

static void check_now(const Running *r, const CaseBuild *build, const CheckCase *check, Verdict *v)
{
    static Case c;
    progress("checking against the reference");
    const double begin = seconds_now();
    v->with = build->verify ? "verify block" : "reference";
    v->wrong = !(case_open(&c, build, check, &r->cases) && case_run(&c) && case_check(&c));
    v->seconds = seconds_now() - begin;
    progress_end();
    snprintf(v->text, sizeof v->text, "%s", v->wrong ? c.problem : "");
    case_close(&c);
}

static void check_result(const Running *r, const CaseBuild *build, Case *timed, Verdict *v)
{
    *v = (Verdict){ .with = NULL };
    if (r->options->no_check) snprintf(v->text, sizeof v->text, "--no-check was given");
    else if (!build->reference && !build->verify)
        snprintf(v->text, sizeof v->text, "it has neither a reference nor a verify block");
    else {
        const double most = r->options->demo ? CHECKED_IN_DEMO_MAX : CHECKED_OPERATIONS_MAX;
        const CheckCase *const checked = case_to_check(&r->choice, r->arena, timed, most);
        if (!checked) {
            snprintf(v->text, sizeof v->text, "too large for its reference, and it has no check with smaller sizes");
            return;
        }
        if (checked != timed->check) {
            Text size = { .arena = r->arena };
            bindings_print(&size, checked->launch, checked->n_launch);
            v->size = text_cstr(&size);
        }
        check_now(r, build, checked, v);
    }
}

static void print_verdict(const Verdict *v)
{
    const char *const at = v->size ? " at " : "", *const size = v->size ? v->size : "";
    if (!v->with) printf("  not checked: %s\n", v->text);
    else if (v->wrong) printf("  %sWRONG%s%s%s: %s\n", paint(stdout, RED), paint(stdout, PLAIN), at, size, v->text);
    else
        printf("  %scorrect%s: agrees with its %s%s%s (%.2f s)\n", paint(stdout, GREEN), paint(stdout, PLAIN), v->with,
               at, size, v->seconds);
}

// A verify block has no tolerance.
static bool has_tolerance(const Verdict *v) { return v->with && strcmp(v->with, "reference") == 0; }

static void print_json_field(const char *name, const char *text)
{
    fprintf(json_output(), ", \"%s\": ", name);
    print_json_text(json_output(), text);
}

static void print_verdict_json(const Verdict *v)
{
    fprintf(json_output(), ", \"correct\": %s", !v->with ? "null" : v->wrong ? "false" : "true");
    if (!v->with) print_json_field("not_checked", v->text);
    else print_json_field("compared_with", v->with);
    if (v->size) print_json_field("compared_at", v->size);
    if (v->wrong) print_json_field("problem", v->text);
}

// ---- timing

static DType main_type(const LaunchPlan *plan)
{
    for (int i = 0; i < plan->n_params; i++)
        if (plan->params[i].is_tensor && !plan->params[i].absent) return plan->params[i].type;
    return DTYPE_F32;
}

static void print_rate(const char *what, double rate, double ceiling, double unit, const char *name)
{
    printf("  %-10s %10.2f %s", what, rate / unit, name);
    if (isinf(ceiling)) printf(" (small enough to stay in caches)");
    else if (ceiling > 0) printf(" of %.2f possible: %.0f%%", ceiling / unit, 100 * rate / ceiling);
    putchar('\n');
}

static void print_uncounted(const char *what, double most, const char *unknown, bool at_most, const char *unit)
{
    if (unknown && at_most) printf("  %s: at most %.3f %s; %s\n", what, most, unit, unknown);
    else if (unknown) printf("  %s are not counted: %s\n", what, unknown);
}

static void print_floor(const Work *work, const Ceiling *ceiling, double t)
{
    const double floor =
        fmax(work->operations / ceiling->operations_per_second, work->bytes / ceiling->bytes_per_second);
    printf("  %-10s %10.3f ms for %.3f Gop and %.2f MB: %.0f%% of the roofline of products and memory\n", "floor",
           1e3 * floor, 1e-9 * work->operations, 1e-6 * work->bytes, 100 * floor / t);
}

static void print_measurement(const Running *r, const Case *c, const Measurement *m)
{
    progress("measuring the machine");
    Ceiling ceiling = ceiling_of(r->cases.device, main_type(c->build->kernel->plan));
    progress_end();
    const Work *const work = &m->work;
    // Runs one after another then meet no memory at all.
    const bool in_caches = (work->bytes_unknown ? count_bytes(c) : work->bytes) < CACHED_BYTES;
    const bool multiplies = work->operations > 0 && !work->operations_unknown;
    if (in_caches) ceiling.bytes_per_second = INFINITY;
    const double t = m->median;
    printf("  %-10s %10.3f ms median of %d runs (%.3f to %.3f)\n", "time", 1e3 * t, m->runs, 1e3 * m->fastest,
           1e3 * m->slowest);
    if (multiplies) print_rate("products", work->operations / t, ceiling.operations_per_second, 1e9, "GFLOP/s");
    if (!work->bytes_unknown) print_rate("memory", work->bytes / t, ceiling.bytes_per_second, 1e9, "GB/s");
    if (ceiling.what) printf("  (possible: %s)\n", ceiling.what);
    print_uncounted("operations", 1e-9 * work->operations, work->operations_unknown, work->at_most, "Gop");
    print_uncounted("bytes", 1e-6 * work->bytes, work->bytes_unknown, work->at_most, "MB");
    if (ceiling.operations_per_second > 0 && (multiplies || !in_caches) && !work->operations_unknown &&
        !work->bytes_unknown)
        print_floor(work, &ceiling, t);
}

static void print_expected(const Running *r)
{
    const double seconds = case_expected_seconds(&r->request.build, r->choice.wanted);
    if (seconds > 0)
        printf("  %-10s %10.3f ms by the cost model; see 'kiln explain --cost'\n", "expected", 1e3 * seconds);
}

static void print_json_count(const char *name, double count, const char *unknown, bool at_most)
{
    if (!unknown) {
        fprintf(json_output(), ", \"%s\": %.0f", name, count);
        return;
    }
    fprintf(json_output(), ", \"%s\": null, \"%s_not_counted\": \"%s\"", name, name, unknown);
    if (at_most) fprintf(json_output(), ", \"%s_at_most\": %.0f", name, count);
}

// One object; a wrong kernel has no times, as one that fails to run.
static void print_json(const Running *r, const Verdict *v, const Measurement *m)
{
    fprintf(json_output(), "{\"device\": ");
    print_json_text(json_output(), kiln_device_describe(r->cases.device));
    print_json_field("case", r->choice.wanted->label);
    if (has_tolerance(v)) print_json_field("tolerance", r->choice.tolerance);
    print_verdict_json(v);
    if (m) {
        fprintf(json_output(),
                ", \"runs\": %d, \"median_seconds\": %.9f, \"fastest_seconds\": %.9f, \"slowest_seconds\": %.9f",
                m->runs, m->median, m->fastest, m->slowest);
        const double expected = case_expected_seconds(&r->request.build, r->choice.wanted);
        if (expected > 0) fprintf(json_output(), ", \"expected_seconds\": %.9f", expected);
        print_json_count("operations", m->work.operations, m->work.operations_unknown, m->work.at_most);
        print_json_count("bytes", m->work.bytes, m->work.bytes_unknown, m->work.at_most);
    }
    fprintf(json_output(), "}\n");
}

static int fail_case(const Case *c)
{
    progress_end();
    fprintf(stderr, "kiln: %s\n", c->problem);
    return EXIT_FAILED;
}

static int time_case(Running *r, Case *c, const Verdict *v)
{
    Measurement m;
    progress("timing");
    const bool ok = measure_case(c, r->options->seconds, &m);
    progress_end();
    if (!ok) return fail_case(c);
    if (r->options->json) {
        print_json(r, v, &m);
    } else {
        print_measurement(r, c, &m);
        print_expected(r);
        notes_show(r->arena, c->build->kernel);
    }
    return EXIT_OK;
}

static int run_case(Running *r, const CaseBuild *build)
{
    static Case c;
    static Verdict v;
    int result = EXIT_FAILED;
    if (!case_open(&c, build, r->choice.wanted, &r->cases)) {
        fail_case(&c);
    } else {
        check_result(r, build, &c, &v);
        if (!r->options->json && !r->options->no_check) print_verdict(&v);
        if (!r->options->json && has_tolerance(&v)) printf("  tolerance: %s\n", r->choice.tolerance);
        else if (r->options->json && v.wrong) print_json(r, &v, NULL);
        if (!v.wrong) result = time_case(r, &c, &v);
    }
    case_close(&c);
    return result;
}

static int build_and_run(Running *r)
{
    CaseBuild build = build_of(r, r->choice.wanted);
    progress("building %s", build.name);
    const bool ok = case_build(&build, &r->cases);
    progress_end();
    if (!ok) {
        fprintf(stderr, "kiln: %s\n", build.message ? build.message : "out of memory");
        case_build_free(&build);
        return EXIT_FAILED;
    }
    if (!r->options->json)
        printf("%s%s%s on %s\n  built in %.3f s\n", paint(stdout, BOLD), r->choice.wanted->label, paint(stdout, PLAIN),
               kiln_device_describe(r->cases.device), build.seconds);
    const int result = run_case(r, &build);
    case_build_free(&build);
    return result;
}

static int run(Arena *arena, void *context)
{
    Running r = { .options = context, .arena = arena };
    if (r.options->json) json_output();
    int result = request_open(&r.request, arena, &r.options->target, r.options->n_args, r.options->args);
    r.cases = (CaseOptions){
        .device = r.request.build.device,
        .build = { .check = r.options->target.check,
                   .isa = r.options->target.isa,
                   .arch = (int)r.options->target.arch },
    };
    if (result < 0 && !r.cases.device) result = fail_usage("run: --arch needs a CUDA device: --device=cuda:0");
    if (result < 0) result = choose_case(&r);
    if (result < 0) result = build_and_run(&r);
    request_close(&r.request);
    json_output_end();
    return result;
}

int tool_run(int argc, char **argv)
{
    RunOptions o = { .seconds = 1, .args = argv };
    const Option options[] = {
        DEVICE_OPTIONS(o.target, "CUDA: 90 or 80 instead of the device's"),
        TUNED_OPTIONS(o.target),
        { "--seconds", OPTION_SECONDS, &o.seconds, "S", "time for about S seconds (default: 1)" },
        { "--no-check", OPTION_FLAG, &o.no_check, NULL, "do not run the reference" },
        { "--demo", OPTION_FLAG, &o.demo, NULL, "attention at the sizes of a real model, unless values are given" },
        { "--json", OPTION_FLAG, &o.json, NULL, "print one JSON object: whether it is correct, and the times" },
    };
    const Usage usage = {
        "kiln run [OPTION...] FILE [KERNEL] [NAME=VALUE...]",
        "Builds a kernel, runs it on made-up inputs, compares with its reference, times it, and shows how near it comes to\n"
        "what the machine can do. Values not given are those of the largest case of the kernel's check; so are inputs and the\n"
        "tolerance, if a check has the same types.",
        options, COUNT(options),
        "  kiln run kernels/gemm/gemm.tile gemm_nt T=bf16 M=2048 N=2048 K=2048\n"
        "  kiln run --demo kernels/attention/forward.tile\n"
    };
    const int end = parse_options(&usage, argc, argv, &o.n_args);
    return end >= 0 ? end : with_arena(run, &o);
}
