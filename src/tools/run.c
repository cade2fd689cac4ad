// SPDX-License-Identifier: MIT
// run.c - `kiln run`: a kernel built, checked, and timed beside what the machine can do.
#include "tools/measure.h"

#include <math.h>
#include <string.h>

typedef struct RunOptions {
    TargetOptions target;
    bool demo, json, no_check;
    int64_t seconds;
    int n_args;
    char **args;
} RunOptions;

// References are scalar code, at some 1e9 operations a second; past these a smaller case is checked instead. A demo may
// take longer, because what it shows is that the result is right at the size it shows.
static const double CHECKED_OPERATIONS_MAX = 3e9, CHECKED_IN_DEMO_MAX = 12e9, CHECKED_BYTES_MAX = 4e8;

// What `--demo` runs where the command line says nothing else: sizes of a real model.
static const char demo_values[] = "T=bf16, D=128, DV=128, CAUSAL=true, LSE=none, B=1, S=2048, SKV=2048, H=8, HKV=2, "
                                  "scale=0.08838834764831845";

static const double CACHED_BYTES = 48e6;

typedef struct Running {
    const RunOptions *options;
    ToolRequest request;
    Arena *arena;
    const CheckCase *base;   // the largest case of the kernel's checks; NULL if it has none
    const char *tolerance;   // where the one results are compared by comes from
    const CheckCase *wanted; // with the command line's values
    CaseOptions cases;
} Running;

// ---- what to run

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
static const CheckCase *what_holds(Running *r, const CheckCase *check, const Likeness *like)
{
    CheckCase *const copy = NEW(r->arena, CheckCase, .decl = NULL);
    *copy = *check;
    if (!like->fits) copy->n_build = 0;
    if (like->types) {
        r->tolerance = check->n_tolerances ? arena_printf(r->arena, "that of %s", check->label) : "by type";
        return copy;
    }
    r->tolerance = "by type, as no check has these types";
    r->cases.unchecked_types = true;
    copy->n_tolerances = 0;
    keep_inputs(r->arena, copy, like);
    return copy;
}

// The largest case of those that have the types, and agree with the values given, where there are any.
static const CheckCase *choose_base(Running *r, const Binding *values, int n)
{
    kiln_program *const program = r->request.build.program;
    const char *const name = r->request.build.name;
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
    r->tolerance = "by type, as there is no check";
    return largest ? what_holds(r, largest, &best) : NULL;
}

static int choose_case(Running *r)
{
    Binding *values = NULL;
    const bool demo =
        r->options->demo && !r->request.n_values && strcmp(r->request.build.name, "attention_forward") == 0;
    const char *const text = demo ? demo_values : text_cstr(&r->request.bindings);
    int n = 0;
    if (bindings_parse(r->arena, r->request.build.program, r->request.build.name, text, &values, &n))
        return fail_status(NULL);
    r->base = choose_base(r, values, n);
    r->wanted = case_with_values(r->arena, r->request.build.program, r->request.build.name, r->base, values, n);
    return -1;
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

static bool is_small(const Running *r, const Case *c)
{
    const double most = r->options->demo ? CHECKED_IN_DEMO_MAX : CHECKED_OPERATIONS_MAX;
    const Work work = work_of_case(c);
    return !work.gave_up && work.operations <= most && count_bytes(c) <= CHECKED_BYTES_MAX;
}

// The launch values of the check's own largest case, with the build that was asked for.
static const CheckCase *smaller_case(const Running *r)
{
    CheckCase *const copy = NEW(r->arena, CheckCase, .decl = NULL);
    *copy = *r->base;
    copy->build = r->wanted->build;
    copy->n_build = r->wanted->n_build;
    return copy;
}

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
    else if (is_small(r, timed)) check_now(r, build, r->wanted, v);
    else if (!r->base)
        snprintf(v->text, sizeof v->text, "too large for its reference, and it has no check with smaller sizes");
    else {
        Text size = { .arena = r->arena };
        const CheckCase *const smaller = smaller_case(r);
        bindings_print(&size, smaller->launch, smaller->n_launch);
        v->size = text_cstr(&size);
        check_now(r, build, smaller, v);
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
    printf("  %-10s %10.3f ms for %.3f Gop and %.2f MB: %.0f%% of the roofline\n", "floor", 1e3 * floor,
           1e-9 * work->operations, 1e-6 * work->bytes, 100 * floor / t);
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

// By the model of cost, of each step; 0: of some it is not known.
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

static double expected_seconds(const Running *r)
{
    BuildRequest request = r->request.build;
    Expected expected = { 0, false };
    LaunchValue *const values = NEW_ARRAY(r->arena, LaunchValue, r->wanted->n_launch + 1);
    if (!request.target.gpu) return 0;
    request.bindings = r->wanted->build;
    request.n_bindings = r->wanted->n_build;
    request.target.launch = values;
    for (int i = 0; i < r->wanted->n_launch; i++)
        if (r->wanted->launch[i].kind == BIND_INT)
            values[request.target.n_launch++] =
                (LaunchValue){ r->wanted->launch[i].name, r->wanted->launch[i].integer };
    return kernel_compile(&request, NULL, NULL, add_expected, &expected) || expected.unknown ? 0 : expected.seconds;
}

static void print_expected(const Running *r)
{
    const double seconds = expected_seconds(r);
    if (seconds > 0)
        printf("  %-10s %10.3f ms by the model of cost; see 'kiln explain --cost'\n", "expected", 1e3 * seconds);
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
    print_json_field("case", r->wanted->label);
    if (has_tolerance(v)) print_json_field("tolerance", r->tolerance);
    print_verdict_json(v);
    if (m) {
        fprintf(json_output(),
                ", \"runs\": %d, \"median_seconds\": %.9f, \"fastest_seconds\": %.9f, \"slowest_seconds\": %.9f",
                m->runs, m->median, m->fastest, m->slowest);
        const double expected = expected_seconds(r);
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

static void print_notes(const Running *r, const kiln_kernel *kernel)
{
    NoteTexts notes = { 0 };
    notes_collect(r->arena, &notes, kernel);
    for (int i = 0; i < notes.count; i++) fputs(notes.items[i], stdout);
}

static int time_case(Running *r, Case *c, const Verdict *v)
{
    Measurement m;
    progress("timing");
    const bool ok = measure_case(c, (double)r->options->seconds, &m);
    progress_end();
    if (!ok) return fail_case(c);
    if (r->options->json) {
        print_json(r, v, &m);
    } else {
        print_measurement(r, c, &m);
        print_expected(r);
        print_notes(r, c->build->kernel);
    }
    return EXIT_OK;
}

static int run_case(Running *r, const CaseBuild *build)
{
    static Case c;
    static Verdict v;
    int result = EXIT_FAILED;
    if (!case_open(&c, build, r->wanted, &r->cases)) {
        fail_case(&c);
    } else {
        check_result(r, build, &c, &v);
        if (!r->options->json && !r->options->no_check) print_verdict(&v);
        if (!r->options->json && has_tolerance(&v)) printf("  tolerance: %s\n", r->tolerance);
        else if (r->options->json && v.wrong) print_json(r, &v, NULL);
        if (!v.wrong) result = time_case(r, &c, &v);
    }
    case_close(&c);
    return result;
}

static int build_and_run(Running *r)
{
    CaseBuild build = build_of(r, r->wanted);
    progress("building %s", build.name);
    const bool ok = case_build(&build, &r->cases);
    progress_end();
    if (!ok) {
        fprintf(stderr, "kiln: %s\n", build.message ? build.message : "out of memory");
        case_build_free(&build);
        return EXIT_FAILED;
    }
    if (!r->options->json)
        printf("%s%s%s on %s\n  built in %.3f s\n", paint(stdout, BOLD), r->wanted->label, paint(stdout, PLAIN),
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
        r.request.build.device,
        { .check = r.options->target.check, .isa = r.options->target.isa, .arch = (int)r.options->target.arch },
        false,
        false
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
        { "--seconds", OPTION_NUMBER, &o.seconds, "N", "time for about N seconds (default: 1)" },
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
