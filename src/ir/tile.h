// SPDX-License-Identifier: MIT
// tile.h - Tile IR: one specialised kernel as a tree of operations over whole tiles.
//
// It means what the source meant, in source order, with one thread of control; functions are inlined, build
// parameters are constants, conditions on them are gone, `unroll for` is unrolled. Loops, ifs and regions stay
// trees. Both targets lower it. Passes are functions TileKernel -> TileKernel (in place), verified in between.
#ifndef KILN_IR_TILE_H
#define KILN_IR_TILE_H

#include "ir/expr.h"
#include "base/diag.h"
#include "ir/note.h"

typedef struct TileOp TileOp;
typedef struct Layout Layout; // layout/layout.h; set by layout inference for CUDA

// ---- buffers: tensors, tiles and views

typedef enum {
    BUFFER_TENSOR, // an argument in global memory
    BUFFER_SHARED,
    BUFFER_FRAGMENT, // tiles of the instance
    BUFFER_LOCAL,    // private to one forall iteration
    BUFFER_VIEW,     // another name for a region of another buffer
} BufferKind;

typedef enum { ACCESS_IN = 1, ACCESS_OUT = 2, ACCESS_INOUT = 3 } Access;

// One subscript of a region. INDEX drops the dimension.
typedef struct Sub {
    bool is_range;
    Expr *start; // of a range, or the index
    Expr *width; // range only; in elements taken
    Expr *step;  // range only; NULL: 1
} Sub;

// A slice of a buffer: one Sub per dimension of the buffer. Its shape is the widths of its ranges, in order.
typedef struct Region {
    Buffer *buffer;
    Sub *subs; // buffer->rank of them
    Span span;
} Region;

#define TENSOR_STRIDE_MAX (INT64_C(1) << 36) // elements, where strides are symbols

typedef enum {
    HINT_NONE,
    HINT_SWIZZLE,
    HINT_PADDED,
    HINT_ROWS,
    HINT_COLUMNS,
    HINT_PARTIAL,
    HINT_TRANSPOSED
} LayoutHint;

struct Buffer {
    const char *name;
    int id; // unique within a kernel
    BufferKind kind;
    DType type;
    int rank;              // 0 only for scalars that had to become tiles
    Expr *shape[MAX_RANK]; // tiles: constants, except views; tensors: constants or symbols
    Span span;
    // tensors
    int param; // index into TileKernel.params; -1 otherwise
    Access access;
    bool strided, optional;
    bool unaligned;         // strided: data and rows begin at any element
    Expr *stride[MAX_RANK]; // bound to `strided`: symbols, the last 1; NULL: as the shape or `strided` says
    // views: element (i0, i1, ...) of the view is the same byte as the element of `base` with the same row-major
    // position within the region's shape (same shape: the same subscripts; merged or split: see view_dims).
    // What lies outside the view's own shape is outside, and what is outside the base stays outside too.
    // `type` may differ from the base's: then the region's last range is contiguous and is counted in bytes.
    Region base;
    // tiles
    LayoutHint hint;
    int hint_value;
    Span hint_span;
    bool cluster_shared;  // `cluster shared`: made once per cluster, demanded
    int buffers;          // ring depth, set by plan-pipelines; 0 and 1: one
    const Layout *layout; // set by infer-layouts (CUDA), else NULL
};

// ---- operations

typedef enum {
    T_TILE,        // a tile comes to life here (undefined), anew each time it is passed
    T_LET,         // declares a scalar variable, with a value or undefined (value NULL)
    T_SET,         // var = value
    T_STORE,       // buffer[subs] = value (inside forall, or one thread's store outside)
    T_UPDATE,      // buffer[subs] or var op= value: a reduction if `reduces`, else an update
    T_ATOMIC,      // atomic buffer[subs] op= value; no result
    T_ATOMIC_TILE, // atomic dst += src (region)
    T_FILL,        // dst region = value
    T_COPY,        // dst region = src region, with conversion; inside forall: gather, scatter
    T_MATMUL,      // dst (+)= a @ b
    T_SCAN,        // cumsum(dst, src, axis)
    T_FORALL,
    T_FOR,
    T_WHILE,
    T_PIPELINE,
    T_IF,
    T_BREAK,
    T_CONTINUE,
    T_RETURN,
    T_PRINT,
    T_ASSERT, // assert: with `assume`, a fact that only --check builds test
    T_EXTERN, // call of an extern function for its effect
} TileKind;

typedef enum {
    UPDATE_ADD,
    UPDATE_SUB,
    UPDATE_MUL,
    UPDATE_DIV,
    UPDATE_MOD,
    UPDATE_SHL,
    UPDATE_SHR,
    UPDATE_MIN,
    UPDATE_MAX,
    UPDATE_OR,
    UPDATE_AND,
    UPDATE_XOR
} UpdateOp;
ExprOp update_operator(UpdateOp op); // of all but min and max

// An operand of a product: a region of rank 2, maybe read transposed, maybe converted first.
typedef struct Operand {
    Region region;
    bool transposed;
    DType type; // after conversion; the region's own type if none
} Operand;

enum { LOOP_INDICES_MAX = 16 }; // of one forall or pipeline
typedef struct LoopIndex {
    Var *var;
    Expr *lo, *hi;
} LoopIndex; // hi exclusive; lo >= hi: empty

struct TileOp {
    TileKind kind;
    Span span;
    TileOp *next;    // the following op of the same block
    uint32_t groups; // `on`: bit g set = warp group g; 0: not placed
    int stage;       // directly in a pipeline's body: its stage label
    union {
        struct {
            Buffer *buffer;
        } tile;
        struct {
            Var *var;
            Expr *value;
        } let; // also SET
        struct {
            Buffer *buffer;
            Expr **subs;
            Expr *value;
        } store;
        struct {
            Buffer *buffer;
            Expr **subs;
            Var *var;
            UpdateOp op;
            Expr *value;
            bool reduces;
        } update; // buffer or var, not both
        struct {
            AtomicOp op;
            Buffer *buffer;
            Expr **subs;
            Expr *value;
        } atomic;
        struct {
            Region dst;
            Expr *value;
        } fill;
        struct {
            Region dst, src;
        } copy; // also ATOMIC_TILE
        struct {
            Region dst;
            Operand a, b;
            bool accumulate;
            int promote;   // promote: f32 adds every n*32 of k
            bool in_three; // tf32x3: of f32, as three products of tf32
            bool is_apart; // its result is a fragment that nothing but a copy of it uses
            Buffer *meta;
        } matmul; // meta: sparse24, else NULL
        struct {
            Region dst, src;
            int axis;
        } scan;
        struct {
            LoopIndex *indices;
            int n;
            TileOp *body;
        } forall;
        struct {
            LoopIndex *indices;
            int n;
            int stages;
            TileOp *body;
            int n_stage_labels;
        } pipeline; // nested loops, last fastest
        struct {
            Var *var;
            Expr *lo, *hi, *step;
            TileOp *body;
        } for_; // a counted loop; step != 0 const
        struct {
            Expr *cond;
            TileOp *body;
            TileOp *step;
        } while_; // also C's general for: step runs
                  // after the body and on continue
        struct {
            Expr *cond;
            TileOp *then, *otherwise;
        } branch;
        struct {
            const char *format;
            Expr **args;
            int n;
        } print;
        struct {
            Expr *cond;
            const char *message;
            bool assume;
        } assertion;
        struct {
            const char *name;
            Expr **args;
            int n;
        } external;
    };
};

// ---- kernels

typedef struct TileParam { // in source order; launch arguments follow it
    const char *name;
    Span span;
    bool is_tensor;
    Buffer *tensor; // of an absent optional too (then `absent`, and nothing uses it)
    bool absent;
    Var *scalar; // VAR_ARGUMENT
} TileParam;

// How a launch learns the symbols and what it checks, in this order.
typedef struct TileBind {
    Var *symbol;
    int param, dim;
    int64_t subtract;
    bool is_stride;
} TileBind; // dim(param) - subtract, or its stride
typedef struct TileShapeCheck {
    int param, dim;
    Expr *expected;
} TileShapeCheck; // over symbols and arguments
typedef struct TileRequire {
    Expr *cond;
    const char *message;
    Span span;
} TileRequire;

typedef struct TileGridDim {
    Var *var;
    Expr *extent;
    int cluster;
} TileGridDim; // cluster: 0 or 1 none

struct TileKernel {
    const char *name;   // in the source
    const char *key;    // name and build arguments, printable: gemm_nt<bf16,128,256,64,4>
    const char *target; // "cpu" or "cuda"
    Arena *arena;
    Diags *diags;
    bool checked;         // a --check build: traps wanted
    int64_t shared_bytes; // that an instance may have, of a GPU; 0: not known
    bool has_boxes;       // a GPU whose hardware copies boxes of tensors
    TileParam *params;
    int n_params;
    TileBind *binds;
    int n_binds;
    TileShapeCheck *checks;
    int n_checks;
    TileRequire *requires;
    int n_requires;
    TileGridDim *grid;
    int n_grid;    // first is fastest; none: one instance
    int warps;     // 0: not said
    int occupancy; // 0: not said
    int rasterize; // 0: not said
    bool persistent;
    bool early;         // it may be started before the launches before it have ended, for which it waits itself
    bool is_sequential; // a reference or other scalar code: f64, no tiles, one instance
    TileOp *body;
    int n_vars, n_buffers; // ids given so far
    NoteList notes;        // of passes and the lowering, and what the header accepts
};

// ---- building
Var *tile_new_var(TileKernel *k, VarKind kind, DType type, const char *name, Span span);
Buffer *tile_new_buffer(TileKernel *k, BufferKind kind, DType type, const char *name, int rank, Span span);
Region region_whole(Arena *a, Buffer *buffer, Span span);
int region_rank(const Region *r);               // ranges in it
Expr *region_extent(const Region *r, int axis); // width of its axis-th range
// The subscripts of its element at along[0], along[1] .. of its ranges.
void region_element(Arena *arena, const Region *r, Expr *const *along, Expr **subs);
bool region_is_whole(const Region *r); // provably all of the buffer

// A copy of a block with variables, tiles and views of its own where it declares them; nothing is shared that a pass
// may change in place.
TileOp *tile_copy_block(TileKernel *k, const TileOp *block);
TileOp *tile_copy_replacing(TileKernel *k, const TileOp *block, const Buffer *from, Buffer *to); // and `to` for `from`

// ---- asking
// What an op itself touches (not its body). One function, used by every pass that asks.
typedef struct TileUse {
    Buffer *buffer;
    const Region *region;
    Expr **subs;
    bool reads, writes, atomic;
} TileUse;
typedef void TileUseVisit(const TileUse *use, void *context);
void tile_uses(TileOp *op, TileUseVisit *visit, void *context); // also loads inside its expressions and views
typedef void TileExprVisit(Expr **slot, void *context);
void tile_each_expr(TileOp *op, TileExprVisit *visit,
                    void *context); // every expression of the op itself: values, bounds,
                                    // subscripts, regions; not those of views after them
void buffer_each_expr(Buffer *b, TileExprVisit *visit,
                      void *context);                      // a view's shape and base region, down to the root
TileOp **tile_bodies(TileOp *op, int index);               // the index-th nested block's head, or NULL
bool buffer_is_tile(const Buffer *b);                      // shared or a fragment, and no view of one
Buffer *buffer_root(Buffer *b);                            // through views to tile or tensor
bool tile_block_writes(TileOp *block, const Buffer *root); // anywhere below
bool tile_touches(TileOp *op, const Buffer *root);         // reads or writes it, itself or below
bool tile_only_reduces(const TileOp *block);               // into targets outside

void tile_print(Text *out, const TileKernel *kernel);
void tile_print_op(Text *out, const TileOp *op); // one op, with its bodies, for messages and tests
extern const char *const update_names[];         // "+", "-", ... "min", "|": what stands before the =
// Checks every invariant stated here; returns false and describes the first violation.
bool tile_verify(const TileKernel *kernel, Text *why);

#endif
