// SPDX-License-Identifier: MIT
// build.h - from programs to kernels that can be launched: the part of the runtime that knows the compiler.
#ifndef KILN_RUNTIME_BUILD_H
#define KILN_RUNTIME_BUILD_H

#include "compile/compile.h"
#include "runtime/runtime.h"
#include "toolchain/toolchain.h"

// A program keeps its syntax tree. Checking and compiling allocate in its arena and rewind it afterwards, one
// thread at a time (under `lock`); the C compiler runs outside the lock.
struct kiln_program {
    Arena *arena;
    Program *program;
    pthread_mutex_t lock;
    _Atomic int uses;     // the handle, and kernels that may be built again (wide.c)
    char hash[HASH_NAME]; // of the texts of all its files and their paths
};

// Diagnostics in messages are coloured. For the command, on terminals.
extern bool program_color;

// A program whose files are all in memory.
kiln_status program_load_texts(const char *path, FindText *find, kiln_program **program);

void program_keep(kiln_program *program); // one more use; kiln_program_free ends it

// Status and message for the errors in `diags`.
kiln_status program_fail(const Diags *diags);

typedef enum { FORM_KERNEL, FORM_REFERENCE, FORM_VERIFY, FORM_CASE_CODE } KernelForm;

// What a kernel is built from.
typedef struct BuildRequest {
    kiln_device *device; // NULL: compile only
    kiln_program *program;
    const char *name;
    const Binding *bindings;
    int n_bindings;
    bool checked;
    Target target;
    KernelForm form;
    const CheckCase *one; // FORM_CASE_CODE
} BuildRequest;

// The target a device and options ask for.
kiln_status target_choose(const kiln_device *device, const kiln_build_options *options, Target *target);
kiln_status kernel_build(const BuildRequest *request, kiln_kernel **kernel);
// A kernel, or an operator with its steps' kernels, of plan and source alone: for ahead-of-time builds.
kiln_status kernel_translate(const BuildRequest *request, kiln_kernel **kernel);
// The same up to the source text and plan, without toolchain or cache: for dumps. `use` is
// called while the results live, for each step of an operator, and may be NULL. What it returns is returned.
typedef kiln_status UseCompiled(const Compiled *compiled, void *context);
kiln_status kernel_compile(const BuildRequest *request, const char *stage, Text *dump, UseCompiled *use, void *context);

// ---- references (reference.c)

// Of a kernel or operator, for the CPU: takes the kernel's arguments in host memory.
kiln_status reference_build(kiln_program *program, const char *name, const Binding *bindings, int n_bindings,
                            kiln_kernel **reference);
// Runs n of its instances, the first, the last, and others drawn at random; all of them if there are no more. What the others
// would write stays as it is.
kiln_status reference_run_some(kiln_kernel *reference, const kiln_arg *args, int n_args, int64_t n);

void wide_connect(kiln_kernel *kernel, const BuildRequest *request); // wide.c: launches may build it for larger shapes

// Parses "T=bf16, BM=64, LSE=none" into `arena` and checks it against the declaration of `name`.
kiln_status bindings_parse(Arena *arena, kiln_program *program, const char *name, const char *text, Binding **bindings,
                           int *n);
void bindings_print(Text *out, const Binding *bindings, int n); // the same form

// Connects a kernel that has a plan and an object_name with its code in the cache. KILN_NOT_FOUND: not there.
kiln_status kernel_attach(kiln_kernel *kernel);

// ---- operators (operator.c)
typedef struct StepArg {
    int param, temp;
    PlanCode scalar;
    bool none, is_float;
} StepArg; // param or temp >= 0, else scalar or none
typedef struct Step {
    kiln_kernel *kernel;
    StepArg *args;
    int n_args;
    PlanCode when;
} Step; // when.length 0: always
typedef struct Temp {
    DType type;
    int rank;
    PlanCode shape[MAX_RANK];
} Temp;
enum { MAX_TEMPS = 64 };
struct Steps {
    Step *steps;
    int n_steps;
    Temp *temps;
    int n_temps;
};

void operator_connect(kiln_kernel *kernel, Steps *steps); // makes it an operator; owns the steps' kernels
// Steps for the plan of kernel->arena; their kernels are still to be made.
Steps *operator_steps(kiln_kernel *kernel, const OperatorPlan *plan);

// ---- operators as bytes (steps_store.c)
typedef struct Reader {
    const char *at, *end;
    bool failed;
} Reader;
// The kernel of one step. KILN_NOT_FOUND: these bytes are of no use.
typedef kiln_status ReadStepKernel(Reader *r, kiln_device *device, int step, kiln_kernel **kernel, const void *context);
void steps_write(Text *out, const Steps *steps,
                 void (*write_kernel)(Text *out, const kiln_kernel *kernel)); // NULL: none
kiln_status steps_read(Reader *r, kiln_kernel *kernel, ReadStepKernel *read_kernel, const void *context);
void store_int(Text *out, int64_t value);
void store_bytes(Text *out, const char *bytes, size_t n);
void store_text(Text *out, const char *text);
int64_t read_int(Reader *r);
int read_count(Reader *r, int most);
const char *read_bytes(Reader *r, size_t *n);
const char *read_text(Reader *r, Arena *arena);

// ---- what the cache keeps of a kernel (store.c)
// A text that kernel_restore turns back into a kernel whose code is in the cache; the arena is the text's.
void kernel_store(Text *out, const kiln_kernel *kernel);
kiln_status kernel_restore(const char *bytes, size_t n, kiln_device *device,
                           kiln_kernel **kernel); // KILN_NOT_FOUND: build it

#endif
