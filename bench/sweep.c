// SPDX-License-Identifier: MIT
// sweep.c - `kiln bench --sweep`: shapes that nobody chose, drawn by a seed, each operator beside its peer.
//
// A shape depends on seed, family and its number alone, so that --skip and a longer run see the same ones. A shape that
// is too large for the machine, or was drawn before, is drawn again. The ratio is the peer's time over Kiln's: above 1
// Kiln is faster. On the CPU the fastest runs are compared, on a GPU the medians (command.c says why). The rows of a
// family are printed together, the worst first: those that failed, then by ratio, then those that have no peer. --save
// has each as soon as it is there.
#include "sweep.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { GPU_ROUNDS = 3, GPU_RUNS = 10, CPU_ROUNDS = 3, CPU_RUNS = 3, DRAWS_MAX = 10000, AGAIN_MAX = 100 };

static const SweepFamily *const families[] = {
    &sweep_gemm,
    &sweep_gemm_types,
    &sweep_attention,
    &sweep_backward,
    &sweep_packed,
    &sweep_packed_gradients,
    &sweep_decode,
    &sweep_paged,
    &sweep_paged_mixed,
    &sweep_masked,
    &sweep_mla,
    &sweep_mla_sparse,
    &sweep_mla_prefill,
    &sweep_mla_contiguous,
    &sweep_indexer,
    &sweep_indexed,
    &sweep_quantised,
    &sweep_grouped,
    &sweep_grouped_mxfp4,
    &sweep_grouped_weights,
    &sweep_route,
    &sweep_moe,
    &sweep_nn,
    &sweep_select,
    &sweep_conv,
    &sweep_short_conv,
    &sweep_recurrent,
    &sweep_step,
    &sweep_gradients,
    &sweep_nsa,
    &sweep_nsa_whole,
    &sweep_nsa_gradients,
    &sweep_sparse,
    &sweep_sparse_decode,
    &sweep_seer,
    &sweep_vertical_slash,
};

const SweepFamily *find_sweep_family(const char *name)
{
    for (int i = 0; i < COUNT(families); i++)
        if (strcmp(families[i]->name, name) == 0) return families[i];
    return NULL;
}

// ---- how ratios are distributed

static double quantile(const double *sorted, int n, double q)
{
    const double at = q * (n - 1);
    const int i = (int)at;
    return i + 1 < n ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[i];
}

// Sorts them; tenth and median between two by linear interpolation.
static Distribution distribution_of(double *ratios, int n)
{
    Distribution d = { .n = n };
    double logs = 0;
    if (n == 0) return d;
    qsort(ratios, (size_t)n, sizeof *ratios, compare_doubles);
    for (int i = 0; i < n; i++) {
        logs += log(ratios[i]);
        d.below += ratios[i] < 0.9;
    }
    d.least = ratios[0];
    d.tenth = quantile(ratios, n, 0.1);
    d.median = quantile(ratios, n, 0.5);
    d.mean = exp(logs / n);
    return d;
}

// ---- one shape

// On the CPU for as long as the threads of one program may spin after their work, where the other's want to run.
static void rest_since(const Machine *machine, double begin)
{
    const double seconds = machine->is_cpu ? 0.02 : seconds_now() - begin;
    const struct timespec rest = { (time_t)seconds, (long)(1e9 * (seconds - floor(seconds))) };
    nanosleep(&rest, NULL);
}

static bool time_in_turns(SweepCase *c, Baseline *peer, double seconds, SweepResult *r)
{
    static Times own, other, warm_up;
    const bool is_cpu = c->machine->is_cpu;
    const int rounds = is_cpu ? CPU_ROUNDS : GPU_ROUNDS, runs = is_cpu ? CPU_RUNS : GPU_RUNS;
    own.n = other.n = warm_up.n = 0;
    if (!machine_time(c->machine, sweep_launch, c, 2, 0, &warm_up)) return false;
    baseline_time(peer, 2, 0, &warm_up);
    for (int i = 0; i < rounds; i++) {
        double begin = seconds_now();
        baseline_time(peer, runs, seconds / rounds, &other);
        rest_since(c->machine, begin);
        begin = seconds_now();
        if (!machine_time(c->machine, sweep_launch, c, runs, seconds / rounds, &own)) return false;
        rest_since(c->machine, begin);
    }
    r->runs = own.n;
    r->own = times_spread(&own);
    r->other = times_spread(&other);
    const double mine = is_cpu ? r->own.fastest : r->own.median, theirs = is_cpu ? r->other.fastest : r->other.median;
    if (mine > 0 && theirs > 0) r->ratio = theirs / mine;
    return true;
}

void sweep_measure(SweepResult *r, const SweepFamily *family, const Shape *shape, Machine *machine, kiln_ops *ops,
                   double seconds)
{
    static SweepCase c;
    static Baseline peer;
    *r = (SweepResult){ .family = family, .ratio = NAN };
    shape_print(shape, r->shape, sizeof r->shape);
    r->operations = family->operations(shape);
    const double begin = seconds_now();
    bool ok = sweep_open(&c, family, shape, machine, ops);
    r->build_seconds = seconds_now() - begin;
    r->bytes = family->bytes(shape);
    peer = (Baseline){ .kind = BASELINE_NONE };
    if (ok && seconds >= 0) {
        r->timed = true;
        baseline_open_peer(&peer, machine, family->name, r->shape);
        ok = time_in_turns(&c, &peer, seconds, r);
        snprintf(r->peer, sizeof r->peer, "%s", peer.name);
    }
    if (!ok) {
        r->failed = true;
        r->wrong = c.wrong;
        snprintf(r->problem, sizeof r->problem, "%s", c.problem[0] ? c.problem : kiln_error_message());
    }
    baseline_close(&peer);
    sweep_close(&c);
}

// ---- shapes of a family

typedef struct Limits {
    double operations, bytes;
} Limits;

static bool is_drawn(const Shape *shapes, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&shapes[i], &shapes[n], sizeof *shapes) == 0) return true;
    return false;
}

// Shape n, which differs from those before it while there are others.
static bool draw_shape(Shape *shapes, int64_t n, const SweepFamily *f, const SweepOptions *o, bool small, Limits limits)
{
    uint64_t random = 0xcbf29ce484222325u ^ (uint64_t)o->seed * 0x2545f4914f6cdd1du;
    for (const char *p = f->name; *p; p++) random = (random ^ (uint64_t)*p) * 0x100000001b3u;
    random += (uint64_t)n * 0xd1342543de82ef95u;
    bool found = false;
    for (int i = 0, again = 0; i < DRAWS_MAX && again < AGAIN_MAX; i++) {
        shape_draw(&shapes[n], small && f->small ? f->small : f->ranges, &random);
        if (f->settle) f->settle(&shapes[n]);
        if (f->operations(&shapes[n]) > limits.operations || f->bytes(&shapes[n]) > limits.bytes) continue;
        found = true;
        if (!is_drawn(shapes, n)) break;
        again++;
    }
    return found;
}

// ---- the tables

typedef struct Sweep {
    const SweepOptions *options;
    Machine machine;
    kiln_device *device;
    kiln_ops *ops;
    FILE *json;
    bool any;        // a row was written to json
    bool began_json; // and what stands before them
    int failed;
    double began;
    const SweepFamily *family; // at hand, with its results
    SweepResult *results;
    int n;
    struct {
        const SweepFamily *family;
        int shapes, failed;
        Distribution ratios;
    } sums[COUNT(families)]; // of those that are done
    int n_sums;
} Sweep;

static void print_rate(char *text, size_t bytes, const SweepResult *r)
{
    if (r->operations > 0) snprintf(text, bytes, "%.3g TFLOPS", 1e-12 * r->operations / r->own.median);
    else snprintf(text, bytes, "%.0f GB/s", 1e-9 * r->bytes / r->own.median);
}

static void print_row(const SweepResult *r)
{
    char rate[32] = "-", ratio[16] = "-", peer[160] = "-";
    if (r->failed) {
        printf("| %s | %s | failed: %s | - | - | %.1f |\n", r->family->name, r->shape, r->problem, r->build_seconds);
        return;
    }
    if (!r->timed) {
        printf("| %s | %s | correct | - | - | %.1f |\n", r->family->name, r->shape, r->build_seconds);
        return;
    }
    print_rate(rate, sizeof rate, r);
    if (isnan(r->ratio)) snprintf(peer, sizeof peer, "%s", r->peer);
    else snprintf(peer, sizeof peer, "%s: %.4f ms", r->peer, 1e3 * r->other.median);
    if (!isnan(r->ratio)) snprintf(ratio, sizeof ratio, "%.3f", r->ratio);
    printf("| %s | %s | %.4f (%.4f to %.4f), %s | %s | %s | %.1f |\n", r->family->name, r->shape, 1e3 * r->own.median,
           1e3 * r->own.fastest, 1e3 * r->own.slowest, rate, peer, ratio, r->build_seconds);
}

static void save_number(FILE *out, const char *name, double value)
{
    if (isnan(value) || isinf(value)) fprintf(out, ", \"%s\": null", name);
    else fprintf(out, ", \"%s\": %.17g", name, value);
}

static void save_row(Sweep *s, const SweepResult *r)
{
    fprintf(s->json, "%s\n  {\"family\": \"%s\", \"shape\": \"%s\", \"correct\": %s", s->any ? "," : "",
            r->family->name, r->shape,
            r->wrong    ? "false"
            : r->failed ? "null"
                        : "true");
    s->any = true;
    if (r->failed) {
        fprintf(s->json, ", \"problem\": ");
        print_json_text(s->json, r->problem);
    } else if (r->timed) {
        fprintf(s->json, ", \"peer\": ");
        print_json_text(s->json, r->peer);
        save_number(s->json, "median_seconds", r->own.median);
        save_number(s->json, "fastest_seconds", r->own.fastest);
        save_number(s->json, "peer_median_seconds", r->other.median > 0 ? r->other.median : NAN);
        save_number(s->json, "peer_fastest_seconds", r->other.median > 0 ? r->other.fastest : NAN);
        save_number(s->json, "operations", r->operations);
        save_number(s->json, "bytes", r->bytes);
        save_number(s->json, "ratio", r->ratio);
        save_number(s->json, "build_seconds", r->build_seconds);
    }
    fprintf(s->json, "}");
    fflush(s->json);
}

// Failed, then by ratio, then without a peer.
static double rank_of(const SweepResult *r) { return r->failed ? -1 : isnan(r->ratio) ? INFINITY : r->ratio; }

static int by_rank(const void *a, const void *b)
{
    const double x = rank_of(a), y = rank_of(b);
    return (x > y) - (x < y);
}

static void print_rows(SweepResult *results, int n)
{
    printf("| family | shape | ms: median (fastest to slowest), rate | peer: median | ratio | build, check s |\n"
           "| --- | --- | --- | --- | --- | --- |\n");
    for (int i = 0; i < n; i++) print_row(&results[i]);
    printf("\n");
}

static void save_sum(Sweep *s, const SweepFamily *f, int failed, const Distribution *d)
{
    fprintf(s->json, "%s\n  {\"family\": \"%s\", \"shapes\": %d, \"failed\": %d, \"ratios\": %d, \"below\": %d",
            s->any ? "," : "", f->name, s->n, failed, d->n, d->below);
    s->any = true;
    save_number(s->json, "least", d->n ? d->least : NAN);
    save_number(s->json, "tenth", d->n ? d->tenth : NAN);
    save_number(s->json, "median", d->n ? d->median : NAN);
    save_number(s->json, "geometric_mean", d->n ? d->mean : NAN);
    fprintf(s->json, "}");
    fflush(s->json);
}

// What the rows of the family at hand say together; those without a peer do not count.
static void sum_up(Sweep *s)
{
    double *const ratios = malloc(sizeof *ratios * (size_t)(s->n + 1));
    int n = 0, failed = 0;
    if (!ratios || !s->n) return free(ratios);
    qsort(s->results, (size_t)s->n, sizeof *s->results, by_rank);
    for (int i = 0; i < s->n; i++) {
        failed += s->results[i].failed;
        if (!s->results[i].failed && !isnan(s->results[i].ratio)) ratios[n++] = s->results[i].ratio;
    }
    s->sums[s->n_sums].family = s->family;
    s->sums[s->n_sums].shapes = s->n;
    s->sums[s->n_sums].failed = failed;
    s->sums[s->n_sums].ratios = distribution_of(ratios, n);
    free(ratios);
    if (!s->options->json) print_rows(s->results, s->n);
    if (s->json) save_sum(s, s->family, failed, &s->sums[s->n_sums].ratios);
    s->n_sums++;
    s->n = 0;
}

// The last table: a line for each family.
static void print_sums(const Sweep *s)
{
    if (!s->n_sums) return;
    printf("| family | shapes | failed | with a peer | least | 10%% | median | geometric mean | below 0.9 |\n"
           "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (int i = 0; i < s->n_sums; i++) {
        const Distribution *const d = &s->sums[i].ratios;
        printf("| %s | %d | %d | %d ", s->sums[i].family->name, s->sums[i].shapes, s->sums[i].failed, d->n);
        if (d->n) printf("| %.3f | %.3f | %.3f | %.3f | %d |\n", d->least, d->tenth, d->median, d->mean, d->below);
        else printf("| - | - | - | - | - |\n");
    }
}

// ---- the sweep

static bool is_wanted(const SweepOptions *o, const SweepFamily *f)
{
    bool any = o->n_args == 0;
    for (int i = 0; i < o->n_args; i++) any |= strcmp(o->args[i], f->name) == 0;
    return any;
}

static bool is_small(const Sweep *s) { return s->options->small || strncmp(s->options->device, "cpu", 3) == 0; }

static Limits limits_of(const Sweep *s)
{
    const Limits large = { 20e12, 8e9 }, small = { 4e9, 3e8 };
    Limits limits = is_small(s) ? small : large;
    if (s->options->work) {
        limits.operations = 1e6 * (double)s->options->work;
        limits.bytes = fmin(limits.bytes, limits.operations); // an emulated device, where bytes cost as much
    }
    return limits;
}

// ---- a shape that is given

// Where `word` is one of those from `text` to `end`, with spaces and slashes between.
static bool has_word(const char *text, const char *end, const char *word)
{
    while (text < end) {
        const size_t n = strcspn(text, "/ :");
        if (n == strlen(word) && memcmp(text, word, n) == 0) return true;
        text += n + 1;
    }
    return false;
}

static const char *range_of(const char *const *ranges, const char *name)
{
    for (; ranges && *ranges; ranges++)
        if (has_word(*ranges, strchr(*ranges, ':'), name)) return strchr(*ranges, ':') + 1;
    return NULL;
}

static bool is_integer(const char *text)
{
    text += *text == '-';
    return *text && !text[strspn(text, "0123456789")];
}

// Else a misspelt name would be a shape of 0, and an unknown type another one.
static bool fits_family(const Shape *shape, const SweepFamily *f)
{
    for (int i = 0; i < shape->n; i++) {
        const char *const name = shape->values[i].name, *const text = shape->values[i].text;
        const char *const drawn = range_of(f->ranges, name), *const small = range_of(f->small, name);
        if (!drawn && !small)
            return fail_usage("--shape: %s has no '%s'; see 'kiln bench --sweep=%s --list'", f->name, name, f->name),
                   false;
        if (!is_integer(text) && !(drawn && has_word(drawn, drawn + strlen(drawn), text)) &&
            !(small && has_word(small, small + strlen(small), text)))
            return fail_usage("--shape: %s is not '%s'; see 'kiln bench --sweep=%s --list'", name, text, f->name),
                   false;
    }
    for (const char *const *range = f->ranges; *range; range++)
        for (const char *name = *range; *name && name[-(name > *range)] != ':'; name += strcspn(name, "/:") + 1) {
            const int n = (int)strcspn(name, "/:");
            char word[sizeof shape->values[0].name];
            snprintf(word, sizeof word, "%.*s", n, name);
            if (!shape_has(shape, word)) return fail_usage("--shape: %s needs %s=VALUE", f->name, word), false;
        }
    return true;
}

static bool get_shape(Sweep *s, const SweepFamily *f, int64_t i, Shape *shapes)
{
    if (s->options->shape) return shape_parse(shapes, s->options->shape);
    return draw_shape(shapes, i, f, s->options, is_small(s), limits_of(s));
}

static bool reopen(Sweep *s)
{
    kiln_ops_close(s->ops);
    machine_close(&s->machine);
    kiln_device_close(s->device);
    s->device = NULL;
    s->ops = NULL;
    return !kiln_device_open(s->options->device, &s->device) && machine_open(&s->machine, s->device) &&
           !kiln_ops_open(s->device, NULL, &s->ops);
}

static bool measure_shape(Sweep *s, const SweepFamily *f, const Shape *shape)
{
    SweepResult *const r = &s->results[s->n];
    progress("%s %d", f->name, s->n + 1);
    alarm((unsigned)s->options->row_limit);
    sweep_measure(r, f, shape, &s->machine, s->ops, s->options->check_only ? -1 : s->options->seconds / 4);
    alarm(0);
    output_hold();
    progress_end();
    if (s->json) save_row(s, r);
    s->n++;
    output_release();
    if (!r->failed) return true;
    s->failed++;
    fprintf(stderr, "kiln: %s %s: %s\n", f->name, r->shape, r->problem);
    return !s->device->poisoned || reopen(s);
}

static bool is_late(const Sweep *s)
{
    return s->options->limit && seconds_now() - s->began > (double)s->options->limit;
}

static bool sweep_family(Sweep *s, const SweepFamily *f, int64_t *passed)
{
    const int64_t count = s->options->shape ? 1 : s->options->count;
    Shape *const shapes = calloc((size_t)count + 1, sizeof *shapes);
    bool ok = true;
    s->n = 0;
    s->family = f;
    s->results = calloc((size_t)count + 1, sizeof *s->results);
    for (int64_t i = 0; shapes && s->results && i < count && ok && !is_late(s); i++) {
        if (!get_shape(s, f, i, shapes)) {
            fprintf(stderr, "kiln: %s: no shape of its ranges is as small as --work asks for\n", f->name);
            break;
        }
        if ((*passed)++ >= s->options->skip) ok = measure_shape(s, f, &shapes[i]);
    }
    output_hold();
    if (s->results) sum_up(s);
    fflush(stdout);
    free(s->results);
    s->results = NULL;
    output_release();
    free(shapes);
    return ok;
}

static void list_ranges(const char *title, const char *const *ranges)
{
    if (ranges) printf("  %s\n", title);
    for (; ranges && *ranges; ranges++) printf("    %s\n", *ranges);
}

static int list_families(const SweepOptions *o)
{
    for (int i = 0; i < COUNT(families); i++) {
        if (!is_wanted(o, families[i])) continue;
        printf("%s: %s\n", families[i]->name, families[i]->about);
        list_ranges("shapes of engines", families[i]->ranges);
        list_ranges("small shapes", families[i]->small);
    }
    return EXIT_OK;
}

static int fail_family(const char *name)
{
    const char *names[COUNT(families)];
    for (int i = 0; i < COUNT(families); i++) names[i] = families[i]->name;
    fail_usage("there is no family '%s'; see 'kiln bench --sweep --list'", name);
    print_near(name, names, COUNT(names));
    return EXIT_USAGE;
}

static void end_sweep(const Sweep *s, const char *more)
{
    if (s->json) fprintf(s->json, "\n]%s}\n", more);
    if (s->json) fflush(s->json);
    if (s->json && s->options->json && s->options->save) bench_print_saved(s->options->save);
    if (!s->options->json) print_sums(s);
}

// By Ctrl-C, or by a shape that took longer than --row-limit.
static void print_interrupted(void *context)
{
    Sweep *const s = context;
    const int n = s->n;
    if (s->results) sum_up(s);
    if (s->began_json) end_sweep(s, ", \"interrupted\": true");
    else if (!s->options->json) print_sums(s);
    if (!s->options->json && s->family) printf("\ninterrupted after %d shapes of %s\n", n, s->family->name);
}

static int run_sweep(Sweep *s)
{
    int64_t passed = 0;
    bool ok = true;
    output_hold();
    if (s->json) {
        s->began_json = true;
        fprintf(s->json, "{\"device\": ");
        print_json_text(s->json, kiln_device_describe(s->device));
        fprintf(s->json, ", \"seed\": %d, \"count\": %d, \"rows\": [", (int)s->options->seed, (int)s->options->count);
    }
    if (!s->options->json)
        printf("%s; kiln %s; seed %d, %d shapes of each family\n\n", kiln_device_describe(s->device), KILN_VERSION,
               (int)s->options->seed, (int)s->options->count);
    output_release();
    for (int i = 0; i < COUNT(families) && ok; i++)
        if (is_wanted(s->options, families[i])) ok = sweep_family(s, families[i], &passed);
    output_hold(); // not given back: from here on nothing is interrupted
    end_sweep(s, "");
    return !ok ? EXIT_DEVICE_LOST : s->failed ? EXIT_FAILED : EXIT_OK;
}

int bench_sweep(Arena *arena, SweepOptions *o)
{
    (void)arena;
    Sweep s = { .options = o, .json = o->json ? stdout : NULL, .began = seconds_now() };
    Shape shape;
    for (int i = 0; i < o->n_args; i++)
        if (!find_sweep_family(o->args[i])) return fail_family(o->args[i]);
    if (o->list) return list_families(o);
    if (o->shape && o->n_args != 1) return fail_usage("--shape needs one family");
    if (o->shape && !shape_parse(&shape, o->shape))
        return fail_usage("--shape takes NAME=VALUE, with commas between, not '%s'", o->shape);
    if (o->shape && !fits_family(&shape, find_sweep_family(o->args[0]))) return EXIT_USAGE;
    on_interrupt(print_interrupted, &s); // before the device, which starts threads
    if (kiln_device_open(o->device, &s.device)) return fail_status(NULL);
    if (o->save && !(s.json = fopen(o->save, "w"))) return fail_usage("cannot write %s: %s", o->save, strerror(errno));
    if (o->beside && !baseline_start_process(o->beside)) return fail_usage("cannot start '%s'", o->beside);
    const bool ok = machine_open(&s.machine, s.device) && !kiln_ops_open(s.device, NULL, &s.ops);
    const int result = ok ? run_sweep(&s) : fail_status(NULL);
    baseline_end_process();
    kiln_ops_close(s.ops);
    machine_close(&s.machine);
    kiln_device_close(s.device);
    if (o->save && (ferror(s.json) | fclose(s.json)) != 0)
        return fail_usage("cannot write all of %s: %s", o->save, strerror(errno));
    return result;
}
