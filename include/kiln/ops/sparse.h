/* SPDX-License-Identifier: MIT */
/* sparse.h - attention to blocks of keys: which ones a mask or a list says, in prefill and in decoding; masks from scores;
 * vertical-slash attention, which finds its diagonals and columns itself.
 *
 *     s[i][j] = scale * <q[i], k[j]>,  out[i] = sum over visible j of softmax(s[i])[j] * v[j],
 *     lse[i]  = ln of the sum over visible j of exp(s[i][j])
 *
 * Letters: B batch, S query rows, SKV key rows, H query heads, HKV key heads (H is a multiple of HKV: query head h reads
 * key head h / (H / HKV)), HM heads of masks or lists (H is a multiple of HM, in the same way), D size of queries and keys, DV of
 * values; D and DV are multiples of 16 up to 256. Types: bf16, f16 or f32, the same for q, k, v and out.
 *
 * A block of queries has `query_block` rows, one of keys `key_block`: powers of two from 16 to 1024, 0 stands for 64. The last of
 * a sequence may be shorter. Causal masks are bottom-right: query i of S sees key j of SKV if j <= i + SKV - S, and its block of
 * queries takes j's block of keys. A row that sees no key has out 0 and lse -infinity. One that sees a score of NaN or +infinity
 * has NaN in out and lse; a key whose score is -infinity counts as masked.
 *
 * kiln/ops/ops.h has what holds for all calls (memory, streams, errors, threads, first call). The kernels are those of
 * kernels/sparse.
 */
#ifndef KILN_OPS_SPARSE_H
#define KILN_OPS_SPARSE_H

#include "kiln/ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- prefill: sequences of equal length, or a ragged batch packed without padding */

typedef struct kiln_block_sparse_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   [B][S][H][D]; with q_offsets [TQ][H][D]: sequence b is rows q_offsets[b] to
                                      *      q_offsets[b + 1] - 1 */
    const kiln_tensor *k;            /* in   [B][SKV][HKV][D]; with k_offsets [TK][HKV][D] */
    const kiln_tensor *v;            /* in   [B][SKV][HKV][DV]; with k_offsets [TK][HKV][DV] */
    const kiln_tensor *mask;         /* in   u8, i8 or bool [B][HM][query blocks][key blocks]: not 0 where the block of queries
                                      *      takes the block of keys; or NULL, and a list */
    const kiln_tensor *list;         /* in   i32 [B][HM][query blocks][places]: the numbers of the blocks that it takes, in any
                                      *      order; numbers that are no block (-1) count for nothing, and one twice counts once */
    const kiln_tensor *counts;       /* in   i32 [B][HM][query blocks]: how many of its first places count; NULL: all */
    const kiln_tensor *q_offsets;    /* in   i32 [B + 1], from 0 to TQ, not decreasing; NULL: not packed */
    const kiln_tensor *k_offsets;    /* in   i32 [B + 1], from 0 to TK, not decreasing; there if q_offsets is */
    int64_t max_queries;             /* packed: rows of the longest sequence of queries, or more; rows past it are not computed */
    int64_t max_keys;                /* packed: keys of the longest sequence of keys, or more; how large the workspace is depends
                                      * on it */
    const kiln_tensor *out;          /* out  as q, of DV columns */
    const kiln_tensor *lse;          /* out  f32 [B][H][S], packed [H][TQ]; NULL: not wanted */
    bool    causal;
    int64_t query_block, key_block;  /* rows of a block; 0: 64 */
    int64_t first_row;               /* of the mask or list, that the first block of queries reads. (SKV - S) / query_block where
                                      * it has a row for each block of keys */
    const double *scale;             /* > 0; NULL: 1/sqrt(D) */
    void   *workspace;               /* kiln_block_sparse_workspace_size bytes: i32 for each place of the blocks that may be taken */
    size_t  workspace_bytes;
} kiln_block_sparse_args;

KILN_API kiln_status kiln_block_sparse_workspace_size(kiln_ops *ops, const kiln_block_sparse_args *args, size_t *bytes);
KILN_API kiln_status kiln_block_sparse(kiln_ops *ops, kiln_stream *stream, const kiln_block_sparse_args *args);

/* ---- decoding: one query row for each request */

typedef struct kiln_block_sparse_decode_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   [B][H][D] */
    const kiln_tensor *k;            /* in   [B][S][HKV][D]; with a table [pages][page size][HKV][D] */
    const kiln_tensor *v;            /* in   [B][S][HKV][DV]; with a table [pages][page size][HKV][DV] */
    const kiln_tensor *table;        /* in   i32 [B][pages per request]: key t is in slot t % (page size) of page
                                      *      table[b][t / (page size)]; a page holds whole blocks. NULL: the cache is contiguous */
    const kiln_tensor *lengths;      /* in   i32 [B]: keys of each request, clamped to what the cache has room for */
    const kiln_tensor *mask;         /* in   u8, i8 or bool [B][HKV][key blocks]: not 0 where a block is taken; or NULL, and a list */
    const kiln_tensor *list;         /* in   i32 [B][HKV][places]: numbers of blocks, in any order, negative ones count for nothing,
                                      *      and none twice. Pages of blocks that are not taken are not read */
    const kiln_tensor *counts;       /* in   i32 [B][HKV]: how many of its first places count; NULL: all */
    const kiln_tensor *out;          /* out  [B][H][DV] */
    const kiln_tensor *lse;          /* out  f32 [B][H]; NULL: not wanted */
    int64_t key_block;               /* keys of a block, at most 256 here; 0: 64 */
    int64_t splits;                  /* into how many shares the blocks are split, 1 to 65536; 0: as many as fill the device */
    const double *scale;             /* > 0; NULL: 1/sqrt(D) */
    void   *workspace;               /* kiln_block_sparse_decode_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_block_sparse_decode_args;

KILN_API kiln_status kiln_block_sparse_decode_workspace_size(kiln_ops *ops, const kiln_block_sparse_decode_args *args,
                                                             size_t *bytes);
KILN_API kiln_status kiln_block_sparse_decode(kiln_ops *ops, kiln_stream *stream, const kiln_block_sparse_decode_args *args);

/* ---- masks from scores of blocks, such as those of a gate that was trained for it (SeerAttention) */

typedef struct kiln_block_mask_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *scores;       /* in   f32 [B][HM][query blocks][key blocks], at most 16384 blocks of keys */
    const kiln_tensor *mask;         /* out  u8 of the same shape: 1 where a block is taken, of those that the causal mask leaves */
    int64_t queries, keys;           /* S and SKV */
    bool    causal;
    int64_t query_block, key_block;  /* rows of a block; 0: 64 */
    int64_t top;                     /* the blocks of the largest scores, so many in a row; among equals the first. 0: by threshold */
    double  threshold;               /* with top = 0: the blocks with larger scores. A NaN is below all */
    int64_t whole_rows;              /* the last blocks of queries take all that they see, so many */
} kiln_block_mask_args;

KILN_API kiln_status kiln_block_mask(kiln_ops *ops, kiln_stream *stream, const kiln_block_mask_args *args);

/* ---- vertical-slash attention: causal, over some columns of keys and some diagonals (the pairs of a query and the key so many
 * before it), which are found from the last 64 queries. D = DV; bf16 or f16. A block of 64 queries takes the listed columns and,
 * in blocks of 64 keys, what the listed diagonals reach from it: every key up to the query's own once. List diagonal 0, or a
 * block of queries may see no key near itself */

typedef struct kiln_vertical_slash_estimate_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   [B][S][H][D] */
    const kiln_tensor *k;            /* in   [B][S][HKV][D] */
    const kiln_tensor *vertical;     /* out  i32 [B][H][columns]: the columns with the largest sums of weights of the last 64
                                      *      queries, the first 30 among them; ascending, -1 after all there are */
    const kiln_tensor *slash;        /* out  i32 [B][H][diagonals]: likewise, the nearest 30 among them */
    const double *scale;             /* of the scores that the weights are made from, > 0; NULL: 1, as in the authors' program */
    void   *workspace;               /* kiln_vertical_slash_estimate_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_vertical_slash_estimate_args;

KILN_API kiln_status kiln_vertical_slash_estimate_workspace_size(kiln_ops *ops, const kiln_vertical_slash_estimate_args *args,
                                                                 size_t *bytes);
KILN_API kiln_status kiln_vertical_slash_estimate(kiln_ops *ops, kiln_stream *stream, const kiln_vertical_slash_estimate_args *args);

typedef struct kiln_vertical_slash_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   [B][S][H][D], at most 2^20 - 64 rows */
    const kiln_tensor *k;            /* in   [B][S][HKV][D] */
    const kiln_tensor *v;            /* in   [B][S][HKV][D] */
    const kiln_tensor *vertical;     /* in   i32 [B][H][columns], ascending, none twice; numbers outside of 0 .. S-1 (-1) count for
                                      *      nothing, wherever they stand */
    const kiln_tensor *slash;        /* in   i32 [B][H][diagonals], likewise; at most 4096 */
    const kiln_tensor *out;          /* out  [B][S][H][D] */
    const double *scale;             /* > 0; NULL: 1/sqrt(D) */
    void   *workspace;               /* kiln_vertical_slash_workspace_size bytes: for each block of 64 queries and each head i32 for
                                      * all columns and diagonals */
    size_t  workspace_bytes;
} kiln_vertical_slash_args;

KILN_API kiln_status kiln_vertical_slash_workspace_size(kiln_ops *ops, const kiln_vertical_slash_args *args, size_t *bytes);
KILN_API kiln_status kiln_vertical_slash(kiln_ops *ops, kiln_stream *stream, const kiln_vertical_slash_args *args);

#ifdef __cplusplus
}
#endif
#endif
