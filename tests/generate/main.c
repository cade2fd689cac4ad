// SPDX-License-Identifier: MIT
// main.c - generated_programs: makes programs from seeds, evaluates them, and runs them in many forms of code.
//
// usage: generated_programs [--seed=N] [--programs=N] [--seconds=N] [--sections=N] [--forms=a,b] [--only=I] [--plant=NAME]
//                           [--jobs=N] [--fast] [--turns] [--whole] [--show] [--verbose]
//
// A program is a section of a kernel: up to --sections of them are built by one run of a compiler. Their seeds are
// SEED, SEED + 1 and so on, and the kernel's grid is made from the first; so a program that differs is run again with the
// seed of its kernel, the same --sections and --only=ITS-INDEX, which is what is printed, in smaller form if there is one.
// The forms: native, avx2, portable and check (on the CPU), sm_90, sm_80, sm_90-check (on cuda:0, which KILN_CUDA and
// KILN_NVRTC make the emulated device). --fast: C is compiled with -O2 where it is native and with -Og elsewhere, in half
// of the time. --turns: each kernel takes two of the forms, one after the other. --whole: what differs is not made
// smaller. --plant=NAME plants a fault in what is compiled, to see that it is found.
#define _GNU_SOURCE
#include "forms.h"
#include "shrink.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PATH_BYTES = 512,
    MAX_SECTIONS = 32,
    MAX_PARAMETERS = 64,
    MAX_TRIES = 400,
    MAX_REASONS = 64,
    FORM_SECONDS = 120
};

typedef struct Options {
    uint64_t seed;
    long programs;
    double seconds;
    int sections, only, jobs;
    bool forms[FORMS], show, verbose, fast, turns, whole;
    const Plant *plant;
} Options;

// What all processes add to.
typedef struct Reason {
    char text[120];
    long count;
} Reason;
typedef struct Counts {
    long programs, statements, compared, vague, tried, failures;
    long runs[FORMS], unsupported[FORMS], batches[FORMS];
    double build_seconds[FORMS], run_seconds[FORMS];
    Reason reasons[MAX_REASONS]; // why programs were not made, or not supported
    long batch;                  // the next one
    struct {
        long batch;
        char form[16];
    } at[16]; // of each process
} Counts;

typedef struct Batch {
    uint64_t seed;
    Grid grid;
    Section *sections[MAX_SECTIONS];
    int n;
} Batch;

static void count_reason(Counts *counts, const char *text)
{
    for (int i = 0; i < MAX_REASONS; i++) {
        if (!counts->reasons[i].count) snprintf(counts->reasons[i].text, sizeof counts->reasons[i].text, "%s", text);
        if (strncmp(counts->reasons[i].text, text, sizeof counts->reasons[i].text - 1) != 0) continue;
        counts->reasons[i].count++;
        return;
    }
}

// ---- batches

// The first of a row of programs for this seed that the rules define.
static Section *make_defined(uint64_t seed, int number, const Grid *grid, Counts *counts)
{
    for (uint64_t try = 0; try < MAX_TRIES; try++) {
        const char *reason;
        Section *const section = make_section(seed * MAX_TRIES + try, number, grid);
        counts->tried++;
        const char *const small = section->statements < 12 ? "few statements"
                                  : section->n_tensors < 2 ? "few tensors"
                                                           : NULL;
        if (!small && evaluate_section(section, grid, &reason)) return section;
        count_reason(counts, small ? small : reason);
        pool_free(section->pool);
    }
    return NULL;
}

static Batch make_batch(const Options *options, long number, Counts *counts)
{
    Batch batch = { .seed = options->seed + (uint64_t)number * (uint64_t)options->sections };
    batch.grid = make_grid(batch.seed);
    int parameters = 0;
    for (int i = 0; i < options->sections; i++) {
        Section *const section = make_defined(batch.seed + (uint64_t)i, i, &batch.grid, counts);
        if (!section) continue;
        parameters += section->n_tensors + section->n_scalars;
        const bool wanted = options->only < 0 || options->only == i;
        if (parameters > MAX_PARAMETERS || !wanted) {
            pool_free(section->pool);
            if (wanted) break;
            continue;
        }
        batch.sections[batch.n++] = section;
    }
    return batch;
}

static void drop_section(Batch *batch, int i)
{
    memmove(&batch->sections[i], &batch->sections[i + 1], sizeof batch->sections[0] * (size_t)(--batch->n - i));
}

// The caches hold what nobody asks for again.
static void empty_folder(const char *path)
{
    char file[2 * PATH_BYTES];
    DIR *const folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.') remove(file);
    }
    if (folder) closedir(folder);
}

// ---- one form

static void report(const Options *options, Batch *batch, const Form *form, const Result *result)
{
    static const char *const what[] = {
        [DIFFERS] = "differs", [REFUSED] = "is refused", [UNSUPPORTED] = "is unsupported", [FAILED] = "fails"
    };
    printf("FAIL %s %s: %s\n", form->name, what[result->outcome], result->reason);
    printf("     again: generated_programs --seed=%llu --sections=%d --programs=1 --forms=%s",
           (unsigned long long)batch->seed, options->sections, form->name);
    if (result->section >= 0) printf(" --only=%d", batch->sections[result->section]->number);
    printf("%s%s --show\n", options->plant ? " --plant=" : "", options->plant ? options->plant->name : "");
    if (result->section >= 0 && !options->whole)
        show_smallest(batch->sections[result->section], &batch->grid, form, options->plant, result);
    fflush(stdout);
}

// The first of the batch that ends like this by itself; -1: none does.
static int find_culprit(const Options *options, const Batch *batch, const Form *form, Result *result)
{
    for (int i = 0; i < batch->n; i++) {
        Result alone = run_form(form, &batch->sections[i], 1, &batch->grid, options->plant);
        if (alone.outcome != result->outcome) continue;
        *result = alone;
        return i;
    }
    return -1;
}

static void run_batch_form(const Options *options, Batch *batch, int f, Counts *counts)
{
    Batch here = *batch; // without what this form does not support
    while (here.n > 0) {
        Result result = run_form(&forms[f], here.sections, here.n, &here.grid, options->plant);
        counts->build_seconds[f] += result.build_seconds;
        counts->run_seconds[f] += result.run_seconds;
        counts->compared += result.compared;
        counts->vague += result.vague;
        counts->batches[f]++;
        if (result.outcome == AGREES) {
            counts->runs[f] += here.n;
            return;
        }
        if (result.section < 0 && here.n > 1) result.section = find_culprit(options, &here, &forms[f], &result);
        if (result.outcome == UNSUPPORTED) {
            counts->unsupported[f]++;
            count_reason(counts, result.reason);
            if (options->verbose)
                printf("unsupported by %s, section %d: %s\n", forms[f].name, result.section, result.reason);
        } else {
            counts->failures++;
            report(options, &here, &forms[f], &result);
        }
        if (result.section < 0) return;
        drop_section(&here, result.section);
    }
}

// Whether kernel `number` takes form f: two of all that are wanted, in turn.
static bool has_turn(const Options *options, long number, int f)
{
    long wanted = 0, place = 0;
    for (int i = 0; i < FORMS; i++) {
        if (i == f) place = wanted;
        wanted += options->forms[i];
    }
    return !options->turns || wanted <= 2 || (place + wanted - 2 * number % wanted) % wanted < 2;
}

// What is after the words of $CC is the compiler's own command line; the last level of optimisation counts.
static void choose_compiler(const Options *options, int f)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/../cc%s", getenv("KILN_CACHE"), f == 0 ? "-O2" : "-Og");
    if (options->fast && strcmp(forms[f].device, "cpu") == 0) setenv("CC", path, 1);
    else unsetenv("CC");
}

// A compiler like the usual one, at another level.
static void write_compiler(const char *folder, const char *level)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/cc%s", folder, level);
    FILE *const file = fopen(path, "w");
    if (!file) return;
    fprintf(file, "#!/bin/sh\nexec cc \"$@\" %s\n", level);
    fclose(file);
    chmod(path, 0700);
}

static void run_batch(const Options *options, long number, Counts *counts, int process)
{
    Batch batch = make_batch(options, number, counts);
    if (options->show) {
        Writer out = { 0 };
        print_kernel(&out, batch.sections, batch.n, &batch.grid);
        puts(out.text);
        free(out.text);
    }
    for (int f = 0; f < FORMS; f++) {
        if (!options->forms[f] || !has_turn(options, number, f)) continue;
        choose_compiler(options, f);
        snprintf(counts->at[process].form, sizeof counts->at[process].form, "%s", forms[f].name);
        alarm(FORM_SECONDS);
        run_batch_form(options, &batch, f, counts);
        alarm(0);
    }
    for (int i = 0; i < batch.n; i++) {
        counts->statements += batch.sections[i]->statements;
        pool_free(batch.sections[i]->pool);
    }
    counts->programs += batch.n;
    empty_folder(getenv("KILN_CACHE"));
}

// ---- processes: a kernel that ends its process costs one batch

static bool go_on(const Options *options, const Counts *counts, double started)
{
    if (options->seconds > 0 && now() - started > options->seconds) return false;
    return options->programs <= 0 || counts->programs < options->programs;
}

static void work(const Options *options, Counts *counts, int process, const char *folder, double started)
{
    char cache[PATH_BYTES];
    snprintf(cache, sizeof cache, "%s/%d", folder, process);
    mkdir(cache, 0700);
    setenv("KILN_CACHE", cache, 1);
    setenv("TMPDIR", cache, 1);
    while (go_on(options, counts, started)) {
        counts->at[process].batch = __atomic_fetch_add(&counts->batch, 1, __ATOMIC_RELAXED);
        run_batch(options, counts->at[process].batch, counts, process);
    }
    fflush(stdout);
    _exit(0);
}

static pid_t start(const Options *options, Counts *counts, int process, const char *folder, double started)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) work(options, counts, process, folder, started);
    if (child < 0) perror("fork"), exit(2);
    return child;
}

static void run_processes(const Options *options, Counts *counts, const char *folder)
{
    const double started = now();
    pid_t children[16];
    int running = options->jobs;
    for (int i = 0; i < options->jobs; i++) children[i] = start(options, counts, i, folder, started);
    while (running > 0) {
        int status;
        const pid_t child = wait(&status);
        int i = 0;
        while (i < options->jobs && children[i] != child) i++;
        if (i == options->jobs) continue;
        running--;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
        counts->failures++;
        printf(
            "FAIL %s %s %d\n     again: generated_programs --seed=%llu --sections=%d --programs=1 --forms=%s --show\n",
            counts->at[i].form, WIFSIGNALED(status) ? "was ended by signal" : "ended with",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
            (unsigned long long)(options->seed + (uint64_t)counts->at[i].batch * (uint64_t)options->sections),
            options->sections, counts->at[i].form);
        if (!go_on(options, counts, started)) continue;
        children[i] = start(options, counts, i, folder, started);
        running++;
    }
}

// ---- options and figures

static bool take_forms(Options *options, const char *list)
{
    memset(options->forms, 0, sizeof options->forms);
    while (*list) {
        const size_t n = strcspn(list, ",");
        int f = 0;
        while (f < FORMS && (strlen(forms[f].name) != n || strncmp(forms[f].name, list, n) != 0)) f++;
        if (f == FORMS) return false;
        options->forms[f] = true;
        list += n + (list[n] == ',');
    }
    return true;
}

static bool take_option(Options *options, const char *text)
{
    const char *const value = strchr(text, '=') ? strchr(text, '=') + 1 : "";
    if (strncmp(text, "--seed=", 7) == 0) options->seed = strtoull(value, NULL, 10);
    else if (strncmp(text, "--programs=", 11) == 0) options->programs = atol(value);
    else if (strncmp(text, "--seconds=", 10) == 0) options->seconds = atof(value);
    else if (strncmp(text, "--sections=", 11) == 0) options->sections = atoi(value);
    else if (strncmp(text, "--only=", 7) == 0) options->only = atoi(value);
    else if (strncmp(text, "--jobs=", 7) == 0) options->jobs = atoi(value);
    else if (strncmp(text, "--forms=", 8) == 0) return take_forms(options, value);
    else if (strncmp(text, "--plant=", 8) == 0) {
        for (int i = 0; i < PLANTS; i++)
            if (strcmp(plants[i].name, value) == 0) options->plant = &plants[i];
        return options->plant != NULL;
    } else if (strcmp(text, "--show") == 0) options->show = true;
    else if (strcmp(text, "--fast") == 0) options->fast = true;
    else if (strcmp(text, "--whole") == 0) options->whole = true;
    else if (strcmp(text, "--turns") == 0) options->turns = true;
    else if (strcmp(text, "--verbose") == 0) options->verbose = true;
    else return false;
    return options->sections > 0 && options->sections <= MAX_SECTIONS && options->jobs > 0 && options->jobs <= 16;
}

static void print_counts(const Options *options, const Counts *counts, double seconds)
{
    for (int i = 0; i < MAX_REASONS && options->verbose; i++)
        if (counts->reasons[i].count) printf("%8ld  %s\n", counts->reasons[i].count, counts->reasons[i].text);
    for (int f = 0; f < FORMS; f++)
        if (options->forms[f])
            printf("%-12s %6ld programs in %5ld kernels, %4ld not supported; builds %.1f s, runs %.1f s\n",
                   forms[f].name, counts->runs[f], counts->batches[f], counts->unsupported[f], counts->build_seconds[f],
                   counts->run_seconds[f]);
    const double n = counts->programs ? (double)counts->programs : 1;
    printf(
        "%ld programs of %.0f statements (%.1f tried for one), %ld elements compared, %ld vague; %.1f s, %.1f programs a second\n",
        counts->programs, (double)counts->statements / n, (double)counts->tried / n, counts->compared, counts->vague,
        seconds, n / seconds);
    printf("%ld passed, %ld failed, 0 skipped\n",
           counts->programs - (counts->failures < counts->programs ? counts->failures : counts->programs),
           counts->failures);
}

int main(int argc, char **argv)
{
    Options options = {
        .seed = 1, .programs = 0, .sections = 8, .only = -1, .jobs = 1, .forms = { true, true, true, true }
    };
    options.forms[4] = options.forms[5] = getenv("KILN_CUDA") != NULL;
    for (int i = 1; i < argc; i++)
        if (!take_option(&options, argv[i])) {
            fprintf(
                stderr,
                "generated_programs: '%s' is not an option, or its value is not one (the top of main.c lists them)\n",
                argv[i]);
            return 2;
        }
    if (options.programs <= 0 && options.seconds <= 0) options.programs = 100;
    char folder[] = "/tmp/kiln-generated-XXXXXX";
    Counts *const counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!mkdtemp(folder) || counts == MAP_FAILED) return perror("generated_programs"), 2;
    const double started = now();
    write_compiler(folder, "-O2");
    write_compiler(folder, "-Og");
    run_processes(&options, counts, folder);
    print_counts(&options, counts, now() - started);
    for (int i = 0; i < options.jobs; i++) {
        char cache[PATH_BYTES];
        snprintf(cache, sizeof cache, "%s/%d", folder, i);
        empty_folder(cache);
        rmdir(cache);
    }
    empty_folder(folder);
    rmdir(folder);
    return counts->failures > 0 || counts->programs == 0;
}
