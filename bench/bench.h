// SPDX-License-Identifier: MIT
// bench.h - what the files of `kiln bench` share: rows, cases at full size, baselines timed in turns, the machine.
//
//     command.c    the command and its tables
//     rows.c       what is measured: the rows, their baselines and targets
//     case.c       a kernel with its tensors, at full size
//     reference.c  references of kernels
//     compare.c    results beside what instances of a reference have written
//     expect.c     what is compared of the results, and the work of a launch
//     latent.c     the same for latent attention, and the tables and plans that it needs
//     machine.c    cold caches, copies, reading: what time and speed are measured with
//     baseline.c   what a row is compared with
//     compile.c    compile times of every kernel
//     history.c    saved runs, read back; page.c, page_plot.c: the page that shows them
//
// What they stand on is src/tools; nothing there calls them but the table of commands.
#ifndef KILN_BENCH_H
#define KILN_BENCH_H

#include "tools/measure.h"

// ---- times

enum { TIMES_MAX = 1024 };
typedef struct Times {
    int n;
    double seconds[TIMES_MAX];
} Times;
typedef struct Spread {
    double median, fastest, slowest;
} Spread;
void times_add(Times *times, double seconds);
Spread times_spread(const Times *times); // zeros if there is none

// ---- the machine

typedef struct Machine {
    kiln_device *device;
    bool is_cpu;
    char *flush, *other; // both larger than any cache; `other` is opened with the first copy
    void *set, *copy;    // CUDA: cuMemsetD32Async, cuMemcpyDtoDAsync
    int n_events;
    struct {
        kiln_event *begin, *end;
    } events[32];
} Machine;

bool machine_open(Machine *machine, kiln_device *device); // false: kiln_error_message()
void machine_close(Machine *machine);
// Times `run(context)`, which queues or does something: on a GPU `runs` times from cold caches, on the CPU at least
// `runs` times and for about `seconds`.
bool machine_time(Machine *machine, bool (*run)(void *context), void *context, int runs, double seconds, Times *times);
bool machine_copy(void *machine); // half of MACHINE_BYTES copied: all of them moved
bool machine_read(void *machine); // CPU: MACHINE_BYTES read
enum { MACHINE_BYTES = 1 << 30 };

// ---- rows

typedef enum {
    BASELINE_NONE,
    BASELINE_SGEMM, // OpenBLAS on f32, the same sizes
    BASELINE_ROW,   // Kiln's own matrix product of the row named
    BASELINE_READ,
    BASELINE_COPY,    // reading or copying memory
    BASELINE_PROCESS, // the program of --beside
} BaselineKind;

typedef enum {
    OF_BASELINE, // the ratio to the baseline
    OF_CEILING,  // the share of what memory gives at best
    OPERATIONS,
    BYTES,   // so many in a second
    SECONDS, // no more than that
} Goal;

typedef struct Row {
    const char *name, *file, *kernel, *values; // without a file an operator: a family of sweep.h, and its shape
    double target;                             // 0: none set
    Goal goal;                                 // what the target is of
    BaselineKind baseline;
    const char *other; // BASELINE_ROW
    int64_t mean;      // latent attention: keys of a request (latent.c); 0: as many as its pages hold
} Row;

enum { OPERATOR_ROWS_MAX = 128 };
const Row *bench_rows(bool is_cpu, int *n);    // kernels (rows.c), then operators
const Row *operator_rows(bool is_cpu, int *n); // sweep_rows.c

// ---- one kernel at full size

// Inputs repeat a table of numbers whose length is a prime: made at the speed of copying, and no index that is off by a row
// or a tile finds the same number.
typedef struct BenchTensor {
    kiln_tensor tensor;
    const char *name;
    bool read, written;
    char *before;   // in host memory, until the results are compared: an input, as the kernel finds it
    char *expected; // what the reference makes of it, where it was run
} BenchTensor;
typedef struct BenchCase {
    const Row *row;
    Machine *machine;
    kiln_program *program;
    CheckCase *values;
    CaseBuild build;
    BenchTensor tensors[PLAN_MAX_PARAMS];
    kiln_arg args[PLAN_MAX_PARAMS];
    void *workspace;
    size_t workspace_bytes;
    bool wrong; // the problem is an element that differs
    char problem[1024];
} BenchCase;

// Builds, makes tensors of random numbers, runs once and compares parts of the results drawn at random. False: see problem.
bool bench_case_open(BenchCase *c, Arena *arena, const Row *row, const char *kernels, Machine *machine);
void bench_case_close(BenchCase *c);
bool bench_case_launch(void *c);
const BenchTensor *bench_tensor(const BenchCase *c, const char *name);
int64_t bench_integer(const BenchCase *c, const char *name, int64_t otherwise); // of the row's values
double bench_number(const BenchCase *c, const char *name);                      // NAN: it has none

// ---- results beside their reference (compare.c)

void host_repeat(char *to, const char *from, size_t piece, size_t bytes); // on all processors
void *host_memory(size_t bytes);                                          // in large pages; NULL: out of memory
void *host_expected(const char *before, size_t bytes);                    // of it a copy; NULL: 0xFF

typedef struct Results {
    const char *name;
    const kiln_tensor *tensor;     // on its device
    const char *before, *expected; // in host memory; before NULL: 0xFF
    double slack;                  // times the tolerance of the type
} Results;
typedef enum { RESULTS_FIT, RESULTS_WRONG, RESULTS_UNKNOWN } Verdict;
Verdict results_compare(const Results *results, kiln_device *device, char *problem, size_t bytes);

// ---- references (reference.c)

// Builds that of a kernel or operator: of the values those that its build has, and none for an optional parameter that
// there is nothing for.
kiln_status bench_reference(Arena *arena, kiln_program *program, const char *kernel, const Binding *values, int n,
                            bool (*has)(const void *context, const char *parameter), const void *context,
                            kiln_kernel **reference);
bool bench_is_parameter(const kiln_program *program, const char *kernel, const char *name);

// ---- what should come out (expect.c)

// References of other kernels, one after the other, which together make the outputs.
enum { PARTS_MAX = 3 };
typedef struct ByParts {
    const char *between[2], *like; // what one makes and others read: of the type and shape of `like`
    struct {
        const char *kernel, *without; // the parameter, if any, that gets no tensor
        bool whole;                   // all instances
    } parts[PARTS_MAX];
} ByParts;

typedef struct Expectation {
    const char *kernel;
    const char *reference;                    // whose: NULL: its own
    int samples;                              // instances of the reference
    double (*operations)(const BenchCase *c); // NULL: bound by memory
    const ByParts *by_parts;                  // instead of one reference
} Expectation;
const Expectation *find_expectation(const char *kernel);
double bench_bytes(const BenchCase *c); // that a launch moves at least

// ---- latent attention (latent.c)

const char *latent_indices(const BenchCase *c, const char *name, int32_t *out,
                           int64_t n);         // of TABLE, LENGTH, INDEX; NULL: done
bool latent_is_fp8(const kiln_tensor *tensor); // a cache of 656-byte tokens
const char *latent_tokens(size_t *bytes);      // of such a cache, which repeats them; NULL: out of memory
kiln_status latent_plan(BenchCase *c);         // fills PART and FIRST, if the kernel has them
double latent_operations(const BenchCase *c);
double latent_bytes(const BenchCase *c);
double latent_prefill_operations(const BenchCase *c);

// ---- baselines

// A faulted device takes nothing more; closed and opened it may. Where the driver refuses the process, another one can go on
// after the row (bench/gpu.sh, bench/sweep.sh): hence a status of its own.
enum { EXIT_DEVICE_LOST = 3 };

typedef struct Baseline {
    BaselineKind kind;
    double work; // of one run: operations or bytes; 0: as much as the row's own
    Machine *machine;
    BenchCase other; // BASELINE_ROW
    struct {
        void *sgemm;
        float *a, *b, *c;
        int m, n, k;
    } product;
    char name[112]; // what it turned out to be, for the table; of a peer that is not there: why
} Baseline;

// Opens nothing and leaves kind BASELINE_NONE where there is no such thing here.
void baseline_open(Baseline *baseline, Arena *arena, const BenchCase *own, const char *kernels);
// The program of --beside, asked for a kernel or a family of sweeps.
void baseline_open_peer(Baseline *baseline, Machine *machine, const char *kernel, const char *values);
void baseline_time(Baseline *baseline, int runs, double seconds, Times *times);
void baseline_close(Baseline *baseline);
bool baseline_start_process(const char *command); // of --beside; lives until baseline_end_process
void baseline_end_process(void);

// ---- compile times

void bench_print_saved(const char *path); // --json beside --save: what was saved there, on standard output
int bench_compile(Arena *arena, kiln_device *device, const char *kernels, FILE *json);

#endif
