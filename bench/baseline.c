// SPDX-License-Identifier: MIT
// baseline.c - what a row is compared with, timed in turns with it.
//
// OpenBLAS is opened at run time. On a GPU the baselines are libraries that only other programs bring along: the program
// of --beside (bench/baselines.py) is started once and told on its standard input, a line each,
//     open<TAB>kernel<TAB>values     answers with the baseline's name, or "none", or "none: why"; in a sweep the kernel is a family
//     time<TAB>runs                  answers with so many times in seconds, measured as machine.c does
//     close
// so that both programs hold their tensors and take turns within a second. If it ends, the row at hand has no baseline, and
// the next one starts it anew, a few times.
#define _GNU_SOURCE // pipe2
#include "bench.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- OpenBLAS

typedef void Sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                   int lda, const float *b, int ldb, float beta, float *c, int ldc);

static void *find_sgemm(void)
{
    static const char *const names[] = { "libopenblas.so.0", "libopenblas.so", "libopenblasp.so.0" };
    static void *sgemm;
    static bool looked;
    for (int i = 0; !looked && !sgemm && i < COUNT(names); i++) {
        void *const library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        sgemm = library ? dlsym(library, "cblas_sgemm") : NULL;
    }
    looked = true;
    return sgemm;
}

static void open_product(Baseline *r, const BenchCase *own)
{
    const int64_t m = bench_integer(own, "M", 0), n = bench_integer(own, "N", 0), k = bench_integer(own, "K", 0);
    const CaseInput normal = { .kind = INPUT_NORMAL, .b = 1 };
    r->product.sgemm = find_sgemm();
    r->product.a = malloc(sizeof(float) * (size_t)(m * k));
    r->product.b = malloc(sizeof(float) * (size_t)(n * k));
    r->product.c = calloc((size_t)(m * n), sizeof(float));
    r->product.m = (int)m;
    r->product.n = (int)n;
    r->product.k = (int)k;
    if (!r->product.sgemm || !r->product.a || !r->product.b || !r->product.c) return;
    fill_input(&normal, DTYPE_F32, r->product.a, m * k, 1);
    fill_input(&normal, DTYPE_F32, r->product.b, n * k, 2);
    r->kind = BASELINE_SGEMM;
    snprintf(r->name, sizeof r->name, "OpenBLAS sgemm");
}

static bool run_product(void *context)
{
    enum { ROW_MAJOR = 101, AS_IS = 111, TRANSPOSED = 112 };
    const Baseline *const r = context;
    const int m = r->product.m, n = r->product.n, k = r->product.k;
    Sgemm *sgemm;
    memcpy(&sgemm, &r->product.sgemm, sizeof sgemm);
    sgemm(ROW_MAJOR, AS_IS, TRANSPOSED, m, n, k, 1, r->product.a, k, r->product.b, k, 0, r->product.c, n);
    return true;
}

// ---- another row

static void open_row(Baseline *r, Arena *arena, const BenchCase *own, const char *kernels)
{
    int n;
    const Row *const rows = bench_rows(own->machine->is_cpu, &n);
    for (int i = 0; i < n; i++)
        if (strcmp(rows[i].name, own->row->other) == 0 &&
            bench_case_open(&r->other, arena, &rows[i], kernels, own->machine)) {
            r->kind = BASELINE_ROW;
            r->work = find_expectation(rows[i].kernel)->operations(&r->other);
            snprintf(r->name, sizeof r->name, "rate of %s", rows[i].name);
        }
    if (r->kind == BASELINE_NONE) bench_case_close(&r->other);
}

// ---- the program of --beside

enum { STARTS_MAX = 6 };
static struct {
    FILE *to, *from;
    pid_t pid;
    const char *command;
    int starts;
} process;

bool baseline_start_process(const char *command)
{
    int to[2], from[2];
    process.command = command;
    process.starts++;
    if (pipe2(to, O_CLOEXEC) != 0) return false;
    if (pipe2(from, O_CLOEXEC) != 0) return close(to[0]), close(to[1]), false;
    signal(SIGPIPE, SIG_IGN); // it may end early; then rows have no baseline
    process.pid = fork();
    if (process.pid == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    process.to = fdopen(to[1], "w");
    process.from = fdopen(from[0], "r");
    return process.pid > 0 && process.to && process.from;
}

void baseline_end_process(void)
{
    if (process.to) fclose(process.to);
    if (process.from) fclose(process.from);
    if (process.pid > 0) waitpid(process.pid, NULL, 0);
    process.to = process.from = NULL;
    process.pid = 0;
}

static bool read_answer(char *line, size_t bytes)
{
    if (!process.from || !fgets(line, (int)bytes, process.from)) return false;
    line[strcspn(line, "\n")] = 0;
    return true;
}

void baseline_open_peer(Baseline *r, Machine *machine, const char *kernel, const char *values)
{
    *r = (Baseline){ .kind = BASELINE_NONE, .machine = machine };
    snprintf(r->name, sizeof r->name, "no peer: --beside names no program that runs");
    if (!process.command || (!process.to && (process.starts >= STARTS_MAX || !baseline_start_process(process.command))))
        return;
    fprintf(process.to, "open\t%s\t%s\n", kernel, values);
    fflush(process.to);
    char answer[96] = "";
    if (!read_answer(answer, sizeof answer)) {
        fprintf(stderr, "kiln: the program of --beside ended: %s %s has no baseline\n", kernel, values);
        snprintf(r->name, sizeof r->name, "no peer: the program of --beside ended");
        baseline_end_process();
    } else if (strncmp(answer, "none", 4) == 0) {
        snprintf(r->name, sizeof r->name, "no peer%s", answer + 4);
    } else {
        r->kind = BASELINE_PROCESS;
        snprintf(r->name, sizeof r->name, "%s", answer);
    }
}

static void time_process(int runs, Times *times)
{
    static char line[16384];
    if (!process.to) return;
    fprintf(process.to, "time\t%d\n", runs);
    fflush(process.to);
    if (!read_answer(line, sizeof line)) {
        fprintf(stderr, "kiln: the program of --beside ended while it timed a row\n");
        baseline_end_process();
        return;
    }
    char *at = line, *end;
    for (double t = strtod(at, &end); end != at; at = end, t = strtod(at, &end)) times_add(times, t);
}

// As machine_time does: `runs` times, on the CPU for about `seconds`.
static void time_process_for(double seconds, int runs, Times *times)
{
    const double begin = seconds_now();
    do time_process(runs, times);
    while (process.to && times->n < TIMES_MAX && seconds_now() - begin < seconds);
}

static void close_process(void)
{
    if (!process.to) return;
    fprintf(process.to, "close\n");
    fflush(process.to);
}

// ---- all kinds

void baseline_open(Baseline *r, Arena *arena, const BenchCase *own, const char *kernels)
{
    *r = (Baseline){ .kind = BASELINE_NONE, .machine = own->machine };
    switch (own->row->baseline) {
    case BASELINE_NONE: break;
    case BASELINE_SGEMM: open_product(r, own); break;
    case BASELINE_ROW: open_row(r, arena, own, kernels); break;
    case BASELINE_READ:
    case BASELINE_COPY:
        r->kind = own->row->baseline;
        r->work = MACHINE_BYTES;
        snprintf(r->name, sizeof r->name, r->kind == BASELINE_READ ? "reading memory" : "memcpy");
        break;
    case BASELINE_PROCESS: baseline_open_peer(r, own->machine, own->row->kernel, own->row->values); break;
    }
}

void baseline_time(Baseline *r, int runs, double seconds, Times *times)
{
    switch (r->kind) {
    case BASELINE_NONE: break;
    case BASELINE_SGEMM: machine_time(r->machine, run_product, r, runs, seconds, times); break;
    case BASELINE_ROW: machine_time(r->machine, bench_case_launch, &r->other, runs, seconds, times); break;
    case BASELINE_READ: machine_time(r->machine, machine_read, r->machine, runs, seconds, times); break;
    case BASELINE_COPY: machine_time(r->machine, machine_copy, r->machine, runs, seconds, times); break;
    case BASELINE_PROCESS: time_process_for(r->machine->is_cpu ? seconds : 0, runs, times); break;
    }
}

void baseline_close(Baseline *r)
{
    if (r->kind == BASELINE_ROW) bench_case_close(&r->other);
    if (r->kind == BASELINE_PROCESS) close_process();
    free(r->product.a);
    free(r->product.b);
    free(r->product.c);
    *r = (Baseline){ .kind = BASELINE_NONE };
}
