/* SPDX-License-Identifier: MIT */
/* kiln.h - compile tile kernels and run them.
 *
 *     kiln_device  *device;   kiln_device_open("cpu", &device);             or "cuda:0"
 *     kiln_program *program;  kiln_program_load_file("attention.tile", &program);
 *     kiln_kernel  *kernel;   kiln_kernel_build(device, program, "attention_forward", "D=128, CAUSAL=true", NULL, &kernel);
 *     kiln_launch(kernel, NULL, args, n_args);
 *
 * Every function that can fail returns a status; kiln_error_message() then says, for the calling thread, what was
 * wrong and what was expected. Objects are returned through the last parameter and freed by their own function,
 * which accepts NULL. All functions may be called from several threads at once, also on the same objects, except
 * that an object must not be freed while it is in use. A process may fork while other threads are in these functions;
 * the child may use all of its objects except those of CUDA devices. Shapes are in elements, outermost dimension first.
 */
#ifndef KILN_KILN_H
#define KILN_KILN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_API __attribute__((visibility("default")))
#define KILN_VERSION "0.1.0"

/* The version of the library at run time; KILN_VERSION is that of the header a program was compiled with. */
KILN_API const char *kiln_version(void);

/* Structs of arguments and options (kiln_build_options, kiln_parameter, and kiln_..._args of the operators) may grow at their
 * ends. Their first field is the size of the caller's struct: its sizeof; or 0, which means the size in the library's own
 * header, for programs that are built together with the library. A size that the library does not know is KILN_BAD_ARGUMENT. Bindings,
 * and programs that must run with later libraries, set the size: by hand, or with KILN_ARGS, which gives a struct that is
 * all zero except for it:
 *     kiln_attention_args args = KILN_ARGS(kiln_attention_args);
 * kiln_tensor, kiln_arg, kiln_mla_shape and kiln_mla_plan, which are used in arrays and copied, never change. */
#ifdef __cplusplus
#define KILN_ARGS(type) ([] { type kiln_made{}; kiln_made.struct_size = sizeof kiln_made; return kiln_made; }())
#else
#define KILN_ARGS(type) ((type){ .struct_size = sizeof(type) })
#endif

/* ---- status */

typedef enum kiln_status {
    KILN_OK = 0,
    KILN_OUT_OF_MEMORY,      /* host or device memory */
    KILN_BAD_SOURCE,         /* the .tile source has errors; the message holds the diagnostics */
    KILN_BAD_ARGUMENT,       /* a null pointer, an unknown name, a wrong count */
    KILN_BAD_TYPE,           /* an element type or kind of argument is not what the kernel takes */
    KILN_BAD_SHAPE,          /* rank, extent, stride, or a `require` that does not hold */
    KILN_BAD_DEVICE,         /* memory of another device */
    KILN_BAD_ALIGNMENT,
    KILN_NOT_FOUND,          /* a file, a kernel, a device */
    KILN_UNSUPPORTED,        /* the target cannot do this */
    KILN_TOOLCHAIN,          /* no compiler, or it failed; a library is missing */
    KILN_IO,                 /* a file could not be read or written */
    KILN_DEVICE_FAILED,      /* the device or driver reported an error */
    KILN_TRAPPED             /* a trap of a --check build or an assert: the message has FILE:LINE:COLUMN */
} kiln_status;

/* The message of this thread's last failed call; "" if none has failed. Valid until the thread's next failing call. */
KILN_API const char *kiln_error_message(void);
KILN_API const char *kiln_status_name(kiln_status status);

/* ---- element types */

typedef enum kiln_type {
    KILN_F64 = 1, KILN_F32, KILN_TF32, KILN_F16, KILN_BF16, KILN_E4M3, KILN_E5M2, KILN_E2M1,
    KILN_I64, KILN_I32, KILN_I16, KILN_I8, KILN_I4, KILN_I2,
    KILN_U64, KILN_U32, KILN_U16, KILN_U8, KILN_U4, KILN_U2, KILN_BOOL,
    KILN_E8M0                                                          /* a power of two, the scale of an MX block */
} kiln_type;

KILN_API const char *kiln_type_name(kiln_type type);                   /* "bf16" */
KILN_API int         kiln_type_bits(kiln_type type);                   /* 16; 4-bit types pack two to a byte, low first */

/* ---- devices */

typedef struct kiln_device kiln_device;
typedef struct kiln_stream kiln_stream;
typedef struct kiln_event kiln_event;

/* name: "cpu", "cuda:0" ...  The same name gives the same device; close it as often as it was opened.
 * After a kernel faults or traps, every call on its GPU fails until the last use is closed and the device is opened
 * again. With many drivers the whole process then fails on every GPU (KILN_DEVICE_FAILED), and only another process can
 * use them. The CPU is not affected. */
KILN_API kiln_status kiln_device_open(const char *name, kiln_device **device);
KILN_API void        kiln_device_close(kiln_device *device);
KILN_API const char *kiln_device_name(const kiln_device *device);      /* as opened */
KILN_API const char *kiln_device_describe(const kiln_device *device);  /* "NVIDIA H200, sm_90, 132 SMs" */
KILN_API int         kiln_device_count(const char *kind);              /* of "cpu" (1) or "cuda" (0 without driver) */

/* Allocates `bytes` bytes of device memory, aligned to at least 256; `device` NULL: host memory. Not zeroed.
 * KILN_OUT_OF_MEMORY if there is not enough. kiln_free accepts NULL; no queued work may still use the memory. */
KILN_API kiln_status kiln_alloc(kiln_device *device, size_t bytes, void **memory);
KILN_API void        kiln_free(kiln_device *device, void *memory);
/* Allocates `bytes` bytes of pinned host memory, aligned to at least 256: a GPU copies from and to it without an intermediate
 * buffer, and kernels can access it, more slowly than device memory, as the data of a tensor of `device`. Not zeroed. */
KILN_API kiln_status kiln_host_alloc(kiln_device *device, size_t bytes, void **memory);
KILN_API void        kiln_host_free(kiln_device *device, void *memory);
/* Copies between host memory and device memory; returns when the copy is done. Does not wait for work queued on streams that
 * were opened or wrapped. */
KILN_API kiln_status kiln_upload(kiln_device *device, void *memory, const void *host, size_t bytes);
KILN_API kiln_status kiln_download(kiln_device *device, void *host, const void *memory, size_t bytes);

/* Streams and events. On the CPU all work is done when the call returns. NULL is the device's default stream. Work in one
 * stream runs in the order in which it was queued, work in different streams in any order. Close a stream or event before its
 * device; one of another device is KILN_BAD_DEVICE. */
KILN_API kiln_status kiln_stream_open(kiln_device *device, kiln_stream **stream);
/* Wraps the caller's stream (a CUstream or cudaStream_t) of the same device; the caller still owns it. A `native` of 0 is CUDA's
 * legacy default stream, as is NULL in place of a kiln_stream; CUDA's own values for that stream, 1, and for the per-thread
 * default stream, 2, are accepted as well. On the CPU `native` is ignored. */
KILN_API kiln_status kiln_stream_wrap(kiln_device *device, void *native, kiln_stream **stream);
KILN_API void        kiln_stream_close(kiln_stream *stream);
/* Waits until all of its work is done; returns the errors of that work: KILN_TRAPPED, KILN_DEVICE_FAILED. */
KILN_API kiln_status kiln_stream_wait(kiln_device *device, kiln_stream *stream);
KILN_API kiln_status kiln_event_open(kiln_device *device, kiln_event **event);
KILN_API void        kiln_event_close(kiln_event *event);
/* Records the event after all work queued on the stream so far; recording it again replaces the earlier record. */
KILN_API kiln_status kiln_event_record(kiln_event *event, kiln_stream *stream);
/* Waits until the work queued before the event is done; returns at once if it was never recorded. */
KILN_API kiln_status kiln_event_wait(kiln_event *event);
/* Waits for `end` and returns the time between the two. KILN_BAD_ARGUMENT if one was never recorded. */
KILN_API kiln_status kiln_event_elapsed(kiln_event *begin, kiln_event *end, double *milliseconds);

/* ---- tensors: plain structs; Kiln never frees their data */

enum { KILN_MAX_RANK = 8 };

typedef struct kiln_tensor {
    void        *data;                       /* the element at (0, 0, ...); memory of `device` */
    kiln_type    type;
    int          rank;                       /* 0 to 8 */
    int64_t      shape[KILN_MAX_RANK];
    int64_t      strides[KILN_MAX_RANK];     /* in elements; ignored unless has_strides: then row-major is assumed */
    bool         has_strides;
    kiln_device *device;                     /* NULL: host memory, for the CPU */
} kiln_tensor;

/* A row-major tensor over existing memory. */
KILN_API kiln_tensor kiln_tensor_of(kiln_device *device, void *data, kiln_type type, int rank, const int64_t *shape);
KILN_API size_t kiln_tensor_bytes(const kiln_tensor *tensor);          /* of its elements; 0 if it is not a valid tensor */
/* A part of a tensor, over the same memory: `extent` elements of dimension `dim`, from `first` on. For elements below 8 bits
 * the part must begin at a whole byte. */
KILN_API kiln_status kiln_tensor_slice(const kiln_tensor *tensor, int dim, int64_t first, int64_t extent, kiln_tensor *slice);

/* DLPack. Import shares the memory: keep the source alive while the tensor is used, then call its deleter yourself. Export
 * allocates a managed tensor whose deleter frees only itself: the memory must outlive it. The first two take and make a
 * DLManagedTensor, as in a capsule named "dltensor"; the others the DLManagedTensorVersioned of DLPack 1.x, as in a capsule
 * named "dltensor_versioned". A major version other than 1 is KILN_UNSUPPORTED; its deleter can be called all the same.
 * flags  KILN_DLPACK_*: those of the source (import), those to set (export). Import with `flags` NULL returns KILN_BAD_ARGUMENT
 *        for a read-only tensor: Kiln writes where a kernel's parameter is `out` or `inout`, whatever the flags were */
enum { KILN_DLPACK_READ_ONLY = 1, KILN_DLPACK_COPIED = 2 };
KILN_API kiln_status kiln_tensor_from_dlpack(const void *managed, kiln_tensor *tensor);
KILN_API kiln_status kiln_tensor_to_dlpack(const kiln_tensor *tensor, void **managed);
KILN_API kiln_status kiln_tensor_from_dlpack_versioned(const void *managed, kiln_tensor *tensor, uint64_t *flags);
KILN_API kiln_status kiln_tensor_to_dlpack_versioned(const kiln_tensor *tensor, uint64_t flags, void **managed);

/* For bindings whose calls are like earlier ones: what an object of a call was. A tensor, by DLPack's C exchange API: of that type,
 * device, element type, shape and strides, with an address that goes somewhere, a multiple of 16 or not; or one that must be the
 * very same. Zeroed before its first use, but for `address` and `index`. */
typedef struct kiln_dlpack_place {
    void      **address;                     /* gets the address of the object's first element; NULL: it is no tensor */
    const void *same;                        /* the type of a tensor, of the first object; else the object itself */
    int64_t     index;                       /* which object of the call it is */
    int64_t     seen[2 + 2 * KILN_MAX_RANK]; /* device, element type, rank, alignment, shape, strides; of the first object */
} kiln_dlpack_place;
typedef struct kiln_dlpack_places {
    const void *exchange_api;                /* in the capsule `__dlpack_c_exchange_api__` of the tensors' Python type */
    const void *item;                        /* the function that gives object `index` of some, borrowed: PyTuple_GetItem */
    const void *type_of, *release;           /* those that give an object's type, and give it back: PyObject_Type, Py_DecRef */
    kiln_dlpack_place *places;
    int64_t     n;
} kiln_dlpack_places;
/* Objects held to n places: 1: they agree with what was there first in all but the addresses of tensors, which are written; 0: one
 * does not, or has no memory, and some may be written; -1: one is no tensor of the framework's, and its API has set an error. The
 * caller holds what the framework's objects need (Python: the interpreter's lock). Threads: a place is one thread's at a time. */
KILN_API int kiln_dlpack_agree(const kiln_dlpack_places *places, void *objects);

/* ---- programs and kernels */

typedef struct kiln_program kiln_program;
typedef struct kiln_kernel kiln_kernel;

KILN_API kiln_status kiln_program_load_file(const char *path, kiln_program **program);
/* name: shown in messages; imports are first searched in its folder. */
KILN_API kiln_status kiln_program_load_text(const char *name, const char *text, kiln_program **program);

typedef struct kiln_program_options {
    const char *const *folders;              /* searched for imports, in this order */
    int                n_folders;
} kiln_program_options;

/* The same for a file (`text` NULL) or a text, with options (NULL: all zero). An import is searched in the folder of the
 * importing file, then in `folders`, then in those of $KILN_PATH (separated by ':'), then in the installed library's kernels.
 * Messages show lines only of files in these folders and below the program's own. */
KILN_API kiln_status kiln_program_load(const char *path, const char *text, const kiln_program_options *options,
                                       kiln_program **program);
KILN_API void        kiln_program_free(kiln_program *program);

typedef struct kiln_build_options {
    size_t struct_size;                      /* sizeof, or 0: see KILN_ARGS */
    bool check;                              /* trap accesses outside tiles, reads of undefined tiles, false asserts */
    int  arch;                               /* CUDA: 90 or 80; 0: the device's */
    const char *isa;                         /* CPU: a form (docs/operators.md): "avx512", "avx2", "portable"; NULL: the best */
    const char *tuned;                       /* a file of `kiln tune`: values for build parameters that the bindings do not name,
                                              * from the rows of this kernel and target whose given values are the other build
                                              * values that are not defaults; NULL: none. Not of operators, which choose
                                              * themselves */
    const char *tuned_for;                   /* "M=4096, N=4096": of several rows the one whose launch values are nearest; NULL:
                                              * the first */
} kiln_build_options;

/* Builds a kernel or operator for a device, or loads it from the cache, which needs no compiler.
 * bindings  "T=bf16, BM=64, LSE=none, M=4096, Q=strided": build parameters, shape symbols fixed at build time, absent
 *           optional tensors, tensors with strides: the last dimension contiguous, the others at positive multiples of
 *           16 bytes; "Q=unaligned": any strides, and data aligned as its elements; NULL: all defaults
 * options   NULL: all zero
 * device    NULL with options->arch set: compiles for that architecture without a GPU; such a kernel cannot launch */
KILN_API kiln_status kiln_kernel_build(kiln_device *device, kiln_program *program, const char *name,
                                       const char *bindings, const kiln_build_options *options, kiln_kernel **kernel);
KILN_API void        kiln_kernel_free(kiln_kernel *kernel);
KILN_API const char *kiln_kernel_source(const kiln_kernel *kernel);    /* the emitted C or CUDA C; NULL for operators */
KILN_API int         kiln_kernel_parameters(const kiln_kernel *kernel);
KILN_API const char *kiln_kernel_parameter_name(const kiln_kernel *kernel, int index);

/* ---- launching */

typedef enum kiln_arg_kind { KILN_ARG_NONE, KILN_ARG_TENSOR, KILN_ARG_INT, KILN_ARG_FLOAT } kiln_arg_kind;

typedef struct kiln_arg {
    kiln_arg_kind kind;
    union {
        const kiln_tensor *tensor;
        int64_t            integer;
        double             real;
    };
} kiln_arg;

#ifdef __cplusplus
static inline kiln_arg kiln_arg_none() { return kiln_arg(); }
static inline kiln_arg kiln_arg_tensor(const kiln_tensor *t)
{
    kiln_arg a = kiln_arg();
    a.kind = KILN_ARG_TENSOR;
    a.tensor = t;
    return a;
}
static inline kiln_arg kiln_arg_int(int64_t i)
{
    kiln_arg a = kiln_arg();
    a.kind = KILN_ARG_INT;
    a.integer = i;
    return a;
}
static inline kiln_arg kiln_arg_float(double x)
{
    kiln_arg a = kiln_arg();
    a.kind = KILN_ARG_FLOAT;
    a.real = x;
    return a;
}
#define KILN_NONE        kiln_arg_none()
#define KILN_TENSOR(t)   kiln_arg_tensor(t)
#define KILN_INT(i)      kiln_arg_int(i)
#define KILN_FLOAT(x)    kiln_arg_float(x)
#else
#define KILN_NONE        ((kiln_arg){ .kind = KILN_ARG_NONE })
#define KILN_TENSOR(t)   ((kiln_arg){ .kind = KILN_ARG_TENSOR, .tensor = (t) })
#define KILN_INT(i)      ((kiln_arg){ .kind = KILN_ARG_INT, .integer = (i) })
#define KILN_FLOAT(x)    ((kiln_arg){ .kind = KILN_ARG_FLOAT, .real = (x) })
#endif

/* Queues one run of `kernel` on `stream` (NULL: the default one); returns without waiting for it (on the CPU: when done).
 * args      one per parameter of the source, in order; read before this returns
 * errors    KILN_BAD_*: nothing was started, and kiln_error_message() names the argument, its value and what was
 *           expected; KILN_TRAPPED in check builds
 * builds    on GPUs, once, for extents past 2^31 - 1 (2^28 with products), and for products whose rows are no multiples of
 *           16 bytes; also in a capture, which it does not become part of
 * threads   any; runs on one stream execute in the order of the calls */
KILN_API kiln_status kiln_launch(kiln_kernel *kernel, kiln_stream *stream, const kiln_arg *args, int n_args);

/* The same for operators, with memory for their temporaries: aligned to 256 bytes and at least as large as
 * kiln_workspace_size returns for these arguments (0 for a kernel). kiln_launch on an operator fails unless it needs none. */
KILN_API kiln_status kiln_workspace_size(kiln_kernel *kernel, const kiln_arg *args, int n_args, size_t *bytes);
KILN_API kiln_status kiln_launch_with(kiln_kernel *kernel, kiln_stream *stream, const kiln_arg *args, int n_args,
                                      void *workspace, size_t workspace_bytes);

/* ---- what a kernel takes, for programs that do not know its source */

typedef struct kiln_parameter {
    size_t        struct_size;               /* sizeof, or 0: see KILN_ARGS */
    const char   *name;                      /* lives as long as the kernel */
    kiln_arg_kind kind;                      /* of its argument: a tensor; KILN_ARG_INT: an integer or bool; KILN_ARG_FLOAT: either
                                              * kind of number; KILN_ARG_NONE: bound when the kernel was built, as by LSE=none */
    kiln_type     type;                      /* of the scalar or the tensor's elements */
    int           rank;                      /* of a tensor, else 0 */
    bool          reads, writes;             /* `in`, a scalar: reads; `out`: writes; `inout`: both */
    bool          optional;                  /* may be bound to none */
    bool          strided;                   /* takes strides: declared or bound so */
} kiln_parameter;

/* Fills *parameter with what argument `index` of a launch is, from 0 on.
 * errors  KILN_BAD_ARGUMENT: a null pointer, an index that is none, a struct_size that the library does not know */
KILN_API kiln_status kiln_kernel_parameter(const kiln_kernel *kernel, int index, kiln_parameter *parameter);

/* The extents that tensor `index` has to have beside the other arguments: what an output is allocated with.
 * args    as for a launch; this tensor, and others that are not there yet, are KILN_NONE. Tensors need no data, and nothing is
 *         checked: the launch does that
 * shape   room for the parameter's rank
 * errors  KILN_BAD_SHAPE: an extent depends on what the arguments do not give, and the message says on what;
 *         KILN_BAD_TYPE: the parameter is no tensor; KILN_BAD_ARGUMENT: a null pointer, a wrong count */
KILN_API kiln_status kiln_kernel_extents(const kiln_kernel *kernel, const kiln_arg *args, int n_args, int index, int64_t *shape);

/* Sets the number of threads for CPU launches of this process; 0: KILN_THREADS, else as many as the machine has. */
KILN_API void kiln_set_threads(int threads);

#ifdef __cplusplus
}
#endif
#endif
