// SPDX-License-Identifier: MIT
// tune.c - `kiln tune`: the build values that are the fastest for one launch.
//
// Candidates are all choices from the lists that the kernel's build parameters have. On a GPU the cost model sorts them; the
// first ones are built, on all processors, then each is compared with the reference and timed, the fastest once more and
// longer. What does not build, or does not fit, is left out; a wrong result ends the command with an error.
#include "tools/measure.h"
#include "runtime/tuned.h"

#include <stdlib.h>
#include <string.h>

enum { CANDIDATES_MAX = 20000, FINALISTS = 4 };
static const double CHECKED_OPERATIONS_MAX = 3e8, FIRST_SECONDS = 0.05, FINAL_SECONDS = 0.5;

typedef struct TuneOptions {
    TargetOptions target;
    double seconds;
    int64_t tries;
    const char *output;
    bool json;
    int n_args;
    char **args;
    GemmTableOptions table; // path: --gemm-table
} TuneOptions;

typedef struct Candidate {
    const Binding *values; // of the tuned parameters
    const char *text;      // the same
    const CheckCase *check;
    double expected; // seconds by the model; 0: not known
    CaseBuild build;
    bool is_default, built, wrong;
    double median; // seconds; 0: not timed
} Candidate;

typedef struct Tuning {
    const TuneOptions *options;
    Arena *arena;
    ToolRequest request;
    Choice choice;
    CaseOptions cases;
    Candidate *all;
    int n, n_values, found; // candidates; tuned parameters; choices there are, or more than CANDIDATES_MAX
    const char *given;      // build values that are not the default and not tuned
    int unfit;              // candidates that do not compile
    const char *why_unfit;  // the first one's message
    double deadline;
} Tuning;

// ---- candidates

static int by_expectation(const void *x, const void *y)
{
    const Candidate *const a = x, *const b = y;
    if (a->is_default != b->is_default) return b->is_default - a->is_default;
    return (a->expected > b->expected) - (a->expected < b->expected);
}

static int by_time(const void *x, const void *y)
{
    const Candidate *const a = x, *const b = y;
    const double s = a->median > 0 ? a->median : 1e30, t = b->median > 0 ? b->median : 1e30;
    return (s > t) - (s < t);
}

static const Tunings *list_tunings(Tuning *t)
{
    kiln_program *const program = t->request.build.program;
    const Target *const target = &t->request.build.target;
    const CheckOptions options = { .target = target->kind->name,
                                   .arch = target->gpu ? target->gpu->arch : 0,
                                   .bindings = t->request.build.bindings,
                                   .n_bindings = t->request.build.n_bindings };
    pthread_mutex_lock(&program->lock);
    program->program->diags = diags_new(program->program->arena);
    const Tunings *const tunings = check_tunings(program->program, t->request.build.name, &options, CANDIDATES_MAX);
    if (!tunings) program_fail(program->program->diags);
    pthread_mutex_unlock(&program->lock);
    return tunings;
}

static void make_candidate(Tuning *t, Candidate *c, const Binding *values, int i)
{
    kiln_program *const program = t->request.build.program;
    const char *const name = t->request.build.name;
    Text text = { .arena = t->arena };
    bindings_print(&text, values, t->n_values);
    *c = (Candidate){ .values = values, .text = text_cstr(&text), .is_default = i == 0 };
    c->check = case_with_values(t->arena, program, name, t->choice.wanted, values, t->n_values);
    c->build = (CaseBuild){ .program = program,
                            .name = name,
                            .bindings = c->check->build,
                            .n_bindings = c->check->n_build,
                            .has_reference = program_find(program->program, DECL_REFERENCE, name),
                            .has_verify = program_find(program->program, DECL_VERIFY, name) };
}

static int make_candidates(Tuning *t)
{
    const Tunings *const tunings = list_tunings(t);
    if (!tunings) return fail_status(NULL);
    if (tunings->n_values == 0)
        return fail_usage(
            "'%s' has no build parameter with a list of values to choose from, as in int BM = {128, 64, 256}, "
            "that is not given",
            t->request.build.name);
    t->n = tunings->count;
    t->found = tunings->found;
    t->n_values = tunings->n_values;
    Text given = { .arena = t->arena };
    bindings_print(&given, tunings->given, tunings->n_given);
    t->given = text_cstr(&given);
    t->all = NEW_ARRAY(t->arena, Candidate, t->n);
    for (int i = 0; i < t->n; i++) make_candidate(t, &t->all[i], tunings->items[i], i);
    return -1;
}

static void leave_out(Tuning *t, const char *why)
{
    if (t->unfit++ == 0) t->why_unfit = arena_copy_text(t->arena, why, strlen(why));
}

// Drops what does not compile; the others by what the model expects. A tenth of the time at most.
static void expect_all(Tuning *t)
{
    const double end = seconds_now() + t->options->seconds / 10;
    int kept = 0;
    for (int i = 0; i < t->n; i++) {
        Candidate *const c = &t->all[i];
        progress("cost model: %d of %d", i + 1, t->n);
        c->expected = seconds_now() < end || c->is_default ? case_expected_seconds(&t->request.build, c->check) : 1e30;
        if (c->expected <= 0) leave_out(t, kiln_error_message());
        else t->all[kept++] = *c;
    }
    progress_end();
    t->n = kept;
    qsort(t->all, (size_t)t->n, sizeof *t->all, by_expectation);
}

// Without a model: any, but the same in each run.
static void shuffle(Tuning *t)
{
    uint64_t state = 1;
    for (int i = t->n - 1; i > 1; i--) {
        state = state * UINT64_C(6364136223846793005) + 1;
        const int j = 1 + (int)((state >> 33) % (uint64_t)i);
        const Candidate kept = t->all[i];
        t->all[i] = t->all[j];
        t->all[j] = kept;
    }
}

static void choose_candidates(Tuning *t)
{
    if (t->request.build.target.gpu) expect_all(t);
    else shuffle(t);
    if (t->n > t->options->tries) t->n = (int)t->options->tries;
}

// ---- building, checking, timing

static void build_one(void *context, int i)
{
    Tuning *const t = context;
    if (seconds_now() < t->deadline) t->all[i].built = case_build(&t->all[i].build, &t->cases);
}

static void build_all(Tuning *t)
{
    progress("building %d candidates", t->n);
    in_parallel(t->n, build_one, t);
    progress_end();
    for (int i = 0; i < t->n; i++)
        if (!t->all[i].built && t->all[i].build.message) leave_out(t, t->all[i].build.message);
}

typedef enum { AGREES, DIFFERS, NOT_COMPARED } Agreement;

// A case of another size than the timed one may be none that this candidate takes: its clusters may not divide it.
static Agreement compare_with_reference(Tuning *t, Candidate *c, const Case *timed)
{
    static Case small;
    if (!c->build.reference && !c->build.verify) return AGREES;
    const CheckCase *const check = case_to_check(&t->choice, t->arena, timed, CHECKED_OPERATIONS_MAX);
    if (!check) return AGREES;
    Agreement found = NOT_COMPARED;
    if (case_open(&small, &c->build, check, &t->cases) && case_run(&small))
        found = case_check(&small) ? AGREES : DIFFERS;
    if (found == DIFFERS) fprintf(stderr, "kiln: WRONG with %s: %s\n", c->text, small.problem);
    if (found == NOT_COMPARED) leave_out(t, small.problem);
    case_close(&small);
    return found;
}

static void time_candidate(Tuning *t, Candidate *c, double seconds, bool compare)
{
    static Case timed;
    Measurement m;
    Agreement agreement = AGREES;
    if (!case_open(&timed, &c->build, c->check, &t->cases)) leave_out(t, timed.problem);
    else if (compare && (agreement = compare_with_reference(t, c, &timed)) != AGREES) c->wrong = agreement == DIFFERS;
    else if (!measure_times(&timed, seconds, &m)) leave_out(t, timed.problem);
    else c->median = m.median;
    case_close(&timed);
}

// The fastest ones again, for longer, and what they are compared with.
static void time_finalists(Tuning *t)
{
    qsort(t->all, (size_t)t->n, sizeof *t->all, by_time);
    for (int i = 0; i < t->n; i++) {
        Candidate *const c = &t->all[i];
        if ((i < FINALISTS || c->is_default) && c->median > 0) time_candidate(t, c, FINAL_SECONDS, false);
    }
    qsort(t->all, (size_t)t->n, sizeof *t->all, by_time);
}

static void time_all(Tuning *t)
{
    for (int i = 0; i < t->n && (seconds_now() < t->deadline || i == 0); i++) {
        progress("timing %d of %d: %s", i + 1, t->n, t->all[i].text);
        if (t->all[i].built) time_candidate(t, &t->all[i], FIRST_SECONDS, true);
    }
    time_finalists(t);
    progress_end();
}

// ---- what was found

static const Candidate *default_of(const Tuning *t)
{
    for (int i = 0; i < t->n; i++)
        if (t->all[i].is_default && t->all[i].median > 0) return &t->all[i];
    return NULL;
}

static void print_table(const Tuning *t)
{
    const Candidate *const first = default_of(t);
    int timed = 0, wrong = 0;
    for (int i = 0; i < t->n; i++) timed += t->all[i].median > 0, wrong += t->all[i].wrong;
    printf("%s on %s: %d of %s%d choices timed", t->choice.wanted->label, kiln_device_describe(t->cases.device), timed,
           t->found > CANDIDATES_MAX ? "more than " : "", t->found > CANDIDATES_MAX ? CANDIDATES_MAX : t->found);
    if (t->unfit) printf(", %d left out", t->unfit);
    printf("%s\n", wrong ? ", some WRONG" : "");
    if (t->unfit) printf("  left out first: %.*s\n", (int)strcspn(t->why_unfit, "\n"), t->why_unfit);
    printf("  %10s %10s %8s  %s\n", "ms", "expected", "default", "values");
    for (int i = 0; i < timed && i < 20; i++) {
        const Candidate *const c = &t->all[i];
        char expected[24] = "-";
        if (c->expected > 0 && c->expected < 1e29) snprintf(expected, sizeof expected, "%.4f", 1e3 * c->expected);
        printf("  %10.4f %10s", 1e3 * c->median, expected);
        if (first) printf(" %7.2fx", first->median / c->median);
        else printf(" %8s", "-");
        printf("  %s%s\n", c->text, c->is_default ? " (default)" : "");
    }
}

static TunedRow row_of(const Tuning *t, const Candidate *best)
{
    const Candidate *const first = default_of(t);
    Text launch = { .arena = t->arena };
    bindings_print(&launch, t->choice.wanted->launch, t->choice.wanted->n_launch);
    return (TunedRow){ .kernel = t->request.build.name,
                       .target = tuned_target(&t->request.build.target),
                       .given = t->given,
                       .launch = text_cstr(&launch),
                       .tuned = best->text,
                       .seconds = best->median,
                       .by_default = first ? first->median : 0,
                       .device = kiln_device_describe(t->cases.device) };
}

static void print_json(const TunedRow *row, int timed)
{
    FILE *const out = json_output();
    const char *const fields[][2] = { { "kernel", row->kernel }, { "target", row->target }, { "device", row->device },
                                      { "given", row->given },   { "launch", row->launch }, { "tuned", row->tuned } };
    for (int i = 0; i < COUNT(fields); i++) {
        fprintf(out, "%s\"%s\": ", i ? ", " : "{", fields[i][0]);
        print_json_text(out, fields[i][1]);
    }
    fprintf(out, ", \"seconds\": %.9f, \"default_seconds\": %.9f, \"timed\": %d}\n", row->seconds, row->by_default,
            timed);
}

static int report(const Tuning *t)
{
    int timed = 0, wrong = 0;
    for (int i = 0; i < t->n; i++) timed += t->all[i].median > 0, wrong += t->all[i].wrong;
    if (timed == 0) {
        fprintf(stderr, "kiln: no candidate could be timed%s%s\n", t->unfit ? ": " : "", t->unfit ? t->why_unfit : "");
        return EXIT_FAILED;
    }
    const TunedRow row = row_of(t, &t->all[0]);
    if (t->options->json) print_json(&row, timed);
    else print_table(t);
    if (t->options->output && tuned_write(t->options->output, &row)) return fail_status(NULL);
    return wrong ? EXIT_FAILED : EXIT_OK;
}

// ---- the command

// The build values that are given, without those of the launch.
static void keep_build_values(Tuning *t)
{
    t->choice.wanted = case_to_tune(&t->choice, t->arena, t->request.build.program, t->request.build.name);
    t->request.build.bindings = t->choice.wanted->build;
    t->request.build.n_bindings = t->choice.wanted->n_build;
}

static int search(Tuning *t)
{
    const char *const text = text_cstr(&t->request.bindings);
    int result = case_choose(&t->choice, t->arena, t->request.build.program, t->request.build.name, text);
    t->cases.unchecked_types = t->choice.unchecked_types;
    if (result < 0) keep_build_values(t);
    if (result < 0) result = make_candidates(t);
    if (result >= 0) return result;
    choose_candidates(t);
    build_all(t);
    time_all(t);
    result = report(t);
    for (int i = 0; i < t->n; i++) case_build_free(&t->all[i].build);
    return result;
}

static int tune(Arena *arena, void *context)
{
    Tuning t = { .options = context, .arena = arena };
    if (t.options->json) json_output();
    t.deadline = seconds_now() + t.options->seconds;
    int result = request_open(&t.request, arena, &t.options->target, t.options->n_args, t.options->args);
    t.cases = (CaseOptions){
        .device = t.request.build.device,
        .build = { .check = t.options->target.check,
                   .isa = t.options->target.isa,
                   .arch = (int)t.options->target.arch },
    };
    if (result < 0 && !t.cases.device) result = fail_usage("tune: --arch needs a CUDA device: --device=cuda:0");
    if (result < 0) result = search(&t);
    request_close(&t.request);
    json_output_end();
    return result;
}

static int make_gemm_table(Arena *arena, void *context)
{
    TuneOptions *const o = context;
    o->table.device = o->target.device;
    o->table.output = o->output;
    o->table.seconds = o->seconds;
    o->table.n_args = o->n_args;
    o->table.args = o->args;
    return bench_gemm_table(arena, &o->table);
}

int tool_tune(int argc, char **argv)
{
    TuneOptions o = { .seconds = 60, .tries = 32, .args = argv, .table = { .seed = 1, .steps = 20000 } };
    const Option options[] = {
        DEVICE_OPTIONS(o.target, "CUDA: 90 or 80 instead of the device's"),
        { "--seconds", OPTION_SECONDS, &o.seconds, "S", "start no further candidate after S seconds (default: 60)" },
        { "--tries", OPTION_NUMBER, &o.tries, "N", "build and time at most N candidates (default: 32)" },
        { "--output", OPTION_TEXT, &o.output, "FILE", "put the result into a file for --tuned; other rows of it stay" },
        { "--json", OPTION_FLAG, &o.json, NULL, "print one JSON object: the fastest values and times" },
        { "--gemm-table", OPTION_TEXT, &o.table.path, "TIMES",
          "make kiln_gemm's table, of the times in this file and others" },
        { "--seed", OPTION_NUMBER, &o.table.seed, "N", "of --gemm-table: chooses the shapes (default: 1)" },
        { "--steps", OPTION_NUMBER, &o.table.steps, "N", "of --gemm-table: steps of the fit (default: 20000)" },
        { "--beside", OPTION_TEXT, &o.table.beside, "COMMAND",
          "of --gemm-table: time a peer by this program, too, as in kiln bench" },
    };
    const Usage usage = {
        "kiln tune [OPTION...] FILE [KERNEL] [NAME=VALUE...]",
        "Finds the build values with which a kernel is the fastest for one launch. Tried are the values of build parameters that have\n"
        "a list, as in int BM = {128, 64, 256}, and are not given: on a GPU in the order of the cost model, else in any. Each is\n"
        "compared with the reference before it is timed. Values of the launch that are not given are chosen as by 'kiln run'.\n\n"
        "With --gemm-table the arguments are files of times of kiln_gemm's tiles, to which the table of its choices is fitted. With a\n"
        "--device its tiles are timed first, for S seconds, on shapes that the seed chooses, and added to the file TIMES. --output is the\n"
        "table's source (src/ops/gemm_costs.c), which is written if it chooses better than the one there is.",
        options, COUNT(options),
        "  kiln tune mine.tile gemm T=f32 M=512 N=512 K=512\n"
        "  kiln tune --device=cuda:0 --output=tuned.txt mine.tile gemm M=4096 N=4096 K=4096\n"
        "  kiln tune --gemm-table=times.csv --device=cuda:0 --seconds=300 --seed=7 --output=src/ops/gemm_costs.c\n"
        "  kiln build --tuned=tuned.txt --tuned-for=M=4096,N=4096 --arch=90 --emit=object mine.tile gemm\n"
    };
    const int end = parse_options(&usage, argc, argv, &o.n_args);
    if (end >= 0) return end;
    if (o.table.path) return with_arena(make_gemm_table, &o);
    return o.tries < 1 ? fail_usage("--tries=0: at least one candidate") : with_arena(tune, &o);
}
