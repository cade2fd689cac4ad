/* SPDX-License-Identifier: MIT */
/* deepseek.h - DeepSeek sparse attention: an indexer in fp8 scores all keys for each query, the best of them are selected, and
 * latent attention reads those alone. Each part is a call, and kiln_indexed_attention is all of it. Attention over given lists is
 * kiln_mla_prefill_sparse and kiln_mla_decode_sparse (kiln/ops/mla.h).
 *
 *     logits[i][n] = k_scales[n] * sum over h of max(<q[i][h], k[n]>, 0) * weights[i][h]     in f32
 *
 * Letters: S queries, SKV keys, HI heads of the indexer, a multiple of 8 up to 128, DI their size, a multiple of 32 up to 256.
 *
 * Windows: query i sees keys starts[i] to ends[i] - 1. Both may be any numbers: what is below 0 or past the last key is not
 * there, and a start at or past the end is an empty window. Packed sequences: the first key of the query's sequence, and one past
 * its own position. NULL: 0 and SKV.
 *
 * The scale of a query (kiln_cast_fp8, one for each head) is a factor of its weights. A product q.k of NaN counts as 0; NaN in
 * weights and k_scales stays. kiln/ops/ops.h has what holds for all calls (memory, streams, errors, threads, first call). The
 * kernels are kernels/topk/indexer.tile, indexer_paged.tile and select.tile, and kernels/mla/prefill.tile.
 */
#ifndef KILN_OPS_DEEPSEEK_H
#define KILN_OPS_DEEPSEEK_H

#include "kiln/ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Logits of packed queries over one set of keys: prefill. */
typedef struct kiln_indexer_logits_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   e4m3 [S][HI][DI] */
    const kiln_tensor *k;            /* in   e4m3 [SKV][DI] */
    const kiln_tensor *k_scales;     /* in   f32 [SKV]: what a key is multiplied by */
    const kiln_tensor *weights;      /* in   f32 [S][HI]; of either sign */
    const kiln_tensor *starts;       /* in   i32 [S]; NULL: 0 */
    const kiln_tensor *ends;         /* in   i32 [S]; NULL: SKV */
    const kiln_tensor *logits;       /* out  f32 [S][SKV]: outside of the windows -infinity */
    bool   windows_alone;            /* outside of a query's window its logits may be left as they were, or be anything: for
                                      * kiln_topk_select with the same windows, or kiln_clean_logits */
} kiln_indexer_logits_args;

KILN_API kiln_status kiln_indexer_logits(kiln_ops *ops, kiln_stream *stream, const kiln_indexer_logits_args *args);

/* Scores of the queries of each request over its own keys, without windows. */
typedef struct kiln_indexer_scores_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   e4m3 [B][S][HI][DI] */
    const kiln_tensor *k;            /* in   e4m3 [B][SKV][DI] */
    const kiln_tensor *k_scales;     /* in   f32 [B][SKV] */
    const kiln_tensor *weights;      /* in   f32 [B][S][HI] */
    const kiln_tensor *scores;       /* out  f32 [B][S][SKV] */
} kiln_indexer_scores_args;

KILN_API kiln_status kiln_indexer_scores(kiln_ops *ops, kiln_stream *stream, const kiln_indexer_scores_args *args);

/* Writes -infinity outside of the windows. */
typedef struct kiln_clean_logits_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *logits;       /* inout f32 [S][SKV] */
    const kiln_tensor *starts;       /* in   i32 [S]; NULL: 0 */
    const kiln_tensor *ends;         /* in   i32 [S]; NULL: SKV */
} kiln_clean_logits_args;

KILN_API kiln_status kiln_clean_logits(kiln_ops *ops, kiln_stream *stream, const kiln_clean_logits_args *args);

/* The columns of the largest logits of each row's window, in ascending order of columns. Among equals the lowest columns are taken,
 * -0 equals +0, and NaN is the lowest; the same input gives the same columns. Where the window has fewer than topk columns they
 * are all there, and -1 after them. */
typedef struct kiln_topk_select_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *logits;       /* in   f32 [S][SKV] */
    const kiln_tensor *starts;       /* in   i32 [S]; NULL: 0 */
    const kiln_tensor *ends;         /* in   i32 [S]; NULL: SKV */
    const kiln_tensor *indices;      /* out  i32 [S][topk]; topk is 1 to 16384 */
} kiln_topk_select_args;

KILN_API kiln_status kiln_topk_select(kiln_ops *ops, kiln_stream *stream, const kiln_topk_select_args *args);

/* Indexer, selection and attention over what was selected: what kiln_indexer_logits, kiln_topk_select and kiln_mla_prefill_sparse
 * give one after the other, for so many queries at a time as `rows` says, so that the logits of all queries need not be in
 * memory. Nothing is read back to the host: the call can be captured in a CUDA graph. */
typedef struct kiln_indexed_attention_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *index_q;      /* in   e4m3 [S][HI][DI] */
    const kiln_tensor *index_k;      /* in   e4m3 [SKV][DI] */
    const kiln_tensor *index_scales; /* in   f32 [SKV] */
    const kiln_tensor *index_weights;/* in   f32 [S][HI] */
    const kiln_tensor *starts;       /* in   i32 [S]; NULL: 0 */
    const kiln_tensor *ends;         /* in   i32 [S]; NULL: SKV */
    const kiln_tensor *q;            /* in   bf16 [S][H][D]; D is 576 or 512 */
    const kiln_tensor *kv;           /* in   bf16 [SKV][D]: the first 512 values of a key are also its value */
    const kiln_tensor *sink;         /* in   f32 [H], as in kiln_mla_prefill_sparse_args; NULL: none */
    const kiln_tensor *out;          /* out  bf16 [S][H][512] */
    const kiln_tensor *max_logits;   /* out  f32 [S][H]; NULL: not wanted; this and lse as in kiln_mla_prefill_sparse_args */
    const kiln_tensor *lse;          /* out  f32 [S][H]; NULL: not wanted */
    const kiln_tensor *indices;      /* out  i32 [S][topk]: the keys of each query; NULL: not wanted */
    int64_t topk;                    /* keys of a query, 1 to 16384 */
    const double *scale;             /* of attention, > 0; NULL: 1/sqrt(D) */
    bool    base2;                   /* as in kiln_mla_prefill_sparse_args */
    int64_t rows;                    /* queries at a time, rounded up to a multiple of 16; 0: 512, or more where the logits of
                                      * these take less than 128 MiB */
    void   *workspace;               /* kiln_indexed_attention_workspace_size bytes: rows * SKV * 4 with SKV rounded up to a
                                      * multiple of 4, and where `indices` is NULL rows * topk * 4, each rounded up to 256; rows
                                      * are S at most */
    size_t  workspace_bytes;
} kiln_indexed_attention_args;

KILN_API kiln_status kiln_indexed_attention_workspace_size(kiln_ops *ops, const kiln_indexed_attention_args *args, size_t *bytes);
KILN_API kiln_status kiln_indexed_attention(kiln_ops *ops, kiln_stream *stream, const kiln_indexed_attention_args *args);

/* ---- paged caches
 *
 * Further letters: B requests of any lengths, TQ new tokens of all of them, which are their last. Token t of request b is in slot
 * t % (page size) of page table[b][t / (page size)] of both caches, page * (page size) + t % (page size) counted through the cache.
 * Query i of S of a request of L tokens sees those up to i + L - S. Slots at and past a length, and table entries after its last
 * page, are never read.
 *
 * Index keys are codes and a scale each: two tensors, or the parts of pages that hold the codes of all their tokens and then the
 * scales (132 bytes a token with DI 128), as views with strides. */

/* The same as kiln_indexed_attention over paged caches, or the selection alone, for kiln_mla_decode_sparse over an fp8 cache.
 * Nothing is read back to the host: the call can be captured in a CUDA graph. */
typedef struct kiln_indexed_attention_paged_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *index_q;      /* in   e4m3 [TQ][HI][DI]: request b has rows q_offsets[b] to q_offsets[b + 1] - 1 */
    const kiln_tensor *index_k;      /* in   e4m3 [pages][page size][DI]; a page has 1 to 256 tokens */
    const kiln_tensor *index_scales; /* in   f32 [pages][page size] */
    const kiln_tensor *index_weights;/* in   f32 [TQ][HI] */
    const kiln_tensor *table;        /* in   i32 [B][pages per request] */
    const kiln_tensor *lengths;      /* in   i32 [B]: the new tokens included; may be 0 */
    const kiln_tensor *q_offsets;    /* in   i32 [B + 1], from 0 to TQ, not decreasing; NULL: every request has TQ / B rows */
    const kiln_tensor *q;            /* in   bf16 [TQ][H][D]; D is 576 or 512; NULL, and with it kv and out: the selection alone */
    const kiln_tensor *kv;           /* in   bf16 [pages][page size][D], or with a dimension of 1 before the last: the first 512
                                      *      values of a key are also its value. Pages lie (page size) tokens apart */
    const kiln_tensor *sink;         /* in   f32 [H], as in kiln_mla_prefill_sparse_args; NULL: none */
    const kiln_tensor *out;          /* out  bf16 [TQ][H][512] */
    const kiln_tensor *max_logits;   /* out  f32 [TQ][H]; NULL: not wanted; this and lse as in kiln_mla_prefill_sparse_args */
    const kiln_tensor *lse;          /* out  f32 [TQ][H]; NULL: not wanted */
    const kiln_tensor *indices;      /* out  i32 [TQ][topk]: the slots of each query's tokens, by ascending positions, then -1; NULL:
                                      *      not wanted */
    int64_t topk;                    /* keys of a query, 1 to 16384 */
    int64_t max_keys;                /* tokens of the longest request, or more: the logits have room for so many; 0: what the table
                                      * has room for */
    const double *scale;             /* of attention, > 0; NULL: 1/sqrt(D) */
    bool    base2;                   /* as in kiln_mla_prefill_sparse_args */
    int64_t rows;                    /* queries whose logits are in memory at a time, more or less; 0: as many as fit 128 MiB, 512 at
                                      * least */
    void   *workspace;               /* kiln_indexed_attention_paged_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_indexed_attention_paged_args;

/* The size depends on shapes, options, topk, max_keys and rows, and on no value in device memory. */
KILN_API kiln_status kiln_indexed_attention_paged_workspace_size(kiln_ops *ops, const kiln_indexed_attention_paged_args *args,
                                                                 size_t *bytes);
KILN_API kiln_status kiln_indexed_attention_paged(kiln_ops *ops, kiln_stream *stream, const kiln_indexed_attention_paged_args *args);

/* Writes new index keys to their slots (kiln_paged_slots), as codes and a scale each: the largest magnitude, 1e-4 at least, over
 * 448. A slot below 0 or past the cache is not written; slots that are written must differ. The rest is unchanged. */
typedef struct kiln_index_append_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *keys;         /* in    bf16 or f16 [N][DI] */
    const kiln_tensor *slots;        /* in    i32 [N] */
    const kiln_tensor *index_k;      /* inout e4m3 [pages][page size][DI] */
    const kiln_tensor *index_scales; /* inout f32 [pages][page size] */
    bool    power_of_two;            /* scales are rounded up to powers of two */
} kiln_index_append_args;

KILN_API kiln_status kiln_index_append(kiln_ops *ops, kiln_stream *stream, const kiln_index_append_args *args);

#ifdef __cplusplus
}
#endif
#endif
