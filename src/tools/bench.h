// SPDX-License-Identifier: MIT
// bench.h - what the files of `kiln bench` share: rows, cases at full size, rivals timed in turns, the machine.
//
//     bench.c          the command and its tables
//     bench_rows.c     what is measured: the rows, their rivals and targets
//     bench_case.c     a kernel with its tensors, at sizes that a reference could not follow
//     bench_expect.c   single elements of the results in float64, and the work of a launch
//     bench_latent.c   the same for latent attention, and the tables and plans that it needs
//     bench_machine.c  cold caches, copies, reading: what time and speed are measured with
//     bench_rival.c    what a row is compared with
//     bench_compile.c  compile times of every kernel
#ifndef KILN_TOOLS_BENCH_H
#define KILN_TOOLS_BENCH_H

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
bool machine_flush(Machine *machine); // CUDA: overwrites more than the L2 holds; queued only
// Times `run(context)`, which queues or does something: on a GPU `runs` times from cold caches, on the CPU at least
// `runs` times and for about `seconds`.
bool machine_time(Machine *machine, bool (*run)(void *context), void *context, int runs, double seconds, Times *times);
bool machine_copy(void *machine); // half of MACHINE_BYTES copied: all of them moved
bool machine_read(void *machine); // CPU: MACHINE_BYTES read
enum { MACHINE_BYTES = 1 << 30 };

// ---- rows

typedef enum {
    RIVAL_NONE,
    RIVAL_SGEMM, // OpenBLAS on f32, the same sizes
    RIVAL_ROW,   // Kiln's own matrix product of the row named
    RIVAL_READ,
    RIVAL_COPY,    // reading or copying memory
    RIVAL_PROCESS, // the program of --beside
} RivalKind;

typedef enum {
    OF_RIVAL,   // the ratio to the rival
    OF_CEILING, // the share of what memory gives at best
    OPERATIONS,
    BYTES,   // so many in a second
    SECONDS, // no more than that
} Goal;

typedef struct Row {
    const char *name, *file, *kernel, *values;
    double target; // 0: none set
    Goal goal;     // what the target is of
    RivalKind rival;
    const char *other; // RIVAL_ROW
    int64_t mean;      // latent attention: keys of a request (bench_latent.c); 0: as many as its pages hold
} Row;

const Row *bench_rows(bool is_cpu, int *n);

// ---- one kernel at full size

// Inputs repeat a table of `period` numbers, a prime, from `offset` on: made at the speed of copying, and no index that
// is off by a row or a tile finds the same number.
typedef struct BenchTensor {
    kiln_tensor tensor;
    const char *name;
    const double *values;
    int64_t period, offset;
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

// Builds, makes tensors of random numbers, runs once and compares elements drawn at random. False: see problem.
bool bench_case_open(BenchCase *c, Arena *arena, const Row *row, const char *kernels, Machine *machine);
void bench_case_close(BenchCase *c);
bool bench_case_launch(void *c);
const BenchTensor *bench_tensor(const BenchCase *c, const char *name);
int64_t bench_integer(const BenchCase *c, const char *name, int64_t otherwise); // of the row's values
double bench_number(const BenchCase *c, const char *name);                      // NAN: it has none
// Element `index` of an input as the kernel found it.
double bench_input(const BenchTensor *tensor, int64_t index);

// ---- what should come out (bench_expect.c)

typedef struct Expectation {
    const char *kernel;
    int samples;
    double (*operations)(const BenchCase *c); // NULL: bound by memory
    double (*element)(const BenchCase *c, const char *output, int64_t index);
} Expectation;
const Expectation *find_expectation(const char *kernel);
double bench_bytes(const BenchCase *c); // that a launch moves at least

// ---- latent attention (bench_latent.c)

const char *latent_indices(const BenchCase *c, const char *name, int32_t *out,
                           int64_t n);         // of TABLE, LENGTH, INDEX; NULL: done
bool latent_is_fp8(const kiln_tensor *tensor); // a cache of 656-byte tokens
kiln_status latent_fill_fp8(const BenchCase *c, BenchTensor *tensor);
kiln_status latent_plan(BenchCase *c); // fills PART and FIRST, if the kernel has them
double latent_operations(const BenchCase *c);
double latent_bytes(const BenchCase *c);
double latent_prefill_operations(const BenchCase *c);
double latent_decode(const BenchCase *c, const char *output, int64_t i);
double latent_prefill(const BenchCase *c, const char *output, int64_t i);

// ---- rivals

typedef struct Rival {
    RivalKind kind;
    double work; // of one run: operations or bytes; 0: as much as the row's own
    Machine *machine;
    BenchCase other; // RIVAL_ROW
    struct {
        void *sgemm;
        float *a, *b, *c;
        int m, n, k;
    } product;
    char name[64]; // what it turned out to be, for the table
} Rival;

// Opens nothing and leaves kind RIVAL_NONE where there is no such thing here.
void rival_open(Rival *rival, Arena *arena, const BenchCase *own, const char *kernels);
void rival_time(Rival *rival, int runs, double seconds, Times *times);
void rival_close(Rival *rival);
bool rival_start_process(const char *command); // of --beside; lives until rival_end_process
void rival_end_process(void);

// ---- compile times

int bench_compile(Arena *arena, kiln_device *device, const char *kernels, FILE *json);

#endif
