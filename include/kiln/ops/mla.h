/* SPDX-License-Identifier: MIT */
/* mla.h - multi-head latent attention: decoding over a paged cache, dense or over a list of slots for each token, filling
 * such caches, and prefill over lists.
 *
 * A cached token is 576 values: all of them are its key, the first 512 also its value (the last 64 are rotary). With
 *     s[t] = scale * <q, key t>,   out = sum over t of softmax(s)[t] * key t [0 .. 511],   lse = ln sum over t of exp(s[t])
 * for each query row; a row that sees no key gives out 0 and lse +infinity; one that sees a score of NaN or +infinity gives NaN,
 * both, and a key whose score is -infinity counts as masked. All H query heads read the same latent keys (HKV = 1), or groups of
 * H / HKV of them read one of HKV.
 *
 * A decoding step plans once and then runs every layer with that plan:
 *
 *     kiln_mla_shape shape = { .batch = B, .queries = 1, .query_heads = 128 };
 *     kiln_mla_plan_size(ops, &shape, &bytes);                               memory for the plan: once
 *     kiln_mla_plan plan;
 *     kiln_mla_plan_make(ops, stream, &(kiln_mla_plan_args){ .shape = &shape, .lengths = &lengths, ... }, &plan);   each step
 *     kiln_mla_decode(ops, stream, &(kiln_mla_decode_args){ .plan = &plan, .q = &q, ... });                each layer
 *
 * Where there is one key head only, tensors may name it too, before the last dimension: the fp8 caches, the keys that fill
 * them, kv and indices of sparse prefill: [pages][page size][1][656].
 *
 * What holds for all calls (memory, streams, errors, threads, first call) is said in kiln/ops/ops.h. The kernels are
 * kernels/mla/plan.tile, decode.tile, decode_dense_fp8.tile, decode_fp8.tile, cache.tile and prefill.tile.
 */
#ifndef KILN_OPS_MLA_H
#define KILN_OPS_MLA_H

#include "kiln/ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KILN_MLA_KEY = 576,              /* values of a cached token */
    KILN_MLA_VALUE = 512,            /* the first of them, which are its value */
    KILN_MLA_FP8_BYTES = 656         /* of a token in the fp8 cache: 512 e4m3, 4 f32 scales, 64 bf16 */
};

/* ---- the plan: how the keys of a ragged batch are divided */

/* What decides the division, beside the lengths. */
typedef struct kiln_mla_shape {
    int64_t batch;                   /* requests */
    int64_t queries;                 /* new tokens of each request: 1, or more with speculation */
    int64_t query_heads;
    int64_t key_heads;               /* 0: 1 */
    int64_t topk;                    /* 0: dense; else the length of the lists of kiln_mla_decode_sparse */
    int64_t extra_topk;              /* of the lists for its extra cache; 0: none */
    int64_t partitions;              /* work is cut into as many parts of equal cost; 0: as many as fill the device */
} kiln_mla_shape;

/* A plan. Its numbers are in the caller's device memory, which must stay as it is until the last call that uses the plan
 * has run; the struct itself may be copied. */
typedef struct kiln_mla_plan {
    kiln_mla_shape shape;            /* with no zeros left for defaults */
    kiln_tensor    parts;            /* i32 [partitions][8] */
    kiln_tensor    firsts;           /* i32 [batch + 1]: splits of the requests before */
} kiln_mla_plan;

/* Bytes of device memory that a plan of this shape takes. */
KILN_API kiln_status kiln_mla_plan_size(kiln_ops *ops, const kiln_mla_shape *shape, size_t *bytes);

typedef struct kiln_mla_plan_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_mla_shape *shape;
    const kiln_tensor *lengths;      /* dense: in i32 [batch]: tokens in the cache of each request, the new ones among them;
                                      *        0 is fine */
    const kiln_tensor *topk_lengths; /* sparse: as the decoding calls will take them, so that parts have equal work; NULL: */
    const kiln_tensor *extra_topk_lengths;                                  /* all lists are full */
    void   *memory;                  /* kiln_mla_plan_size bytes, aligned to 256 */
    size_t  memory_bytes;
} kiln_mla_plan_args;

/* Queues the making of a plan, a small kernel or two, and fills *plan, which calls queued later on the same stream may use.
 * In a captured graph it plans anew on each replay, for the lengths it finds then. */
KILN_API kiln_status kiln_mla_plan_make(kiln_ops *ops, kiln_stream *stream, const kiln_mla_plan_args *args, kiln_mla_plan *plan);

/* ---- dense decoding over a paged cache */

typedef struct kiln_mla_decode_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_mla_plan *plan;       /* dense, made for the same lengths */
    const kiln_tensor *q;            /* in   bf16 or f16 [batch][queries][query_heads][576] */
    const kiln_tensor *cache;        /* in   as q [pages][page size][key_heads][576]; page size 16, 32, 64, 128 or 256; or, with
                                      *      bf16 q and one key head, u8, i8 or e4m3 [pages][page size][656]; page size any */
    const kiln_tensor *table;        /* in   i32 [batch][pages per request]: token t of a request is in page table[t / size] */
    const kiln_tensor *lengths;      /* in   i32 [batch]: as planned. At most (pages per request) * (page size) */
    const kiln_tensor *out;          /* out  as q [batch][queries][query_heads][512] */
    const kiln_tensor *lse;          /* out  f32 [batch][query_heads][queries] */
    bool   causal;                   /* query j sees keys before length - (queries - 1 - j) */
    bool   round_scales;             /* fp8 cache: as in kiln_mla_decode_sparse_args */
    double scale;                    /* > 0; 0: 1/sqrt(576) */
    void  *workspace;                /* kiln_mla_decode_workspace_size bytes */
    size_t workspace_bytes;
} kiln_mla_decode_args;

/* Slots of pages past a request's length, and table entries past its last page, are never looked at. */
KILN_API kiln_status kiln_mla_decode_workspace_size(kiln_ops *ops, const kiln_mla_decode_args *args, size_t *bytes);
KILN_API kiln_status kiln_mla_decode(kiln_ops *ops, kiln_stream *stream, const kiln_mla_decode_args *args);

/* ---- sparse decoding over the fp8 cache */

typedef struct kiln_mla_decode_sparse_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_mla_plan *plan;       /* with topk, and extra_topk if there is an extra cache; made for lists that count for as much
                                      * as these, or for more, as full ones do: then parts are right, but not equal */
    const kiln_tensor *q;            /* in   bf16 [batch][queries][query_heads][576]; one key head */
    const kiln_tensor *cache;        /* in   u8, i8 or e4m3 [pages][page size][656] */
    const kiln_tensor *indices;      /* in   i32 [batch][queries][topk]: slots, page * (page size) + place in it, in any order. One
                                      *      below 0 or past the cache hides its place; one that occurs twice counts twice */
    const kiln_tensor *topk_lengths; /* in   i32 [batch]: how many places of a request's lists count: as planned; NULL: all */
    const kiln_tensor *extra_cache;          /* in   a second cache, with lists of its own: tokens of both are attended to; or NULL */
    const kiln_tensor *extra_indices;        /* in   i32 [batch][queries][extra_topk] */
    const kiln_tensor *extra_topk_lengths;   /* in   i32 [batch] or NULL */
    const kiln_tensor *sink;         /* in   f32 [query_heads]: a logit, natural and not scaled, that joins the denominator of out
                                      *      only; NULL: none */
    const kiln_tensor *out;          /* out  bf16 [batch][queries][query_heads][512] */
    const kiln_tensor *lse;          /* out  f32 [batch][query_heads][queries] */
    double scale;                    /* > 0; 0: 1/sqrt(576) */
    bool   round_scales;             /* round the scales of the cache to bf16 before use, as some writers expect; else keys are
                                      * the product in f32, rounded once */
    void  *workspace;                /* kiln_mla_decode_sparse_workspace_size bytes */
    size_t workspace_bytes;
} kiln_mla_decode_sparse_args;

KILN_API kiln_status kiln_mla_decode_sparse_workspace_size(kiln_ops *ops, const kiln_mla_decode_sparse_args *args, size_t *bytes);
KILN_API kiln_status kiln_mla_decode_sparse(kiln_ops *ops, kiln_stream *stream, const kiln_mla_decode_sparse_args *args);

/* ---- filling and reading paged caches
 *
 * A slot is page * (page size) + place in it. Rows go to the slots that `slots` names, or row n to slot n. A slot below 0 or
 * past the cache is not written, and reads as zeros; slots that are written must differ. Nothing else of the cache is touched. */

/* Where the last `queries` tokens of each request stand: once a step, for every layer's append. */
typedef struct kiln_mla_slots_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *table;        /* in   i32 [batch][pages per request] */
    const kiln_tensor *lengths;      /* in   i32 [batch]: the new tokens among them */
    const kiln_tensor *slots;        /* out  i32 [batch][queries]; -1 for a token before the first or past the table */
    int64_t page_size;               /* tokens of a page */
} kiln_mla_slots_args;

KILN_API kiln_status kiln_mla_slots(kiln_ops *ops, kiln_stream *stream, const kiln_mla_slots_args *args);

typedef struct kiln_mla_append_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *keys;         /* in    bf16 or f16 [N][key_heads][576] */
    const kiln_tensor *slots;        /* in    i32 [N]; NULL: 0, 1, 2 ... */
    const kiln_tensor *cache;        /* inout as keys [pages][page size][key_heads][576] */
} kiln_mla_append_args;

KILN_API kiln_status kiln_mla_append(kiln_ops *ops, kiln_stream *stream, const kiln_mla_append_args *args);

/* Into the 656-byte format: for each 128 of the first 512 values a scale, their largest magnitude / 448 (or 2^-126, if that
 * is more), and the e4m3 of value / scale; the last 64 values as bf16. A NaN stays one, of its own value alone. */
typedef struct kiln_mla_quantize_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *keys;         /* in    bf16 or f16 [N][576] */
    const kiln_tensor *slots;        /* in    i32 [N]; NULL: 0, 1, 2 ... */
    const kiln_tensor *cache;        /* inout u8, i8 or e4m3 [pages][page size][656] */
    bool   full_scales;              /* keep scales in f32; else they are rounded to bf16, so that readers that round them and
                                      * readers that do not agree */
} kiln_mla_quantize_args;

KILN_API kiln_status kiln_mla_quantize(kiln_ops *ops, kiln_stream *stream, const kiln_mla_quantize_args *args);

typedef struct kiln_mla_dequantize_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *cache;        /* in   u8, i8 or e4m3 [pages][page size][656] */
    const kiln_tensor *slots;        /* in   i32 [N]; NULL: 0, 1, 2 ... */
    const kiln_tensor *keys;         /* out  bf16 [N][576] */
    bool   round_scales;             /* as in kiln_mla_decode_sparse_args */
} kiln_mla_dequantize_args;

KILN_API kiln_status kiln_mla_dequantize(kiln_ops *ops, kiln_stream *stream, const kiln_mla_dequantize_args *args);

/* ---- sparse prefill: each query token attends to its own list of rows. Batches are one long list: offset the indices */

typedef struct kiln_mla_prefill_sparse_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   bf16 [S][H][D]; D is 576 or 512 */
    const kiln_tensor *kv;           /* in   bf16 [SKV][D] */
    const kiln_tensor *indices;      /* in   i32 [S][topk]: rows of kv, in any order. One below 0 or past SKV - 1 hides its
                                      *      place; one that occurs twice counts twice */
    const kiln_tensor *topk_lengths; /* in   i32 [S]: how many places of each list count; NULL: all */
    const kiln_tensor *sink;         /* in   f32 [H]: a logit, natural and not scaled, that joins the denominator of out only;
                                      *      NULL: none */
    const kiln_tensor *out;          /* out  bf16 [S][H][512] */
    const kiln_tensor *max_logits;   /* out  f32 [S][H], base 2: the largest scale * log2(e) * <q, k>; none seen: -infinity; NaN
                                      *      where lse is */
    const kiln_tensor *lse;          /* out  f32 [S][H], base 2: log2 of the sum of 2^that; none seen: -infinity, and out is 0.
                                      *      The decoding calls give natural logarithms and +infinity */
    double scale;                    /* > 0; 0: 1/sqrt(D) */
} kiln_mla_prefill_sparse_args;

KILN_API kiln_status kiln_mla_prefill_sparse(kiln_ops *ops, kiln_stream *stream, const kiln_mla_prefill_sparse_args *args);

#ifdef __cplusplus
}
#endif
#endif
