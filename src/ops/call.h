// SPDX-License-Identifier: MIT
// call.h - one call of an operator: its arguments held to what they must be, its kernel found, its launch.
//
// An operator's function fills a table of what each tensor must be, lets call_check go through it, names the kernel to
// call_kernel, and lets call_run launch it. Nothing is queued before everything is checked, and every message begins with the name of
// the public function and names the argument as the header does.
#ifndef KILN_OPS_CALL_H
#define KILN_OPS_CALL_H

#include "kiln/code.h"
#include "kiln/ops/mla.h"
#include "kiln/ops/ops.h"

#include "base/status.h"
#include "ops/form.h"
#include "ops/known.h"
#include "runtime/build.h"
#include "runtime/prepared.h"

#include <assert.h>
#include <string.h>

// ---- the handle (ops.c)

typedef kiln_status MakeKernel(kiln_ops *ops, const char *file, const char *name, const char *bindings,
                               kiln_kernel **kernel);

struct kiln_ops {
    kiln_device *device; // a use of it is held
    MakeKernel *make;    // builds a kernel (ops_build.c), or takes it from the archive
    const kiln_archive *archive;
    kiln_build_options options;
    char *isa;                   // the text that options.isa is
    pthread_mutex_t lock;        // of both lists
    char turn[32];               // its name: taken while something is built, so that it is built once
    struct OpsProgram *programs; // by file; only what builds has them
    void (*free_programs)(kiln_ops *ops);
    struct OpsKernel *kernels; // by file, name and bindings
    Known known;               // calls that run again, kernels by what their bindings are made from
};

// The text of "mla/decode.tile" in the library; NULL: there is none (kernel_texts.c, made by embed.sh).
const char *kernel_text(const char *path);

kiln_ops *ops_new(kiln_device *device, MakeKernel *make); // NULL: out of memory
// What looks for wrong values is built to trap in every handle.
bool ops_is_checked(const char *file);
// The kernel of a file of the library with these bindings, built on the first call.
kiln_status ops_kernel(kiln_ops *ops, const char *file, const char *name, const char *bindings, kiln_kernel **kernel);
int ops_kernel_count(kiln_ops *ops);     // built so far
int ops_processors(const kiln_ops *ops); // SMs, or threads on the CPU
bool ops_on_hopper(const kiln_ops *ops); // kernels are built for ARCH 90
bool ops_on_cpu(const kiln_ops *ops);
// Whether lengths, pages and offsets are looked at before they are used: on the CPU, where that costs next to nothing, and
// with checks. The kernels that do are those of inputs.tile.
bool ops_look_at_values(const kiln_ops *ops);

// ---- arguments (call.c, call_table.c)

enum {
    OPS_BINDINGS_BYTES = 512,
    CALL_SYMBOLS = 16,
    CALL_TENSORS = 26,
    CALL_ARGS = 48,
    CALL_OWN = 8,
    TYPES_16 = 1 << KILN_BF16 | 1 << KILN_F16,
    TYPES_FLOAT = TYPES_16 | 1 << KILN_F32,
    TYPES_BYTES = 1 << KILN_U8 | 1 << KILN_I8 | 1 << KILN_E4M3, // of the 656-byte format
};

// What one tensor must be.
typedef enum {
    IN,
    IN_OPTIONAL,
    IN_ANYWHERE, // on a GPU its rows, which are contiguous, may begin at any elements: they are copied first
    IN_ANYWHERE_OPTIONAL,
    OUT,
    OUT_OPTIONAL
} Role;
typedef struct Want {
    Role role;
    const char *name; // of the field
    const kiln_tensor *tensor;
    unsigned types;    // 1 << type, or several; 0: the type of the first tensor of the table
    const char *shape; // "[batch][queries][576]": numbers are demanded, names bind or must agree; "[batch + 1]".
                       // "Q[B][S][D]", with the kernel's name of it: rows may lie apart; of i32, where nothing else is
                       // taken, by any strides, and its data is aligned as its elements
} Want;

typedef struct CallSymbol {
    const char *name;
    int length;
    uint64_t word; // its first eight characters
    int64_t value;
    const char *from;
} CallSymbol;

// What is found out of the tensors.
typedef struct CallTable {
    struct {
        const char *strided; // the shape in the table of one whose rows do lie apart; else NULL
        bool is_unaligned;   // strided, but not by multiples of 16 bytes
    } tensors[CALL_TENSORS];
    int n_symbols;
    CallSymbol symbols[CALL_SYMBOLS];
} CallTable;

// It is not cleared: call_begin sets what is read before it is written.
typedef struct Call {
    kiln_ops *ops;
    const char *name;  // of the public function
    bool sizing;       // that is so: tensors need no data
    const void *given; // arguments, of this form
    const Form *form;
    bool is_new;     // it did not run again, and is kept when it has run
    size_t *bytes;   // of a size function
    int64_t longest; // most rows of a sequence that offsets bound: INT32_MAX, unless its operator says less
    CallTable table;
    int n_tensors;
    const kiln_tensor *tensors[CALL_TENSORS]; // in the table's order; NULL: absent
    kiln_tensor copies[CALL_TENSORS];         // of those that kernels take otherwise than they are
    struct {
        kiln_tensor tensor;
        int removed;   // a dimension of 1 that the caller's has before this one; -1: none
        bool is_batch; // its first dimension, of 1, is none of the caller's
    } own[CALL_OWN];   // of call_keep
    int n_own;
    kiln_kernel *kernel;
    kiln_arg args[CALL_ARGS];
    int n_args;         // of its launch
    Recording *record;  // of its launches, as soon as its tensors are checked; NULL: none is made
    Recording recorded; // that
} Call;

// Handle and arguments are there, a struct of this form whose first field, struct_size, says its size; NULL: one of fixed size.
kiln_status call_begin(Call *call, const char *name, kiln_ops *ops, const void *args, const Form *form);
// The same for a size function, which gives 0 bytes where it fails. Its messages name the call that the arguments are for.
kiln_status call_begin_sizing(Call *call, const char *name, kiln_ops *ops, const void *args, const Form *form,
                              size_t *bytes);
// A call that has begun and agrees with an earlier one in all but addresses runs again, or gives the size again: true, it is done,
// as one that has failed is. Otherwise it is kept by call_run, call_done, call_size or call_sized. Its launches follow from
// its arguments alone, and it leaves nothing else behind.
bool call_again(Call *call, kiln_stream *stream, kiln_status *status);
void call_done(const Call *call); // its last launch was queued by call_launch
// The first eight characters of a name: of one that is written out a constant, which is looked for without its text.
static inline uint64_t name_word(const char *name, int length)
{
    uint64_t word = 0;
    memcpy(&word, name, length < (int)sizeof word ? (size_t)length : sizeof word);
    return word;
}

// -1: nothing has bound it.
static inline int find_symbol(const Call *call, const char *name, int length, uint64_t word)
{
    const CallTable *const table = &call->table;
    for (int i = 0; i < table->n_symbols; i++) {
        const CallSymbol *const x = &table->symbols[i];
        if (x->word == word && x->length == length &&
            (length <= (int)sizeof word || memcmp(x->name, name, (size_t)length) == 0))
            return i;
    }
    return -1;
}

static inline void add_symbol(Call *call, const char *name, int length, int64_t value, const char *from)
{
    assert(call->table.n_symbols < CALL_SYMBOLS && "a table has few names");
    call->table.symbols[call->table.n_symbols++] = (CallSymbol){ name, length, name_word(name, length), value, from };
}

// A name of shapes that is known before any tensor; `from`: the argument that says so.
static inline void call_bind(Call *call, const char *name, int64_t value, const char *from)
{
    add_symbol(call, name, (int)strlen(name), value, from);
}

// `memory`: scratch of the caller's, called `memory_name`; NULL where the call takes none.
kiln_status call_check(Call *call, const Want *wants, int n, const char *memory_name, const void *memory, size_t bytes);
// A tensor that is derived from one of the caller's, as long as the call.
const kiln_tensor *call_keep(Call *call, const kiln_tensor *tensor);
// `tensor` without its dimension before the last, if that is 1 and it has one more than `rank`. Messages number the
// dimensions as the caller does.
const kiln_tensor *call_without_key_head(Call *call, const kiln_tensor *tensor, int rank);
// `tensor` with a first dimension of 1, if it has one less than `rank`. Messages number the dimensions as the caller does.
const kiln_tensor *call_with_batch(Call *call, const kiln_tensor *tensor, int rank);
// A matrix whose columns, not its rows, are contiguous.
bool call_has_columns(const kiln_tensor *tensor);
// The transpose of such a matrix; any other as it is.
const kiln_tensor *call_by_columns(Call *call, const kiln_tensor *tensor);
void call_take_bytes(Call *call, int i); // tensor i is one of KILN_U8 to kernels, whatever it was called

// Tensor i as an argument of a kernel; an absent one is none.
static inline kiln_arg call_tensor(const Call *call, int i)
{
    return call->tensors[i] ? KILN_TENSOR(call->tensors[i]) : KILN_NONE;
}

// Of a name that call_check has bound.
static inline int64_t call_extent(const Call *call, const char *name)
{
    const int length = (int)strlen(name), i = find_symbol(call, name, length, name_word(name, length));
    assert(i >= 0 && "a name of the table");
    return call->table.symbols[i].value;
}

// Rows, or columns, of a tile on the CPU, of which as few as can be are beyond an extent: `least` to `most`, a power of two.
int call_tile_on_cpu(int64_t extent, int least, int most);

const char *call_source(const Call *call, const char *name); // the tensor that has bound it

kiln_status call_activation(const Call *call, int activation); // that it is one of kiln_activation
// NULL stands for `otherwise`.
kiln_status call_scale(const Call *call, const double *given, double otherwise, double *scale);
kiln_status call_named(const Call *call, kiln_status status); // puts the call's name before the message of a failure
kiln_status call_fail(const Call *call, kiln_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// An extent rounded up to a multiple; of any that a tensor may say it has, before it is looked at: no number of bits overflows.
static inline int64_t rounded_up(int64_t extent, int64_t multiple)
{
    const int64_t most = INT64_C(1) << 55, known = extent < 0 ? 0 : extent > most ? most : extent;
    return (known + multiple - 1) / multiple * multiple;
}

// As bindings have it.
static inline const char *yes(bool b) { return b ? "true" : "false"; }

// Without the name of a parameter that the call has no tensor for, a kernel is built for one. Its place in a format is "%s";
// "%-s" where the tensor is one of the table, which tells kernels apart without the text.
#define LACKS(tensor, name) (tensor) ? "" : ", " name "=none"

// The kernel of the call, bound to the strides of its tensors, which are its arguments, in the table's order; what follows
// them call_add adds. Messages of failures get the call's name in front.
kiln_status call_kernel(Call *call, const char *file, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static inline void call_add(Call *call, kiln_arg arg)
{
    assert(call->n_args < CALL_ARGS && "as many as fit");
    call->args[call->n_args++] = arg;
}
kiln_status call_size(Call *call, size_t *bytes);
// The end of a size function whose bytes are not its kernel's.
kiln_status call_sized(const Call *call, size_t bytes);
// That the workspace is large enough, where something else is launched before the kernel that would say so.
kiln_status call_room(Call *call, size_t workspace_bytes);
kiln_status call_run(const Call *call, kiln_stream *stream, void *workspace, size_t workspace_bytes);

// Beside it: a kernel that takes some of the tensors.
kiln_status call_other_kernel(const Call *call, const char *file, const char *name, kiln_kernel **kernel,
                              const char *format, ...) __attribute__((format(printf, 5, 6)));
// One that takes contiguous tensors.
kiln_status call_plain_kernel(const Call *call, const char *file, const char *name, kiln_kernel **kernel,
                              const char *format, ...) __attribute__((format(printf, 5, 6)));
// One that takes tensors of the table by names of its own; an absent tensor is bound to none.
typedef struct Taken {
    int tensor;
    const char *parameter;
} Taken;
kiln_status call_taking_kernel(const Call *call, const char *file, const char *name, const Taken *taken, int n,
                               kiln_kernel **kernel, const char *format, ...) __attribute__((format(printf, 7, 8)));
kiln_status call_launch(const Call *call, kiln_stream *stream, kiln_kernel *kernel, const kiln_arg *args, int n);
// Offsets of sequences, tensor i of the table, stay inside `rows`, and no sequence is longer than `longest`: looked at where
// values are. While the workspace's size is wanted, the kernel that looks is built, and the call finds it.
kiln_status call_check_offsets(const Call *call, kiln_stream *stream, int i, int64_t rows, int64_t longest);

// ---- operators whose kernel takes the workspace

// The two functions of one: of the call, and of the size.
typedef struct CallPair {
    const char *name, *size_name;                         // of the functions
    kiln_status (*prepare)(Call *call, const void *args); // holds the arguments to what they must be, finds the kernel
    const char *rows; // what its table calls the rows of packed sequences; NULL: it takes none
    int offsets;      // tensor of the table that bounds these; where it is absent, they are of equal lengths
    // Launches what looks at values in device memory, where they are looked at; of a size, finds it, so that the call finds it
    // built. NULL: nothing else does.
    kiln_status (*look)(Call *call, kiln_stream *stream, const void *args);
} CallPair;

kiln_status pair_size(const CallPair *pair, kiln_ops *ops, const void *args, const Form *form, size_t *bytes);
kiln_status pair_run(const CallPair *pair, kiln_ops *ops, kiln_stream *stream, const void *args, const Form *form);

// ---- plans

// A mark of what a caller keeps of a plan, `bytes` of whole words, of which the first has room for it.
uint64_t plan_mark(const void *plan, size_t bytes);
static inline size_t plan_room(int64_t words)
{
    return ((size_t)words * 4 + 255) & ~(size_t)255;
} // bytes of i32, aligned

// Of latent decoding (mla.c):

int mla_request_cost(const kiln_mla_shape *shape); // of a request beside its blocks, in blocks; for `kiln bench`, too
int mla_whole_slack(const kiln_mla_shape *shape);  // of partitions of whole requests, in blocks; for `kiln bench`, too

#endif
