// SPDX-License-Identifier: MIT
// cases.h - one case of a check: its kernels, its inputs, a run, a comparison. Used by `kiln test`, `run` and `bench`.
#ifndef KILN_TOOLS_CASES_H
#define KILN_TOOLS_CASES_H

#include "tools/tool.h"

// What is built once for all cases that differ only in launch values.
typedef struct CaseBuild {
    kiln_program *program;
    const char *name;
    const Binding *bindings;
    int n_bindings;
    bool has_reference, has_verify;
    kiln_kernel *kernel, *reference, *verify; // reference and verify run on the CPU
    kiln_status status;                       // of building them
    char *message;                            // memory_alloc'ed, when it failed
    double seconds;
} CaseBuild;

typedef struct CaseOptions {
    kiln_device *device;
    kiln_build_options build;
    bool tight;           // rows of tensors bound to strided lie side by side, as in a contiguous one
    bool trace;           // the kernel is a traced build
    bool unchecked_types; // no check has them: default tolerances allow for what sums of fp8 products may lose
} CaseOptions;

bool case_build(CaseBuild *build, const CaseOptions *options); // false: see status and message
void case_build_free(CaseBuild *build);

// A tensor of a case: host memory between guards, and its copy on the device if that is not the CPU.
typedef struct CaseTensor {
    kiln_tensor host, device;
    char *block; // the host memory with its guards
    size_t bytes;
    char *spread; // of `strided` parameters: what the kernel gets, with gaps between rows, and guards
    size_t spread_bytes;
} CaseTensor;

enum { GUARD_BYTES = 4096 };
// Lays a contiguous tensor out with gaps between its rows, all poison; and brings the elements back, after which
// `*gaps_hold` tells whether only elements were written.
bool spread_tensor(CaseTensor *t, bool aligned, bool tight, int poison); // false: out of memory
void gather_tensor(CaseTensor *t, int poison, bool *gaps_hold);

typedef struct Case {
    const CaseBuild *build;
    const CheckCase *check;
    CaseOptions options;
    CaseTensor inputs[PLAN_MAX_PARAMS];   // as the kernel gets them: in, out (poisoned), inout
    CaseTensor expected[PLAN_MAX_PARAMS]; // of written tensors: what the reference made of the same
    kiln_arg args[PLAN_MAX_PARAMS];       // of the kernel
    kiln_arg host_args[PLAN_MAX_PARAMS];  // the same in host memory
    void *workspace;
    size_t workspace_bytes;
    char problem[1024]; // what was wrong, for people
} Case;

// Makes tensors and inputs. All functions return false with `problem` filled in.
bool case_open(Case *c, const CaseBuild *build, const CheckCase *check, const CaseOptions *options);
bool case_run(Case *c);                         // the kernel, once; results are in host memory afterwards
bool case_launch(Case *c, kiln_stream *stream); // only queues it
bool case_check(Case *c);                       // runs the reference or verify block, compares, looks at the guards
void case_close(Case *c);
// What ran, for the log of a failure: the kernel with all its build parameters, where, and the tensors.
void case_describe(const Case *c, char *text, size_t bytes);

// Makes the n elements of a tensor; deterministic in `seed`.
void fill_input(const CaseInput *input, DType type, void *data, int64_t n, uint64_t seed);
// Whether two tensors agree; else says where and how not.
bool compare_tensors(const char *name, const kiln_tensor *got, const kiln_tensor *expected,
                     const CaseTolerance *tolerance, char *problem, size_t problem_bytes);
CaseTolerance tolerance_for(const CheckCase *check, int param, DType type);

#endif
