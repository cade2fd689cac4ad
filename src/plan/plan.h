// SPDX-License-Identifier: MIT
// plan.h - what a launch needs to know of a compiled kernel: parameters, how shapes bind symbols, what is checked,
// the grid, and how the machine's arguments are laid out. Made by the compiler, kept in the cache beside the
// code, emitted into ahead-of-time builds, interpreted by the launch code. It holds no pointers into the compiler.
//
// Expressions over symbols and scalar arguments are kept as postfix programs of 64-bit words (PlanCode), so that
// they can be stored and evaluated by a few lines.
#ifndef KILN_PLAN_PLAN_H
#define KILN_PLAN_PLAN_H

#include "ir/tile.h"

enum {
    PLAN_MAX_PARAMS = 64,
    PLAN_MAX_BINDS = 64,
    PLAN_MAX_GRID = 64,
    PLAN_MAX_EXTRAS = 64,
    PLAN_MAX_WORDS = 256, // of arguments, so that a launch on a GPU has room for tensor maps
    PLAN_MAX_MAPS = 31,
    PLAN_MAP_COMPUTED = 21,                                                  // at most, of a map
    PLAN_MAX_COMPUTED = PLAN_MAX_MAPS * PLAN_MAP_COMPUTED + PLAN_MAX_EXTRAS, // of a launch, beside its words
    PLAN_ARGUMENT_BYTES = 4096,                                              // that a launch on a GPU carries
};

// A postfix program: `length` words starting at `start` of LaunchPlan.code. Result in int64 (or double for floats).
typedef struct PlanCode {
    int start, length;
} PlanCode;

typedef struct PlanParam {
    const char *name;
    bool is_tensor, optional, absent, strided;
    bool spaced; // bound to `strided`: contiguous rows, whose strides are symbols
    DType type;
    Access access;
    int rank;
    PlanCode shape[MAX_RANK]; // of tensors: each extent over symbols, after binding
} PlanParam;

typedef struct PlanBind {
    const char *symbol;
    int param, dim;
    int64_t subtract;
    bool is_stride;
} PlanBind; // word: its order
typedef struct PlanCheck {
    int param, dim;
    PlanCode expected;
    const char *text;
} PlanCheck; // text: "SQ * G"
typedef struct PlanRequire {
    PlanCode cond;
    const char *message;
} PlanRequire;

// Words handed to the kernel, 8 bytes each, in this order:
//   for every parameter that is not absent: a tensor's data pointer, then, if it is strided, its `rank` strides in
//   elements; a scalar's value (in its own type, in the low bytes; `int` as int64, f32 as float);
//   then the value of every bind's symbol as int64; then the extent of every grid dimension as int64.
// CPU:  void entry(const void *words, int64_t first, int64_t last, void *scratch)
//       runs the instances first .. last-1 in the order of the flattened grid (first dimension fastest).
// CUDA: one struct parameter with these words, then the tensor maps (128 bytes each, aligned to 64), then `extra`, then,
//       if it may trap, the address of the device's FaultRecord, then, if it is traced, that of the kernel's trace.
// A dimension that is walked (im2col): from its first position to the last, which is relative to the tensor's last.
typedef struct PlanWalk {
    PlanCode first, last;
} PlanWalk;

typedef struct PlanMap { // a TMA tensor map made at launch
    int param;           // the tensor
    int rank;            // 1 to 5, the first dimension is the fastest (contiguous)
    DType type;
    PlanCode dim[5];
    PlanCode stride[5]; // in elements; stride[0] is 1 and unused
    int box[5];
    int swizzle; // 0, 32, 64, 128 bytes
    bool has_steps;
    PlanCode step[5]; // from one element of a box to the next; of the first dimension 1
    int n_walked;     // im2col: the dimensions between the fastest and the slowest; `box` is columns and rows. 0: boxes
    PlanWalk walked[3];
} PlanMap;

// What stopped a kernel, where the host can read it when the device answers no more. One thread writes it.
typedef struct FaultRecord {
    uint32_t taken, done, block;
    char text[244];
} FaultRecord;

typedef struct PlanExtra {
    PlanCode value;
} PlanExtra; // a further word computed at launch

#define WIDE_SYMBOL_MAX (INT64_C(1) << 40)

typedef struct LaunchPlan {
    const char *name, *key, *target, *symbol; // symbol: of the entry in the compiled code
    PlanParam *params;
    int n_params;
    PlanBind *binds;
    int n_binds;
    PlanCheck *checks;
    int n_checks;
    PlanRequire *requires;
    int n_requires;
    PlanCode *grid;
    int n_grid;
    int64_t *code;
    int n_code;
    // CPU
    int64_t scratch_bytes; // per running thread, aligned to 64
    // CUDA
    int arch, threads, dynamic_shared_bytes, cluster[3], min_alignment;
    int64_t symbol_max; // of shape symbols; 0: anything
    uint64_t wide;      // those that may be larger, up to WIDE_SYMBOL_MAX: a bit for each bind
    PlanCode boxes;     // whether the launch's rows are boxes; length 0: the code takes any rows
    bool persistent;    // launched with one instance per SM slot (`blocks_per_sm`), looping over the grid
    int blocks_per_sm;
    bool follows; // waits itself for the launches before it, and so may be started before they have ended
    PlanMap *maps;
    int n_maps;
    PlanExtra *extras;
    int n_extras;
    bool traps;         // asserts, or is a --check build
    bool traces;        // records when it waits (trace.h)
    bool deterministic; // false if it uses floating-point atomics or the returned value of an atomic
} LaunchPlan;

// Fills all but the target's part. What cannot be computed at launch is reported to the kernel's diagnostics.
LaunchPlan *plan_new(Arena *arena, const TileKernel *kernel, const char *symbol);
PlanCode plan_add_code(Arena *arena, LaunchPlan *plan, const TileKernel *kernel, const Expr *expr);

int plan_words(const LaunchPlan *plan);    // of the arguments, as above
int plan_map_computed(const PlanMap *map); // words that a launch computes: extent and stride of each dimension, then
                                           // the steps of all, then first and last of those that are walked
int plan_most_maps(int words);             // that a launch carries beside so many

// symbols: one word per bind; scalars: one per parameter (of tensors unused). Integers as int64, floats as the bits of
// a double; the value likewise. Where there is none, it is 0; an arm that is not taken does not matter.
OpFault plan_eval(const LaunchPlan *plan, PlanCode code, const int64_t *symbols, const int64_t *scalars,
                  int64_t *value);

// Storing: a self-contained byte string (version, lengths, checksum), and back. NULL or false if damaged.
void plan_write(Text *out, const LaunchPlan *plan);
LaunchPlan *plan_read(Arena *arena, const char *bytes, size_t n);

#endif
