/* SPDX-License-Identifier: MIT */
/* nsa.h - native sparse attention: each token attends to blocks of keys that it selected, to keys and values pooled by blocks,
 * and to the tokens before it, and adds what that gives with a gate for each. Whole, in its parts, backward, and decoding.
 *
 *     out = g_compressed * compressed + g_selected * selected + g_window * window
 *
 * Letters: T tokens of all sequences, N sequences, H query heads, HKV key heads (H is a multiple of HKV, at most 64 times as
 * many: query head h reads key head h / (H / HKV)), D size of queries and keys, DV of values; D and DV are multiples of 16 up to
 * 256. BS tokens of a block, 16, 32, 64 or 128; S blocks that a token and key head has room for, 1 to 256. Types: T is bf16 or
 * f16, the same for all tensors of a call that have it; products are of T with sums in f32.
 *
 * Sequences: with `offsets` sequence n is tokens offsets[n] to offsets[n + 1] - 1, none or more, and none has more than
 * `max_tokens`, which 0 leaves at T. Without, there are `sequences` of T / sequences tokens each; 0: one. Block b of a sequence
 * is its tokens b * BS to b * BS + BS - 1, the last one may have fewer; a sequence has at most 8192 blocks.
 *
 * All is causal. compressed: token t sees the pooled keys and values of blocks that end with it or before. selected: the tokens up
 * to itself of the blocks in its list. window: the last `window` tokens, itself among them. A row that sees nothing is 0, and its
 * lse -infinity. lse is the natural logarithm of the sum of exp(scale * <q, k>).
 *
 * Lists: block_indices[t][h] holds blocks of the token's sequence, one list for all query heads of key head h, in any order, none
 * twice. A number below 0, or of a block that begins after the token, is none, and so is what stands at place
 * block_counts[t][h] or after it. Any numbers may stand there: nothing outside a sequence is read.
 *
 * kiln/ops/ops.h has what holds for all calls (memory, streams, errors, threads, first call). Queries, keys, values, outputs and
 * their gradients may have rows that lie apart; all others are contiguous. Offsets are checked as ops.h says of values in device
 * memory. Results are the same in every run, but for `fused` backward. The kernels are in kernels/nsa.
 */
#ifndef KILN_OPS_NSA_H
#define KILN_OPS_NSA_H

#include "kiln/ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the whole, forward. A gate that is left out leaves its branch out; g_selected must be there */

typedef struct kiln_nsa_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   bf16 or f16 [T][H][D] */
    const kiln_tensor *k;            /* in   as q [T][HKV][D] */
    const kiln_tensor *v;            /* in   as q [T][HKV][DV] */
    const kiln_tensor *g_compressed; /* in   f32 or as q [T][H]: a factor as it is; NULL: no such branch */
    const kiln_tensor *g_selected;   /* in   f32 or as q [T][H] */
    const kiln_tensor *g_window;     /* in   as g_selected [T][H]; NULL: no such branch */
    const kiln_tensor *block_indices; /* in  i32 [T][HKV][S]; NULL: chosen, as kiln_nsa_choose does */
    const kiln_tensor *block_counts; /* in   i32 [T][HKV]; NULL: S */
    const kiln_tensor *pool_k;       /* in   f32 [HKV][BS]: weights of a block's keys; NULL: their mean */
    const kiln_tensor *pool_v;       /* in   f32 [HKV][BS]: the same of its values */
    const kiln_tensor *offsets;      /* in   i32 [N + 1], from 0 to T, not decreasing; NULL: equal lengths */
    int64_t sequences;               /* without offsets: their number; 0: one */
    int64_t max_tokens;              /* with offsets: of the longest sequence, or more; 0: T */
    const kiln_tensor *out;          /* out  as q [T][H][DV] */
    int64_t block_size;              /* BS; 0: 64 */
    int64_t blocks;                  /* S, without block_indices; 0: 16 */
    int64_t initial_blocks;          /* as in kiln_nsa_choose_args; without block_indices */
    int64_t local_blocks;            /* as in kiln_nsa_choose_args; without block_indices */
    int64_t window;                  /* with g_window; 0: 512 */
    const double *scale;             /* > 0; NULL: 1/sqrt(D) */
    void   *workspace;               /* kiln_nsa_forward_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_nsa_args;

KILN_API kiln_status kiln_nsa_forward_workspace_size(kiln_ops *ops, const kiln_nsa_args *args, size_t *bytes);
KILN_API kiln_status kiln_nsa_forward(kiln_ops *ops, kiln_stream *stream, const kiln_nsa_args *args);

/* ---- the compressed branch, and the blocks that it finds most important
 *
 * A block's importance to a token and key head is the sum over the query heads that share it of the weight that compressed
 * attention gives it, if it ends before the token's own block begins. The token's own block and local_blocks - 1 before it are
 * chosen in any case, so are the sequence's first initial_blocks; then the most important ones, of equals the lower. The list has
 * the first kind ascending, then the others by falling importance, then -1 where there are fewer blocks than S. */
typedef struct kiln_nsa_choose_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   bf16 or f16 [T][H][D] */
    const kiln_tensor *k;            /* in   as q [T][HKV][D] */
    const kiln_tensor *v;            /* in   as q [T][HKV][DV] */
    const kiln_tensor *pool_k;       /* in   f32 [HKV][BS]: weights of a block's keys; NULL: their mean */
    const kiln_tensor *pool_v;       /* in   f32 [HKV][BS]: the same of its values */
    const kiln_tensor *offsets;      /* in   i32 [N + 1]; NULL: equal lengths */
    int64_t sequences;               /* without offsets; 0: one */
    int64_t max_tokens;              /* with offsets; 0: T */
    const kiln_tensor *out;          /* out  as q [T][H][DV]: the compressed branch */
    const kiln_tensor *lse;          /* out  f32 [T][H]; NULL: not wanted */
    const kiln_tensor *block_indices; /* out i32 [T][HKV][S] */
    int64_t block_size;              /* BS; 0: 64 */
    int64_t initial_blocks;          /* 0 or more */
    int64_t local_blocks;            /* 0: 1. With initial_blocks at most S */
    const double *scale;             /* > 0; NULL: 1/sqrt(D) */
    void   *workspace;               /* kiln_nsa_choose_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_nsa_choose_args;

KILN_API kiln_status kiln_nsa_choose_workspace_size(kiln_ops *ops, const kiln_nsa_choose_args *args, size_t *bytes);
KILN_API kiln_status kiln_nsa_choose(kiln_ops *ops, kiln_stream *stream, const kiln_nsa_choose_args *args);

/* Gradients of the compressed branch, those of keys and values through the pooling. The choice of blocks has none. */
typedef struct kiln_nsa_compressed_backward_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   bf16 or f16 [T][H][D] */
    const kiln_tensor *k;            /* in   as q [T][HKV][D] */
    const kiln_tensor *v;            /* in   as q [T][HKV][DV] */
    const kiln_tensor *out;          /* in   as q [T][H][DV]: of kiln_nsa_choose */
    const kiln_tensor *lse;          /* in   f32 [T][H]: of kiln_nsa_choose */
    const kiln_tensor *dout;         /* in   as q [T][H][DV]: the gradient of out, before any gate */
    const kiln_tensor *pool_k;       /* in   f32 [HKV][BS]; NULL: the mean */
    const kiln_tensor *pool_v;       /* in   f32 [HKV][BS]; NULL: the mean */
    const kiln_tensor *offsets;      /* in   i32 [N + 1]; NULL: equal lengths */
    int64_t sequences;               /* without offsets; 0: one */
    int64_t max_tokens;              /* with offsets; 0: T */
    const kiln_tensor *dq;           /* out  as q [T][H][D] */
    const kiln_tensor *dk;           /* out  as q [T][HKV][D] */
    const kiln_tensor *dv;           /* out  as q [T][HKV][DV] */
    const kiln_tensor *dpool_k;      /* out  f32 [HKV][BS]; NULL: not wanted */
    const kiln_tensor *dpool_v;      /* out  f32 [HKV][BS]; NULL: not wanted */
    int64_t block_size;              /* BS; 0: 64 */
    const double *scale;             /* > 0; NULL: 1/sqrt(D) */
    void   *workspace;               /* kiln_nsa_compressed_backward_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_nsa_compressed_backward_args;

KILN_API kiln_status kiln_nsa_compressed_backward_workspace_size(kiln_ops *ops, const kiln_nsa_compressed_backward_args *args,
                                                                 size_t *bytes);
KILN_API kiln_status kiln_nsa_compressed_backward(kiln_ops *ops, kiln_stream *stream,
                                                  const kiln_nsa_compressed_backward_args *args);

/* ---- the selected branch, and its gradients */

typedef struct kiln_nsa_selected_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   bf16 or f16 [T][H][D] */
    const kiln_tensor *k;            /* in   as q [T][HKV][D] */
    const kiln_tensor *v;            /* in   as q [T][HKV][DV] */
    const kiln_tensor *block_indices; /* in  i32 [T][HKV][S] */
    const kiln_tensor *block_counts; /* in   i32 [T][HKV]; NULL: S */
    const kiln_tensor *offsets;      /* in   i32 [N + 1]; NULL: equal lengths */
    int64_t sequences;               /* without offsets; 0: one */
    int64_t max_tokens;              /* with offsets; 0: T */
    const kiln_tensor *out;          /* out  as q [T][H][DV] */
    const kiln_tensor *lse;          /* out  f32 [T][H], which the backward call needs; NULL: not wanted */
    int64_t block_size;              /* BS; 0: 64 */
    const double *scale;             /* > 0; NULL: 1/sqrt(D) */
    void   *workspace;               /* kiln_nsa_selected_forward_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_nsa_selected_args;

KILN_API kiln_status kiln_nsa_selected_forward_workspace_size(kiln_ops *ops, const kiln_nsa_selected_args *args, size_t *bytes);
KILN_API kiln_status kiln_nsa_selected_forward(kiln_ops *ops, kiln_stream *stream, const kiln_nsa_selected_args *args);

/* dk and dv come from a pass over blocks of keys, with lists of the tokens that selected each. dq comes from a pass over tokens, or,
 * `fused`, out of the same pass over blocks by atomics in f32, in an order that differs from run to run; where D or DV is more than
 * 128 only if H / HKV is a power of 2. The workspace has a bit for each token of the longest sequence and each block; on a GPU with
 * sums of parts of long lists also T * S / 1024 * HKV * BS * (D + DV) f32. T * S is at most 2^31 - 648. */
typedef struct kiln_nsa_selected_backward_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   bf16 or f16 [T][H][D] */
    const kiln_tensor *k;            /* in   as q [T][HKV][D] */
    const kiln_tensor *v;            /* in   as q [T][HKV][DV] */
    const kiln_tensor *out;          /* in   as q [T][H][DV]: of the forward call */
    const kiln_tensor *lse;          /* in   f32 [T][H]: of the forward call */
    const kiln_tensor *dout;         /* in   as q [T][H][DV]: the gradient of out, before any gate */
    const kiln_tensor *block_indices; /* in  i32 [T][HKV][S] */
    const kiln_tensor *block_counts; /* in   i32 [T][HKV]; NULL: S */
    const kiln_tensor *offsets;      /* in   i32 [N + 1]; NULL: equal lengths */
    int64_t sequences;               /* without offsets; 0: one */
    int64_t max_tokens;              /* with offsets; 0: T */
    const kiln_tensor *dq;           /* out  as q [T][H][D] */
    const kiln_tensor *dk;           /* out  as q [T][HKV][D] */
    const kiln_tensor *dv;           /* out  as q [T][HKV][DV] */
    int64_t block_size;              /* BS; 0: 64 */
    bool    fused;
    const double *scale;             /* > 0; NULL: 1/sqrt(D) */
    void   *workspace;               /* kiln_nsa_selected_backward_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_nsa_selected_backward_args;

KILN_API kiln_status kiln_nsa_selected_backward_workspace_size(kiln_ops *ops, const kiln_nsa_selected_backward_args *args,
                                                               size_t *bytes);
KILN_API kiln_status kiln_nsa_selected_backward(kiln_ops *ops, kiln_stream *stream,
                                                const kiln_nsa_selected_backward_args *args);

/* ---- the gated sum, and its gradients. A branch that is left out is left out of both */

typedef struct kiln_nsa_combine_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *compressed;   /* in   as selected [T][H][DV]; NULL: none */
    const kiln_tensor *selected;     /* in   bf16 or f16 [T][H][DV] */
    const kiln_tensor *window;       /* in   as selected [T][H][DV]; NULL: none */
    const kiln_tensor *g_compressed; /* in   as g_selected [T][H], with compressed */
    const kiln_tensor *g_selected;   /* in   f32 or as selected [T][H] */
    const kiln_tensor *g_window;     /* in   as g_selected [T][H], with window */
    const kiln_tensor *out;          /* out  as selected [T][H][DV] */
} kiln_nsa_combine_args;

KILN_API kiln_status kiln_nsa_combine(kiln_ops *ops, kiln_stream *stream, const kiln_nsa_combine_args *args);

typedef struct kiln_nsa_combine_backward_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *dout;         /* in   bf16 or f16 [T][H][DV] */
    const kiln_tensor *compressed;   /* in   as dout [T][H][DV]; NULL: none */
    const kiln_tensor *selected;     /* in   as dout [T][H][DV] */
    const kiln_tensor *window;       /* in   as dout [T][H][DV]; NULL: none */
    const kiln_tensor *g_compressed; /* in   as g_selected [T][H], with compressed */
    const kiln_tensor *g_selected;   /* in   f32 or as dout [T][H] */
    const kiln_tensor *g_window;     /* in   as g_selected [T][H], with window */
    const kiln_tensor *dcompressed;  /* out  as dout [T][H][DV], with compressed: what the branch's backward calls take */
    const kiln_tensor *dselected;    /* out  as dout [T][H][DV] */
    const kiln_tensor *dwindow;      /* out  as dout [T][H][DV], with window */
    const kiln_tensor *dg_compressed; /* out as g_selected [T][H], with compressed */
    const kiln_tensor *dg_selected;  /* out  as g_selected [T][H] */
    const kiln_tensor *dg_window;    /* out  as g_selected [T][H], with window */
} kiln_nsa_combine_backward_args;

KILN_API kiln_status kiln_nsa_combine_backward(kiln_ops *ops, kiln_stream *stream,
                                               const kiln_nsa_combine_backward_args *args);

/* ---- decoding: one token of each request against the blocks of its cache that it selected
 *
 * Letters: B requests, M tokens that a cache has room for. A list's block is used if it begins before the request's length. */
typedef struct kiln_nsa_decode_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   bf16 or f16 [B][H][D] */
    const kiln_tensor *k;            /* in   as q [B][M][HKV][D] */
    const kiln_tensor *v;            /* in   as q [B][M][HKV][DV] */
    const kiln_tensor *block_indices; /* in  i32 [B][HKV][S] */
    const kiln_tensor *block_counts; /* in   i32 [B][HKV]; NULL: S */
    const kiln_tensor *lengths;      /* in   i32 [B]: tokens in each cache, the new one among them; NULL: M. More count as M */
    const kiln_tensor *out;          /* out  as q [B][H][DV] */
    const kiln_tensor *lse;          /* out  f32 [B][H]; NULL: not wanted */
    int64_t block_size;              /* BS; 0: 64 */
    int64_t splits;                  /* shares of a list, 1 to S; 0: as many as fill the device. Results depend on it, as rounding does */
    const double *scale;             /* > 0; NULL: 1/sqrt(D) */
    void   *workspace;               /* kiln_nsa_decode_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_nsa_decode_args;

KILN_API kiln_status kiln_nsa_decode_workspace_size(kiln_ops *ops, const kiln_nsa_decode_args *args, size_t *bytes);
KILN_API kiln_status kiln_nsa_decode(kiln_ops *ops, kiln_stream *stream, const kiln_nsa_decode_args *args);

/* The pooled blocks of caches, from which a step chooses. Row c of a pooled cache is block c, once all of its BS tokens are there;
 * R rows. Other rows are left as they are. */
typedef struct kiln_nsa_decode_pool_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *x;            /* in    bf16 or f16 [B][M][HKV][D]: keys, or values */
    const kiln_tensor *weights;      /* in    f32 [HKV][BS]: of a block's tokens; NULL: their mean */
    const kiln_tensor *lengths;      /* in    i32 [B]: tokens in each cache */
    const kiln_tensor *pooled;       /* inout as x [B][R][HKV][D] */
    int64_t block_size;              /* BS; 0: 64 */
    bool    all;                     /* every block that is full, as after a prompt; else the last, if the newest token filled it */
} kiln_nsa_decode_pool_args;

KILN_API kiln_status kiln_nsa_decode_pool(kiln_ops *ops, kiln_stream *stream, const kiln_nsa_decode_pool_args *args);

/* kiln_nsa_choose for one token of each request, the last of its cache: the compressed branch, and its list of blocks. R is at least
 * the full blocks of the longest cache. */
typedef struct kiln_nsa_decode_choose_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   bf16 or f16 [B][H][D] */
    const kiln_tensor *k_pooled;     /* in   as q [B][R][HKV][D], at most 8191 rows */
    const kiln_tensor *v_pooled;     /* in   as q [B][R][HKV][DV] */
    const kiln_tensor *lengths;      /* in   i32 [B]: tokens in each cache, the new one among them */
    const kiln_tensor *out;          /* out  as q [B][H][DV]: the compressed branch */
    const kiln_tensor *lse;          /* out  f32 [B][H]; NULL: not wanted */
    const kiln_tensor *block_indices; /* out i32 [B][HKV][S] */
    int64_t block_size;              /* BS; 0: 64 */
    int64_t initial_blocks;          /* 0 or more */
    int64_t local_blocks;            /* 0: 1. With initial_blocks at most S */
    const double *scale;             /* > 0; NULL: 1/sqrt(D) */
} kiln_nsa_decode_choose_args;

KILN_API kiln_status kiln_nsa_decode_choose(kiln_ops *ops, kiln_stream *stream, const kiln_nsa_decode_choose_args *args);

#ifdef __cplusplus
}
#endif
#endif
