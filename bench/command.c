// SPDX-License-Identifier: MIT
// command.c - `kiln bench`: the tables of docs/benchmarks, each row beside its baseline and the machine's ceiling.
//
// Row and baseline are timed in turns (A B A B), because clocks move and neighbours come and go. On the CPU the fastest
// runs are compared: whatever else the machine does only adds time. On a GPU, which is ours alone, the medians are.
// A GPU rests after each turn for as long as the turn took: the power limit acts some 20 ms after the load begins, on
// whoever comes second, and large products then differed by 10% from run to run.
#include "cliffs.h"
#include "history.h"
#include "sweep.h"
#include "base/memory.h"
#include "toolchain/toolchain.h"

#include <errno.h>
#include <math.h>
#include <time.h>
#include <unistd.h>

enum { GPU_ROUNDS = 3, GPU_RUNS = 12, CPU_ROUNDS = 5, CPU_RUNS = 3, LAUNCHES = 200, LAUNCH_ROUNDS = 20 };

typedef struct BenchOptions {
    const char *device, *kernels, *beside, *save, *html, *history, *from;
    bool json, list, compile, cliffs;
    char *sweep; // "-": all families
    CliffOptions of_cliffs;
    SweepOptions of_sweep;
    double seconds;
    int64_t row_limit, skip;
    int n_args;
    char **args;
} BenchOptions;

typedef struct Result {
    const Row *row;
    Spread own, baseline;
    int runs;
    double operations, bytes, build_seconds;
    double rate, ceiling, ratio; // work per second; NAN: unknown
    double floor;                // seconds that bytes and operations take at best; a GPU's
    bool by_memory;              // rate and ceiling are bytes
    char baseline_name[112];
    int registers, spill_bytes;
    bool failed;
    const char *correct; // in JSON: elements of its results were compared, or it did not come to that
    char problem[512];
} Result;

typedef struct Bench {
    const BenchOptions *options;
    Arena *arena;
    Machine machine;
    kiln_ops *ops;    // opened with the first row of an operator
    double copy_rate; // a GPU's, measured in this run
    FILE *json;
    bool any;          // something was written to json
    bool began;        // the JSON object
    int shown, wanted; // rows, for who interrupts
    SavedRuns history; // of the page, read before anything is timed
    char *text;        // the JSON object, where it is for the page alone
    size_t n_text;
} Bench;

// ---- one row

static double peak_of(const Bench *b, DType type)
{
    static double known[DTYPE_COUNT]; // measuring takes a while
    if (!known[type]) known[type] = ceiling_of(b->machine.device, type).operations_per_second;
    return known[type];
}

static double typical(const Bench *b, Spread s) { return b->machine.is_cpu ? s.fastest : s.median; }

static void judge(const Bench *b, const BenchCase *c, const Baseline *baseline, Result *r)
{
    const Expectation *const e = find_expectation(c->row->kernel);
    const bool against_memory = c->row->goal == OF_CEILING || c->row->goal == BYTES ||
                                baseline->kind == BASELINE_READ || baseline->kind == BASELINE_COPY;
    const double t = typical(b, r->own), other = typical(b, r->baseline);
    r->operations = e->operations ? e->operations(c) : 0;
    r->bytes = bench_bytes(c);
    r->by_memory = against_memory || r->operations == 0;
    r->rate = (r->by_memory ? r->bytes : r->operations) / t;
    // A CPU's peak depends on what else it does at the moment: there only baselines count.
    r->ceiling = b->machine.is_cpu ? (r->by_memory ? baseline->work / other : 0)
                 : r->by_memory    ? b->copy_rate
                                   : peak_of(b, dtype_of_type(c->tensors[0].tensor.type));
    if (!b->machine.is_cpu)
        r->floor = fmax(r->bytes / b->copy_rate, r->operations / peak_of(b, dtype_of_type(c->tensors[0].tensor.type)));
    const double work = baseline->work ? baseline->work : r->by_memory ? r->bytes : r->operations;
    r->ratio = baseline->kind == BASELINE_NONE || !other ? NAN : r->rate / (work / other);
}

static void rest_since(const Bench *b, double begin)
{
    const double seconds = seconds_now() - begin;
    const struct timespec rest = { (time_t)seconds, (long)(1e9 * (seconds - floor(seconds))) };
    if (!b->machine.is_cpu) nanosleep(&rest, NULL);
}

static bool time_in_turns(Bench *b, BenchCase *c, Baseline *baseline, Result *r)
{
    static Times own, other, warm_up;
    const int runs = b->machine.is_cpu ? CPU_RUNS : GPU_RUNS, rounds = b->machine.is_cpu ? CPU_ROUNDS : GPU_ROUNDS;
    const double seconds = b->options->seconds / rounds;
    own.n = other.n = warm_up.n = 0;
    if (!machine_time(&b->machine, bench_case_launch, c, 2, 0, &warm_up)) return false;
    baseline_time(baseline, 2, 0, &warm_up);
    for (int i = 0; i < rounds; i++) {
        double begin = seconds_now();
        baseline_time(baseline, runs, seconds, &other);
        rest_since(b, begin);
        begin = seconds_now();
        if (!machine_time(&b->machine, bench_case_launch, c, runs, seconds, &own)) return false;
        rest_since(b, begin);
    }
    r->runs = own.n;
    r->own = times_spread(&own);
    r->baseline = times_spread(&other);
    return true;
}

// An operator: checked and timed as in a sweep.
static void measure_operator(Bench *b, const Row *row, Result *r)
{
    static SweepResult s;
    Shape shape;
    *r = (Result){ .row = row, .ratio = NAN, .correct = "null", .failed = true };
    snprintf(r->problem, sizeof r->problem, "no such family or shape");
    const SweepFamily *const family = find_sweep_family(row->kernel);
    if (!family || !shape_parse(&shape, row->values)) return;
    if (!b->ops && kiln_ops_open(b->machine.device, NULL, &b->ops)) {
        snprintf(r->problem, sizeof r->problem, "%.500s", kiln_error_message());
        return;
    }
    sweep_measure(&s, family, &shape, &b->machine, b->ops, b->options->seconds);
    r->failed = s.failed;
    r->correct = s.wrong ? "false" : s.failed ? "null" : "true";
    snprintf(r->problem, sizeof r->problem, "%s", s.problem);
    snprintf(r->baseline_name, sizeof r->baseline_name, "%.111s", s.peer);
    r->own = s.own;
    r->baseline = s.other;
    r->runs = s.runs;
    r->operations = s.operations;
    r->bytes = s.bytes;
    r->build_seconds = s.build_seconds;
    r->by_memory = s.operations == 0;
    r->ratio = s.ratio;
    if (s.failed) return;
    r->rate = (r->by_memory ? r->bytes : r->operations) / typical(b, r->own);
    r->ceiling = r->by_memory ? b->copy_rate : 0; // the peak depends on types that are the family's own affair
}

static void measure_row(Bench *b, const Row *row, Result *r)
{
    if (!row->file) return measure_operator(b, row, r);
    static BenchCase c;
    static Baseline baseline;
    *r = (Result){ .row = row, .ratio = NAN, .correct = "true" };
    baseline.kind = BASELINE_NONE;
    bool ok = bench_case_open(&c, b->arena, row, b->options->kernels, &b->machine);
    if (ok) {
        baseline_open(&baseline, b->arena, &c, b->options->kernels);
        ok = time_in_turns(b, &c, &baseline, r);
    }
    if (ok) {
        judge(b, &c, &baseline, r);
        snprintf(r->baseline_name, sizeof r->baseline_name, "%s", baseline.kind == BASELINE_NONE ? "" : baseline.name);
        r->build_seconds = c.build.seconds;
        r->registers = c.build.kernel->report.registers;
        r->spill_bytes = c.build.kernel->report.spill_bytes;
    } else {
        r->failed = true;
        r->correct = c.wrong ? "false" : "null";
        snprintf(r->problem, sizeof r->problem, "%.500s", c.problem[0] ? c.problem : kiln_error_message());
    }
    baseline_close(&baseline);
    bench_case_close(&c);
}

// ---- the table

// As a share of the target.
static double reached(const Result *r)
{
    switch (r->row->goal) {
    case OF_BASELINE: return r->ratio / r->row->target;
    case OF_CEILING: return r->rate / r->ceiling / r->row->target;
    case OPERATIONS: return r->operations / r->own.median / r->row->target;
    case BYTES: return r->bytes / r->own.median / r->row->target;
    case SECONDS: return r->row->target / r->own.median;
    }
    return NAN;
}

static const char *verdict(const Result *r)
{
    return !r->row->target || isnan(reached(r)) ? "-" : reached(r) >= 1 ? "met" : "not met";
}

static void print_target(char *text, size_t bytes, const Row *row)
{
    switch (row->goal) {
    case OF_BASELINE: snprintf(text, bytes, "%.2f", row->target); break;
    case OF_CEILING: snprintf(text, bytes, "%.0f%% of ceiling", 100 * row->target); break;
    case OPERATIONS: snprintf(text, bytes, "%.0f TFLOPS", 1e-12 * row->target); break;
    case BYTES: snprintf(text, bytes, "%.0f GB/s", 1e-9 * row->target); break;
    case SECONDS: snprintf(text, bytes, "%.1f us", 1e6 * row->target); break;
    }
}

static void print_rate(char *text, size_t bytes, double rate, bool is_bytes)
{
    if (isnan(rate) || rate <= 0) snprintf(text, bytes, "-");
    else if (is_bytes) snprintf(text, bytes, "%.0f GB/s", 1e-9 * rate);
    else if (rate >= 1e13) snprintf(text, bytes, "%.0f TFLOPS", 1e-12 * rate);
    else snprintf(text, bytes, "%.0f GFLOPS", 1e-9 * rate);
}

static void print_result(const Result *r)
{
    char rate[32], ceiling[32] = "-", baseline[160] = "-", baseline_rate[32], ratio[16] = "-", target[32] = "-",
                   floor[16] = "-";
    if (r->failed) {
        printf("| %s | failed: %.*s | | | | | | | | |\n", r->row->name, (int)strcspn(r->problem, "\n"), r->problem);
        return;
    }
    print_rate(rate, sizeof rate, r->rate, r->by_memory);
    if (r->ceiling > 0) snprintf(ceiling, sizeof ceiling, "%.0f%%", 100 * r->rate / r->ceiling);
    if (!isnan(r->ratio)) {
        print_rate(baseline_rate, sizeof baseline_rate, r->rate / r->ratio, r->by_memory);
        snprintf(baseline, sizeof baseline, "%s: %s", r->baseline_name, baseline_rate);
        snprintf(ratio, sizeof ratio, "%.3f", r->ratio);
    } else if (!r->row->file) {
        snprintf(baseline, sizeof baseline, "%s", r->baseline_name);
    }
    if (r->row->target) print_target(target, sizeof target, r->row);
    if (r->floor > 0) snprintf(floor, sizeof floor, "%.4f", 1e3 * r->floor);
    printf("| %s | %.4f (%.4f to %.4f) | %s | %s | %s | %s | %s | %s | %s | %.2f |\n", r->row->name,
           1e3 * r->own.median, 1e3 * r->own.fastest, 1e3 * r->own.slowest, floor, rate, ceiling, baseline, ratio,
           target, verdict(r), r->build_seconds);
    fflush(stdout);
}

static void print_table_head(void)
{
    printf(
        "| what | ms: median (fastest to slowest) | floor ms | rate | of ceiling | baseline | ratio | target | | build "
        "s |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
}

static void begin_json(Bench *b)
{
    fprintf(b->json, "%s\n  {", b->any ? "," : "");
    b->any = true;
}

static void print_number(FILE *out, const char *name, double value)
{
    if (isnan(value) || isinf(value)) fprintf(out, ", \"%s\": null", name);
    else fprintf(out, ", \"%s\": %.9g", name, value);
}

static void print_json_problem(FILE *out, const char *problem)
{
    fprintf(out, ", \"problem\": ");
    print_json_text(out, problem);
    fprintf(out, "}");
}

static void save_result(Bench *b, const Result *r)
{
    begin_json(b);
    fprintf(b->json, "\"name\": \"%s\", \"kernel\": \"%s\", \"values\": \"%s\", \"correct\": %s", r->row->name,
            r->row->kernel, r->row->values, r->correct);
    if (r->failed) {
        print_json_problem(b->json, r->problem);
        return;
    }
    fprintf(b->json,
            ", \"runs\": %d, \"registers\": %d, \"spill_bytes\": %d, \"verdict\": \"%s\", \"baseline\": ", r->runs,
            r->registers, r->spill_bytes, verdict(r));
    print_json_text(b->json, r->baseline_name);
    char target[32] = "";
    if (r->row->target) print_target(target, sizeof target, r->row);
    fprintf(b->json, ", \"target_text\": \"%s\", \"rate_of\": \"%s\"", target, r->by_memory ? "bytes" : "operations");
    // clang-format off
    const struct { const char *name; double value; } numbers[] = {
        { "median_seconds", r->own.median }, { "fastest_seconds", r->own.fastest }, { "slowest_seconds", r->own.slowest },
        { "baseline_median_seconds", r->baseline.median }, { "baseline_fastest_seconds", r->baseline.fastest },
        { "baseline_slowest_seconds", r->baseline.slowest }, { "operations", r->operations }, { "bytes", r->bytes },
        { "floor_seconds", r->floor },
        { "rate", r->rate }, { "ceiling", r->ceiling }, { "ratio", r->ratio }, { "target", r->row->target },
        { "build_seconds", r->build_seconds } };
    for (int i = 0; i < COUNT(numbers); i++)
        print_number(b->json, numbers[i].name, numbers[i].value);
    fprintf(b->json, "}");
    fflush(b->json);
}

// ---- the cost of a launch on the host

static const Row launch_rows[] = {
    { "launch add", "elementwise/add.tile", "add", "T=f32, M=64, N=512, MB=64, NB=512", 5e-6, SECONDS, BASELINE_NONE, NULL, 0 },
    { "launch gemm", "gemm/gemm.tile", "gemm_nt", "T=bf16, M=128, N=256, K=128", 5e-6, SECONDS, BASELINE_NONE, NULL, 0 },
    { "launch attention", "attention/forward.tile", "attention_forward", "T=bf16, D=128, CAUSAL=false, LSE=none, B=1, S=128, "
      "SKV=128, H=1, HKV=1, scale=0.088", 5e-6, SECONDS, BASELINE_NONE, NULL, 0 },
};

// Launches without waiting, fewer than a device queues, then the wait outside the clock.
static bool time_launches(Bench *b, BenchCase *c, Times *times)
{
    times->n = 0;
    for (int i = 0; i < LAUNCH_ROUNDS; i++) {
        const double begin = seconds_now();
        for (int k = 0; k < LAUNCHES; k++)
            if (!bench_case_launch(c))
                return false;
        times_add(times, (seconds_now() - begin) / LAUNCHES);
        if (kiln_stream_wait(b->machine.device, NULL))
            return false;
    }
    // clang-format on
    return true;
}

static bool measure_launch(Bench *b, const Row *row, bool first)
{
    static BenchCase c;
    static Times times;
    const bool ok =
        bench_case_open(&c, b->arena, row, b->options->kernels, &b->machine) && time_launches(b, &c, &times);
    const Spread s = times_spread(&times);
    if (first && !b->options->json)
        printf("\n| launch, warm, on the host | us: median (fastest to slowest) | target | |\n| --- | --- | --- | --- "
               "|\n");
    if (!ok) fprintf(stderr, "kiln: %s: %s\n", row->name, c.problem[0] ? c.problem : kiln_error_message());
    else if (!b->options->json)
        printf("| %s | %.2f (%.2f to %.2f) | %.1f | %s |\n", row->name, 1e6 * s.median, 1e6 * s.fastest,
               1e6 * s.slowest, 1e6 * row->target, s.median <= row->target ? "met" : "not met");
    if (b->json) {
        begin_json(b);
        fprintf(b->json, "\"name\": \"%s\", \"correct\": %s", row->name, ok ? "true" : c.wrong ? "false" : "null");
        if (ok) fprintf(b->json, ", \"host_seconds\": %.9g, \"target\": %.9g}", s.median, row->target);
        else print_json_problem(b->json, c.problem[0] ? c.problem : kiln_error_message());
    }
    fflush(stdout);
    bench_case_close(&c);
    return ok;
}

// ---- all of them

static bool is_wanted(const BenchOptions *o, const char *name)
{
    bool any = o->n_args == 0;
    for (int i = 0; i < o->n_args; i++) any |= strstr(name, o->args[i]) != NULL;
    return any;
}

static int fail_no_row(const BenchOptions *o)
{
    return fail_usage("no row's name contains '%s'%s; see 'kiln bench --list'", o->n_args ? o->args[0] : "",
                      o->n_args > 1 ? " or one of the others" : "");
}

static bool reopen(Bench *b, kiln_device **device)
{
    kiln_ops_close(b->ops);
    b->ops = NULL;
    machine_close(&b->machine);
    kiln_device_close(*device);
    *device = NULL;
    return kiln_device_open(b->options->device, device) == KILN_OK && machine_open(&b->machine, *device);
}

static bool measure_copying(Bench *b)
{
    static Times times;
    times.n = 0;
    if (b->machine.is_cpu) return true;
    if (!machine_copy(&b->machine) || !machine_time(&b->machine, machine_copy, &b->machine, 20, 0, &times))
        return false;
    b->copy_rate = MACHINE_BYTES / times_spread(&times).median;
    if (!b->options->json) printf("Copy from device to device: %.0f GB/s read and written.\n\n", 1e-9 * b->copy_rate);
    return true;
}

static int bench_all(Bench *b, kiln_device **device)
{
    int n, result = EXIT_OK, launches = 0, passed = 0;
    const Row *const rows = bench_rows(b->machine.is_cpu, &n);
    static Result r;
    if (!b->options->json) printf("%s; kiln %s\n\n", kiln_device_describe(*device), KILN_VERSION);
    if (!measure_copying(b)) return fail_status(NULL);
    for (int i = 0; i < n; i++) {
        if (!is_wanted(b->options, rows[i].name) || passed++ < b->options->skip) continue;
        progress("%s", rows[i].name);
        alarm((unsigned)b->options->row_limit);
        measure_row(b, &rows[i], &r);
        output_hold();
        progress_end();
        if (!b->options->json && b->shown == 0) print_table_head();
        b->shown++;
        if (!b->options->json) print_result(&r);
        if (b->json) save_result(b, &r);
        output_release();
        if (r.failed) {
            fprintf(stderr, "kiln: %s: %s\n", r.row->name, r.problem);
            result = EXIT_FAILED;
            if ((*device)->poisoned && !reopen(b, device)) return fail_status(NULL), EXIT_DEVICE_LOST;
        }
    }
    alarm(0);
    for (int i = 0; i < COUNT(launch_rows) && !b->machine.is_cpu; i++)
        if (is_wanted(b->options, launch_rows[i].name) && passed++ >= b->options->skip) {
            if (!measure_launch(b, &launch_rows[i], launches++ == 0)) result = EXIT_FAILED;
        }
    return passed == 0 ? fail_no_row(b->options) : result;
}

static bool any_wanted(const BenchOptions *o)
{
    int n;
    const bool is_cpu = strncmp(o->device, "cpu", 3) == 0;
    const Row *const rows = bench_rows(is_cpu, &n);
    for (int i = 0; i < n; i++)
        if (is_wanted(o, rows[i].name)) return true;
    for (int i = 0; i < COUNT(launch_rows) && !is_cpu; i++)
        if (is_wanted(o, launch_rows[i].name)) return true;
    return false;
}

static bool list_row(const BenchOptions *o, const Row *row)
{
    const bool wanted = is_wanted(o, row->name);
    if (wanted) printf("%-34s %s %s\n", row->name, row->kernel, row->values);
    return wanted;
}

static int list_rows(const BenchOptions *o)
{
    int n, listed = 0;
    const bool is_cpu = strncmp(o->device, "cpu", 3) == 0;
    const Row *const rows = bench_rows(is_cpu, &n);
    for (int i = 0; i < n; i++) listed += list_row(o, &rows[i]);
    for (int i = 0; i < COUNT(launch_rows) && !is_cpu; i++) listed += list_row(o, &launch_rows[i]);
    return listed ? EXIT_OK : fail_no_row(o);
}

void bench_print_saved(const char *path)
{
    size_t n;
    char *const text = file_read(path, &n);
    if (text) fwrite(text, 1, n, stdout);
    fflush(stdout);
    memory_free(text);
}

static void end_json(const Bench *b, const char *more)
{
    fprintf(b->json, "\n], \"copy_bytes_per_second\": %.0f%s}\n", b->copy_rate, more);
    fflush(b->json);
    if (b->options->json && b->options->save) bench_print_saved(b->options->save);
}

static void print_interrupted(void *context)
{
    const Bench *const b = context;
    if (b->json && b->began) end_json(b, ", \"interrupted\": true");
    if (!b->options->json) printf("\ninterrupted after %d of %d rows\n", b->shown, b->wanted);
}

static int count_wanted(const BenchOptions *o, bool is_cpu)
{
    int n, wanted = 0;
    const Row *const rows = bench_rows(is_cpu, &n);
    for (int i = 0; i < n; i++) wanted += is_wanted(o, rows[i].name);
    return wanted;
}

static int run_bench(Bench *b, kiln_device **device)
{
    int result;
    output_hold();
    if (b->json) {
        b->began = true;
        fprintf(b->json, "{\"device\": ");
        print_json_text(b->json, kiln_device_describe(*device));
        fprintf(b->json, ", \"version\": \"%s\", \"date\": \"%s\", \"rows\": [", KILN_VERSION,
                saved_date(b->arena, time(NULL)));
    }
    output_release();
    if (b->options->compile) result = bench_compile(b->arena, *device, b->options->kernels, b->json);
    else result = machine_open(&b->machine, *device) ? bench_all(b, device) : fail_status(NULL);
    output_hold(); // not given back: from here on nothing is interrupted
    if (b->json) end_json(b, "");
    kiln_ops_close(b->ops);
    if (!b->options->compile) machine_close(&b->machine);
    return result;
}

// ---- the page

static int refuse_options(const BenchOptions *o)
{
    if (o->compile + o->cliffs + (o->sweep != NULL) > 1)
        return fail_usage("--compile, --cliffs and --sweep: one of them");
    if (o->of_sweep.shape && !o->sweep) return fail_usage("--shape is of --sweep=FAMILY");
    if (!o->html) return o->history || o->from ? fail_usage("--history and --from are of --html=FILE") : -1;
    if (o->compile || o->cliffs || o->sweep || o->list)
        return fail_usage("--html shows the table of rows, and nothing else");
    if (o->json && !o->save && !o->from) return fail_usage("--html beside --json needs --save=FILE");
    return -1;
}

static int write_page(const BenchOptions *o, const SavedRun *run, const SavedRuns *history)
{
    SavedRuns earlier = *history;
    FILE *const out = fopen(o->html, "w");
    if (!out) return fail_usage("cannot write %s: %s", o->html, strerror(errno));
    saved_runs_keep_earlier(&earlier, run);
    const bool whole = bench_page_write(out, run, &earlier);
    if ((ferror(out) | fclose(out)) != 0) return fail_usage("cannot write all of %s: %s", o->html, strerror(errno));
    return whole ? -1 : EXIT_FAILED;
}

// Of what was saved at `path`, or is in memory.
static int show_page(Arena *arena, const BenchOptions *o, const char *path, char *text, size_t n,
                     const SavedRuns *history)
{
    SavedRun run;
    if (!text) text = file_read(path, &n);
    if (!text) return fail_usage("cannot read %s: %s", path, strerror(errno));
    const bool ok = saved_run_parse(arena, path, text, n, "", &run);
    memory_free(text);
    return ok ? write_page(o, &run, history) : fail_usage("%s is no saved run", path);
}

static int show_saved(Arena *arena, const BenchOptions *o)
{
    SavedRuns runs = { 0 }, history = { 0 };
    if (o->history && !saved_runs_read(arena, o->history, &history)) return EXIT_USAGE;
    if (!saved_runs_read(arena, o->from, &runs)) return EXIT_USAGE;
    if (runs.count == 0) return fail_usage("%s: no saved run", o->from);
    const int result = write_page(o, &runs.items[runs.count - 1], o->history ? &history : &runs);
    return result < 0 ? EXIT_OK : result;
}

// Before minutes of timing. An earlier page stays as it is until then.
static bool can_write(const char *path)
{
    FILE *const out = fopen(path, "a");
    if (!out) fail_usage("cannot write %s: %s", path, strerror(errno));
    return out && fclose(out) == 0;
}

// Where the JSON object goes. False: after a message.
static bool open_json(Bench *b)
{
    const BenchOptions *const o = b->options;
    if (o->html && !can_write(o->html)) return false;
    if (o->save) b->json = fopen(o->save, "w");
    else if (o->html) b->json = open_memstream(&b->text, &b->n_text);
    if (b->json || !(o->save || o->html)) return true;
    fail_usage("cannot write %s: %s", o->save ? o->save : o->html, strerror(errno));
    return false;
}

static int close_json(Bench *b, int result)
{
    const BenchOptions *const o = b->options;
    if (!o->save && !o->html) return result;
    if ((ferror(b->json) | fclose(b->json)) != 0)
        return fail_usage("cannot write all of %s: %s", o->save ? o->save : o->html, strerror(errno));
    if (!o->html) return result;
    const int shown = show_page(b->arena, o, o->save ? o->save : "the run", b->text, b->n_text, &b->history);
    return shown < 0 ? result : shown;
}

static int bench(Arena *arena, void *context)
{
    BenchOptions *const o = context;
    if (!o->kernels) o->kernels = kernels_folder(arena);
    Bench b = { .options = o, .arena = arena, .json = o->json ? stdout : NULL };
    kiln_device *device = NULL;
    const int refused = refuse_options(o);
    if (refused >= 0) return refused;
    if (o->from) return show_saved(arena, o);
    if (o->cliffs) return bench_cliffs(arena, &o->of_cliffs);
    if (o->sweep) return bench_sweep(arena, &o->of_sweep);
    if (o->list) return list_rows(o);
    if (!o->compile && !any_wanted(o)) return fail_no_row(o);
    if (o->history && !saved_runs_read(arena, o->history, &b.history)) return EXIT_USAGE;
    b.wanted = count_wanted(o, strncmp(o->device, "cpu", 3) == 0);
    on_interrupt(print_interrupted, &b); // before the device, which starts threads
    if (kiln_device_open(o->device, &device)) return fail_status(NULL);
    if (!open_json(&b)) return EXIT_USAGE;
    if (o->beside && !baseline_start_process(o->beside)) return fail_usage("cannot start '%s'", o->beside);
    const int result = run_bench(&b, &device);
    baseline_end_process();
    kiln_device_close(device);
    return close_json(&b, result);
}

// Families are those of --sweep= and the other arguments.
enum { SWEEP_NAMES_MAX = 63 };
static void take_sweep_options(BenchOptions *o, char **families)
{
    SweepOptions *const s = &o->of_sweep;
    s->device = o->device;
    s->beside = o->beside;
    s->save = o->save;
    s->json = o->json;
    s->list = o->list;
    s->seed = o->of_cliffs.seed;
    s->limit = o->of_cliffs.limit;
    s->seconds = o->seconds;
    s->check_only = o->of_cliffs.check_only;
    s->skip = o->skip;
    s->row_limit = o->row_limit;
    s->args = families;
    if (o->sweep && strcmp(o->sweep, "-") != 0) families[s->n_args++] = o->sweep;
    for (int i = 0; i < o->n_args && s->n_args < SWEEP_NAMES_MAX; i++) families[s->n_args++] = o->args[i];
}

int tool_bench(int argc, char **argv)
{
    BenchOptions o = { .device = "cpu",
                       .seconds = 1,
                       .args = argv,
                       .of_cliffs = { .seed = 1, .sites = 2, .args = argv },
                       .of_sweep = { .count = 10, .args = argv } };
    const Option options[] = {
        { "--device", OPTION_TEXT, &o.device, "NAME", "cpu, cuda:0 ... (default: cpu)" },
        { "--kernels", OPTION_TEXT, &o.kernels, "FOLDER", "the library's sources (default: as they are installed)" },
        { "--beside", OPTION_TEXT, &o.beside, "COMMAND",
          "a program that times other implementations of the same rows" },
        { "--seconds", OPTION_SECONDS, &o.seconds, "S",
          "CPU: time each row and its baseline for about S seconds (default: 1)" },
        { "--row-limit", OPTION_NUMBER, &o.row_limit, "N",
          "end the program when a row takes more than N seconds: a kernel may hang" },
        { "--skip", OPTION_NUMBER, &o.skip, "N", "leave out the first N of the rows" },
        { "--compile", OPTION_FLAG, &o.compile, NULL, "compile times of every kernel instead" },
        { "--cliffs", OPTION_FLAG, &o.cliffs, NULL,
          "kernels rewritten in ways that mean the same, each beside its original, instead" },
        { "--sweep", OPTION_FILE, &o.sweep, "FAMILY",
          "operators at shapes drawn from those of engines instead, and how the ratios to their peers are distributed" },
        { "--count", OPTION_NUMBER, &o.of_sweep.count, "N", "of --sweep: shapes of each family (default: 10)" },
        { "--small", OPTION_FLAG, &o.of_sweep.small, NULL, "of --sweep: small shapes, as on the CPU" },
        { "--work", OPTION_NUMBER, &o.of_sweep.work, "N",
          "of --sweep: draw no shape of more than N million operations or bytes" },
        { "--shape", OPTION_TEXT, &o.of_sweep.shape, "VALUES",
          "of --sweep: this shape alone, as M=64,N=4096,K=4096,T=bf16" },
        { "--check-only", OPTION_FLAG, &o.of_cliffs.check_only, NULL,
          "of --cliffs and --sweep: compare results, time nothing" },
        { "--compile-only", OPTION_FLAG, &o.of_cliffs.compile_only, NULL,
          "of --cliffs: say what the code lacks, run nothing" },
        { "--arch", OPTION_NUMBER, &o.of_cliffs.arch, "N", "of --cliffs: compile for CUDA architecture 90 or 80" },
        { "--seed", OPTION_NUMBER, &o.of_cliffs.seed, "N",
          "chooses the places of --cliffs, and the shapes of --sweep (default: 1)" },
        { "--sites", OPTION_NUMBER, &o.of_cliffs.sites, "N", "of --cliffs: places of each rewriting (default: 2)" },
        { "--depth", OPTION_NUMBER, &o.of_cliffs.depth, "N",
          "of --cliffs: N rewritings, one after another (default: 1)" },
        { "--limit", OPTION_NUMBER, &o.of_cliffs.limit, "N",
          "begin no kernel of --cliffs, no shape of --sweep, after N seconds" },
        { "--few", OPTION_NUMBER, &o.of_cliffs.few, "N", "of --cliffs: N variants, drawn by the seed" },
        { "--only", OPTION_TEXT, &o.of_cliffs.only, "NAME", "of --cliffs: rewritings whose name contains it" },
        { "--keep", OPTION_TEXT, &o.of_cliffs.keep, "FOLDER", "of --cliffs: write the sources there" },
        { "--verbose", OPTION_FLAG, &o.of_cliffs.verbose, NULL,
          "of --cliffs: what explain says otherwise, line by line" },
        { "--list", OPTION_FLAG, &o.list, NULL, "only print the rows, or the rewritings, or what is drawn from" },
        { "--json", OPTION_FLAG, &o.json, NULL, "print one JSON object instead of tables" },
        { "--save", OPTION_TEXT, &o.save, "FILE", "write the JSON object to FILE, besides the tables" },
        { "--html", OPTION_TEXT, &o.html, "FILE", "write a page with plots of the rows to FILE, besides the tables" },
        { "--history", OPTION_TEXT, &o.history, "PATH,...",
          "of --html: earlier saved runs, files or folders, to compare with" },
        { "--from", OPTION_TEXT, &o.from, "PATH,...",
          "of --html: show the latest of these saved runs, and time nothing" },
    };
    const Usage usage = {
        "kiln bench [OPTION...] [NAME...]",
        "Times kernels of the library at sizes that show their limit, each in turns with its baseline (OpenBLAS, a memory copy,\n"
        "the program of --beside), and prints a Markdown table. Before a kernel is timed, elements of its results are\n"
        "compared with float64. With names, only the rows that contain one.",
        options, COUNT(options),
        "  kiln bench\n  kiln bench gemm\n  kiln bench --sweep=gemm --count=30 --seed=7\n  kiln bench --compile\n  kiln bench --cliffs --compile-only --arch=90 gemm\n"
        "  kiln bench --device=cuda:0 --beside='python3 bench/baselines.py' --save=result.json\n"
        "  kiln bench --device=cuda:0 --save=runs/today.json --html=bench.html --history=runs\n"
    };
    char *families[SWEEP_NAMES_MAX + 1];
    const int end = parse_options(&usage, argc, argv, &o.n_args);
    o.of_cliffs.device = o.device;
    o.of_cliffs.kernels = o.kernels;
    o.of_cliffs.list = o.list;
    o.of_cliffs.n_args = o.n_args;
    take_sweep_options(&o, families);
    return end >= 0 ? end : with_arena(bench, &o);
}
