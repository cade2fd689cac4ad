// SPDX-License-Identifier: MIT
// runtime.h - the objects behind the public handles, and what the files of the runtime offer each other.
//
// The part that launches (devices, tensors, launch, threads) knows nothing of the compiler: with plan/ it is what
// ahead-of-time programs link. The part that builds (program, kernel, operator) stands on top of it.
#ifndef KILN_RUNTIME_RUNTIME_H
#define KILN_RUNTIME_RUNTIME_H

#include "base/arena.h"
#include "base/status.h"
#include "plan/plan.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>

typedef struct Steps Steps; // of an operator (operator.c)
typedef struct Wide Wide;   // builds for larger shapes (wide.c)
typedef struct Launch Launch;
struct Recording;
typedef void KernelEntry(const void *words, int64_t first, int64_t last, void *scratch);

// ---- threads (threads.c)

typedef void ThreadsTask(void *context, int64_t first, int64_t last);
// Runs task over 0 .. n-1 in pieces, on this thread and on those of the pool that are free; returns when all is done.
// Called from several threads at once, and from inside a task, it shares the pool.
void threads_run(int64_t n, ThreadsTask *task, void *context);
int threads_count(void);
void *threads_scratch(size_t bytes); // this thread's own, aligned to 64, kept; NULL: out of memory

// ---- one launch, checked and laid out (launch.c)

struct Launch {
    const LaunchPlan *plan;
    const kiln_arg *args;
    int64_t words[PLAN_MAX_WORDS];
    int n_words;                                               // as plan.h lays them out
    int64_t symbols[PLAN_MAX_BINDS], scalars[PLAN_MAX_PARAMS]; // for plan_eval
    int64_t grid[PLAN_MAX_GRID], instances;
    // CUDA: extent and stride of each dimension of each tensor map, then the further words, in the plan's order
    int64_t computed[PLAN_MAX_COMPUTED];
    int n_computed;
    bool needs_other;   // it failed, but another build would do (wide.c)
    uint64_t too_large; // because of symbols past plan->symbol_max, a bit for each bind; 0: of rows that are no boxes
};

kiln_status launch_prepare(Launch *launch, const LaunchPlan *plan, const kiln_device *device, const kiln_arg *args,
                           int n_args);
void launch_address_words(const LaunchPlan *plan,
                          int *words); // of each parameter that is a tensor: where its address goes
int launch_alignment(const LaunchPlan *plan, const PlanParam *param); // of its address
kiln_status launch_eval(const Launch *launch, PlanCode code, int64_t *value, const char *what, ...)
    __attribute__((format(printf, 4, 5))); // `what` has no value: an error that says so

// ---- devices (device.c, device_cpu.c, device_cuda.c)

typedef struct DeviceKind {
    const char *name;
    int (*count)(void);
    kiln_status (*open)(kiln_device *device);
    void (*close)(kiln_device *device);
    kiln_status (*alloc)(kiln_device *device, size_t bytes, void **memory);
    void (*free)(kiln_device *device, void *memory);
    kiln_status (*alloc_host)(kiln_device *device, size_t bytes, void **memory);
    void (*free_host)(kiln_device *device, void *memory);
    kiln_status (*upload)(kiln_device *device, void *memory, const void *host, size_t bytes);
    kiln_status (*download)(kiln_device *device, void *host, const void *memory, size_t bytes);
    kiln_status (*stream_open)(kiln_stream *stream);
    void (*stream_close)(kiln_stream *stream);
    kiln_status (*stream_wait)(kiln_device *device, kiln_stream *stream);
    kiln_status (*event_open)(kiln_event *event);
    void (*event_close)(kiln_event *event);
    kiln_status (*event_record)(kiln_event *event, kiln_stream *stream);
    kiln_status (*event_wait)(kiln_event *event);
    kiln_status (*event_elapsed)(kiln_event *begin, kiln_event *end, double *milliseconds);
    void (*unload)(kiln_kernel *kernel);
    kiln_status (*launch)(kiln_kernel *kernel, kiln_stream *stream, const Launch *launch);
} DeviceKind;

extern const DeviceKind device_kind_cpu, device_kind_cuda;

struct kiln_device {
    const DeviceKind *kind;
    int index, uses;
    char name[16], description[160];
    int arch;                 // CUDA: 90 for sm_90; CPU: 0
    int processors;           // SMs or hardware threads
    int64_t shared_bytes_max; // CUDA: per block, opted in
    void *native;             // CUcontext
    int ordinal;              // CUdevice
    FaultRecord *fault;       // CUDA: memory of the host that kernels which trap write to
    uint64_t blank;           // CUDA: its memory: zeros, which maps of empty tensors read, then bytes that they write
    char trap[320];           // what stopped it
    bool poisoned;            // a kernel faulted: nothing runs until the device is closed and opened
    char last_kernel[64];     // launched last, for messages; a race between threads garbles no more than that
};

struct kiln_stream {
    kiln_device *device;
    void *native;
    bool borrowed;
};
struct kiln_event {
    kiln_device *device;
    void *native;
    double seconds;
    bool recorded;
}; // seconds: of the CPU's clock

bool device_is_cpu(const kiln_device *device); // NULL is the CPU

// ---- kernels

struct kiln_kernel {
    Arena *arena;        // plan, source, operator
    kiln_device *device; // a use of it is held; NULL: compiled without one
    LaunchPlan *plan;    // of an operator: its interface
    int arch;            // CUDA: what it is compiled for; 0: a CPU kernel
    const char *source;
    const char *explanation;
    const char *notes;      // performance notes that the header does not accept, as notes_print() has them
    int64_t accepts_spills; // whether the header accepts that ptxas keeps registers in memory
    char object_name[41];   // of the code in the cache
    // Operators only, so that what merely launches need not link what builds.
    Steps *steps;
    kiln_status (*run_steps)(kiln_kernel *kernel, kiln_stream *stream, const Launch *launch, void *workspace,
                             size_t bytes, struct Recording *r);
    void (*free_steps)(Steps *steps);
    // CUDA kernels and operators that can be built again
    Wide *wide;
    kiln_status (*widen)(kiln_kernel *kernel, uint64_t symbols, kiln_kernel **wide);
    void (*free_wide)(Wide *wide);
    struct PreparedCache *_Atomic prepared; // launches that were checked before (prepared.h)
    pthread_mutex_t lock;                   // CUDA: loading, and the kept tensor maps
    // CPU
    KernelEntry *entry;
    void *object;
    struct CpuTimes *times; // of the launches to come, for `kiln profile`; NULL: they are not noted
    // CUDA
    char *cubin;
    void *module, *function, *map_cache;
    int clusters; // that run at once; 0: the kernel has none
    void *trace;  // plan->traces: memory of the device, as plan/trace.h lays it out (trace.c)
    struct CudaReport {
        int registers, stack_bytes, spill_bytes, static_shared_bytes;
        bool serialised_wgmma, known;
    } report;
};

// When each instance of a launch ran, in seconds of a monotonic clock. Whoever sets kiln_kernel.times owns it and its items.
typedef struct CpuInstance {
    double begin, end;
    const void *thread; // the same in all that one thread ran
} CpuInstance;
typedef struct CpuTimes {
    CpuInstance *items; // by instance, so many of them; later ones are not noted
    int64_t n;
} CpuTimes;

// An empty kernel with an arena, holding a use of the device; NULL when out of memory.
kiln_kernel *kernel_new(kiln_device *device);
// The first n instances, or those in `some` (device_cpu.c).
kiln_status cpu_run(KernelEntry *entry, const Launch *launch, const int64_t *some, int64_t n);
kiln_status cuda_load(kiln_kernel *kernel); // device_cuda.c: cubin to function

// ---- what a traced kernel records (trace.c; plan/trace.h)

// Clears the record, and chooses the CTAs of launches from here on: n of at most TRACE_CTAS. Before the first launch.
kiln_status trace_choose(kiln_kernel *kernel, const unsigned *ctas, int n);
kiln_status trace_download(kiln_kernel *kernel, uint64_t *words); // TRACE_BYTES, when all launches have ended

void device_keep(kiln_device *device); // one more use; NULL is nothing

// ---- elements of every type as numbers (element.c): for scalars, tests and tools, not for speed

double element_get(DType type, const void *data, int64_t index);
int64_t element_get_int(DType type, const void *data, int64_t index);  // integers, exact
void element_set(DType type, void *data, int64_t index, double value); // rounds and saturates as the language does
void element_set_int(DType type, void *data, int64_t index, int64_t value);

// ---- tensors (tensor.c)

kiln_type type_of_dtype(DType type); // `int` is KILN_I64
DType dtype_of_type(kiln_type type); // DTYPE_NONE if it is none
bool tensor_is_contiguous(const kiln_tensor *tensor, int *bad_dim, int64_t *expected);
int64_t tensor_elements(
    const kiln_tensor *tensor); // -1: past 2^58, or no tensor: a rank or extent below 0, a rank past 8
int64_t tensor_stride(const kiln_tensor *tensor, int dim); // in elements
// Whether two of its elements may be one: taken from the smallest step up, each must step over all that is within. `dim`: the
// first that does not.
bool tensor_overlaps_itself(const kiln_tensor *tensor, int *dim);
// Whether its rows, the last dimension, are contiguous and lie multiples of 16 bytes apart, and apart from each other if it
// is written; `dim`: the first that does not fit.
typedef enum { ROWS_FIT, ROWS_BROKEN, ROWS_UNALIGNED, ROWS_OVERLAP } RowsFit;
RowsFit tensor_check_rows(const kiln_tensor *tensor, bool written, int *dim);
int64_t tensor_row_stride(const kiln_tensor *tensor, int dim); // of one that fits: 16 bytes where none is ever taken
// The bytes it reaches, from its lowest to past its highest element; packed elements rounded out to bytes.
bool tensor_range(const kiln_tensor *tensor, uintptr_t *begin, uintptr_t *end); // false: no elements
bool tensors_overlap(const kiln_tensor *a, const kiln_tensor *b);

#endif
