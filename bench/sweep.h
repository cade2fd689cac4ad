// SPDX-License-Identifier: MIT
// sweep.h - operators of kiln/ops at shapes drawn by a seed from those of engines, each beside a peer: `kiln bench
// --sweep`, and the rows of operators at fixed shapes.
//
//     sweep.c            the command: draws, times in turns, prints ratios and how they are distributed
//     sweep_case.c       shapes, tensors, the case; results compared
//     sweep_reference.c  what results should be, by references of the library's kernels
//     sweep_rows.c       operators at fixed shapes: rows of `kiln bench` itself (operator_rows in bench.h)
//     sweep_gemm.c ...   the families
//
// A family is one struct in one file: a name, the ranges that shapes are drawn from, what a call costs, how it is
// prepared and made, and which kernels' references say what should come out. To add one: write the file, and put its struct into
// the list in sweep.c; a peer is a function of bench/peers.py under the same name. Shapes are text, "M=64, N=4096,
// T=bf16": what the peer is told, what a row is called, and what --shape takes.
#ifndef KILN_SWEEP_H
#define KILN_SWEEP_H

#include "bench.h"
#include "kiln/ops/ops.h"

// ---- shapes: names with values

enum { SHAPE_VALUES = 24 };
typedef struct Shape {
    int n;
    struct {
        char name[16], text[24];
    } values[SHAPE_VALUES];
} Shape;

bool shape_has(const Shape *shape, const char *name);
int64_t shape_get(const Shape *shape, const char *name); // 0 if there is none; false is 0, true is 1
bool shape_is(const Shape *shape, const char *name, const char *text);
kiln_type shape_type(const Shape *shape, const char *name);    // of a value such as bf16
double shape_type_bytes(const Shape *shape, const char *name); // of an element of it
void shape_set(Shape *shape, const char *name, int64_t value);
void shape_print(const Shape *shape, char *text, size_t bytes); // "M=64, T=bf16"
bool shape_parse(Shape *shape, const char *text);               // false: not of that form
// Length i of a ragged batch whose longest has `longest`: from half of it on, always the same. bench/peers.py has it,
// too.
int64_t shape_length(int64_t longest, int64_t i);

// Ranges are lines "NAMES: option option ...", the last is NULL. NAMES are one or more, with a slash between them; an
// option is a value for each, likewise. A value a..b is a whole number from a to b, all orders of magnitude alike. An
// option that stands there twice is drawn twice as often. Drawing depends on nothing but the random numbers.
void shape_draw(Shape *shape, const char *const *ranges, uint64_t *random);

// ---- a case: an operator with its tensors

enum { SWEEP_TENSORS = 32, SWEEP_RANK = 5 };
typedef struct SweepTensor {
    kiln_tensor tensor; // what the operator gets
    const char *name;
    char *host;     // an input as it was made; NULL for outputs
    bool own;       // host memory that is not the tensor's
    char *expected; // an output as references have written it; NULL: none has
    bool checked;   // an output whose elements are compared
    bool in_place;  // an input, too
    bool referred;  // a reference writes it
} SweepTensor;

typedef struct SweepFamily SweepFamily;
typedef struct SweepCase {
    const SweepFamily *family;
    Shape shape;
    Machine *machine;
    kiln_ops *ops;
    void *own; // of the family: its arguments
    int n;
    SweepTensor tensors[SWEEP_TENSORS];
    void *memory[8]; // workspaces
    int n_memory;
    double bytes;       // of all inputs and outputs
    double scale;       // a place for what arguments point to
    kiln_status status; // the first that failed; then nothing more is made
    bool wrong;         // the problem is an element that differs
    char problem[512];
} SweepCase;

struct SweepFamily {
    const char *name, *about;
    const char *const *ranges;                // those of engines
    const char *const *small;                 // for a CPU, and where --small asks for it
    void (*settle)(Shape *shape);             // makes values that were drawn fit each other; NULL: they do
    double (*operations)(const Shape *shape); // of a call; 0: bound by memory
    double (*bytes)(const Shape *shape);      // that it moves at least, which also says whether the tensors fit
    void (*prepare)(SweepCase *c);            // makes tensors and arguments
    kiln_status (*call)(SweepCase *c);        // queues the operator
    void (*refer)(SweepCase *c);              // what should be in the outputs that are checked: calls sweep_refer
    int samples;                              // instances of each reference; 0: 32
    double slack;                             // times the tolerance of the type; 0: 1
    double (*slack_of)(const Shape *shape);   // the same, by shape; NULL: `slack`
};

// All give tensors that live as long as the case; after a failure they give one of no elements. `shape`: as many
// extents as `rank`.
#define EXTENTS(...)                                                                                                   \
    (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
SweepTensor *sweep_normal(SweepCase *c, const char *name, kiln_type type, double deviation, int rank,
                          const int64_t *shape);
SweepTensor *sweep_uniform(SweepCase *c, const char *name, kiln_type type, double low, double high, int rank,
                           const int64_t *shape);
// Takes host memory of malloc's, which holds the elements; NULL: out of memory.
SweepTensor *sweep_made(SweepCase *c, const char *name, kiln_type type, void *host, int rank, const int64_t *shape);
SweepTensor *sweep_output(SweepCase *c, const char *name, kiln_type type, bool checked, int rank, const int64_t *shape);
SweepTensor *sweep_in_place(SweepCase *c, SweepTensor *input); // that is written, too: it is compared with what it was
void *sweep_own(SweepCase *c, size_t bytes);                   // zeroed, freed with the case
void *sweep_workspace(SweepCase *c, size_t bytes);             // on the device
void sweep_try(SweepCase *c, kiln_status status);              // keeps the first failure with its message
const SweepTensor *sweep_find(const SweepCase *c, const char *name);
int32_t *sweep_integers(SweepCase *c, int64_t n); // host memory for sweep_made
uint64_t sweep_random(uint64_t *state);
// Sizes a workspace, makes it, and puts both into the arguments.
#define SWEEP_WORKSPACE(c, call, args)                                                                                 \
    do {                                                                                                               \
        if (!(c)->status) sweep_try(c, call##_workspace_size((c)->ops, args, &(args)->workspace_bytes));               \
        if (!(c)->status) (args)->workspace = sweep_workspace(c, (args)->workspace_bytes);                             \
    } while (0)

// Runs some instances of the reference of a kernel or operator of the library (sweep_reference.c). `format` makes a list
// "T=bf16, A=a, scale=0.5": values of build parameters and scalars; for tensors the name of one of the case, with extents
// behind it where they differ, as in "W=weights[4][64]".
void sweep_refer(SweepCase *c, const char *file, const char *kernel, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void sweep_refer_all(SweepCase *c, const char *file, const char *kernel, const char *format, ...)
    __attribute__((format(printf, 4, 5))); // all of its instances
// What one reference writes and another one reads: in host memory alone.
void sweep_between(SweepCase *c, const char *name, kiln_type type, int rank, const int64_t *shape);
// What references have written of a tensor, and 0xFF; what a family writes there is expected, too.
char *sweep_expected(SweepCase *c, const char *name);
enum { SWEEP_ARGUMENTS = 1024 };
int sweep_samples(const SweepCase *c);
const char *sweep_type(const SweepCase *c, const char *name); // of a tensor

// Makes the case, runs it once, and compares. False: see problem. Close it in any case.
bool sweep_open(SweepCase *c, const SweepFamily *family, const Shape *shape, Machine *machine, kiln_ops *ops);
void sweep_close(SweepCase *c);
bool sweep_launch(void *c);

extern const SweepFamily sweep_gemm, sweep_attention, sweep_backward, sweep_decode, sweep_paged, sweep_mla,
    sweep_mla_sparse, sweep_mla_prefill, sweep_indexer, sweep_quantised, sweep_grouped, sweep_moe, sweep_nn,
    sweep_recurrent, sweep_step, sweep_gradients, sweep_nsa, sweep_nsa_whole, sweep_nsa_gradients, sweep_sparse,
    sweep_sparse_decode, sweep_seer, sweep_vertical_slash, sweep_mla_contiguous, sweep_indexed, sweep_select,
    sweep_conv, sweep_short_conv, sweep_gemm_types, sweep_grouped_mxfp4, sweep_grouped_weights, sweep_route,
    sweep_packed, sweep_packed_gradients, sweep_paged_mixed, sweep_masked;
const SweepFamily *find_sweep_family(const char *name); // NULL: there is none

// ---- one measured shape

typedef struct SweepResult {
    const SweepFamily *family;
    char shape[256], peer[128], problem[512]; // peer: its name, or why there is none
    Spread own, other;
    double operations, bytes, build_seconds, ratio; // ratio: the peer's time over Kiln's; NAN: no peer
    int runs;
    bool failed, wrong, timed;
} SweepResult;
// Times in turns with the program of --beside. `seconds`: of each, on a CPU; below 0: compares results, and times
// nothing.
void sweep_measure(SweepResult *result, const SweepFamily *family, const Shape *shape, Machine *machine, kiln_ops *ops,
                   double seconds);

typedef struct Distribution {
    int n, below;                      // ratios, and those below 0.9
    double least, tenth, median, mean; // mean: geometric
} Distribution;

// ---- commands

typedef struct SweepOptions {
    const char *device, *beside, *save, *shape;
    bool json, list, small, check_only;
    int64_t seed, count, skip, work, limit, row_limit;
    double seconds;
    int n_args;
    char **args; // families
} SweepOptions;
int bench_sweep(Arena *arena, SweepOptions *options);

#endif
