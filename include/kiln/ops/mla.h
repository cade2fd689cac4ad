/* SPDX-License-Identifier: MIT */
/* mla.h - multi-head latent attention: decoding over a paged cache, dense or over a list of slots for each token, filling
 * such caches, decoding over a contiguous cache, and prefill over lists.
 *
 * A cached token is 576 values: all of them are its key, the first 512 also its value (the last 64 are rotary). In sparse
 * decoding and prefill it may also be 512 values, all of them key and value. With
 *     s[t] = scale * <q, key t>,   out = sum over t of softmax(s)[t] * key t [0 .. 511],   lse = ln sum over t of exp(s[t])
 * for each query row. A row that sees no key has out 0 and lse +infinity; one that sees a score of NaN or +infinity has NaN in
 * out and lse; a key whose score is -infinity counts as masked. All H query heads read the same latent keys (HKV = 1), or each
 * group of H / HKV of them reads one of HKV.
 *
 * A decoding step plans once and then runs every layer with that plan:
 *
 *     kiln_mla_shape shape = { .batch = B, .queries = 1, .query_heads = 128 };
 *     kiln_mla_plan_size(ops, &shape, &bytes);                               memory for the plan: once
 *     kiln_mla_plan plan;
 *     kiln_mla_plan_make(ops, stream, &(kiln_mla_plan_args){ .shape = &shape, .lengths = &lengths, ... }, &plan);   each step
 *     kiln_mla_decode(ops, stream, &(kiln_mla_decode_args){ .plan = &plan, .q = &q, ... });                each layer
 *
 * Memory is sized once, for the largest batch: the same bytes serve every smaller one with the same other fields of the shape.
 * kiln_mla_plan_size says what a plan takes, and kiln_mla_workspace_size what a decoding call with it takes, dense or sparse:
 *     (batch + partitions) * queries * query_heads * 2048 bytes, and as many * 4, both rounded up to 256.
 * The number of partitions does not depend on the batch.
 *
 * The fp8 caches are u8, i8 or e4m3, and have a format for each key size:
 *     [pages][page size][656], keys of 576: a token is 512 e4m3 codes, 4 f32 scales, one for each 128 codes, and 64 bf16
 *         values as they are
 *     [pages][page size][584], keys of 512: a page begins with 576 bytes for each token, 448 e4m3 codes and 64 bf16 values;
 *         after those of all tokens stand 8 bytes for each, of which 7 are scales, one for each 64 codes: a byte b is
 *         2^(b - 127), 255 is NaN. The tensor has strides: 584 from token to token, though no token's bytes stand together,
 *         and from page to page a multiple of 16 bytes (FlashMLA: of 576). It reaches over at most 16 GiB
 *
 * Where there is only one key head, some tensors may have a dimension of 1 for it before the last one, as in
 * [pages][page size][1][656]: the fp8 caches, the keys written to them, kv and indices of sparse prefill.
 *
 * A scale is a pointer, so that no number stands for the default: `.scale = &(double){ 0.1 }`. It is read during the call.
 *
 * kiln/ops/ops.h has what holds for all calls (memory, streams, errors, threads, first call). The kernels are
 * kernels/mla/plan.tile, decode.tile, decode_dense_fp8.tile, decode_fp8.tile, fp8_format.tile, cache.tile, decode_contiguous.tile
 * and prefill.tile.
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
    KILN_MLA_SHORT_KEY = 512,        /* values of a cached token without rotary ones beside its value */
    KILN_MLA_FP8_BYTES = 656,        /* of a token in the fp8 cache of keys of 576 */
    KILN_MLA_FP8_SHORT_BYTES = 584   /* of keys of 512 */
};

/* ---- the plan: how the keys of a ragged batch are split */

/* What determines the plan, besides the lengths. */
typedef struct kiln_mla_shape {
    int64_t batch;                   /* requests */
    int64_t queries;                 /* new tokens of each request: 1, or more with speculative decoding */
    int64_t query_heads;
    int64_t key_heads;               /* 0: 1 */
    int64_t topk;                    /* 0: dense; else the length of the lists of kiln_mla_decode_sparse */
    int64_t extra_topk;              /* of the lists for its extra cache; 0: none */
    int64_t partitions;              /* number of parts of equal cost; 0: as many as fill the device */
} kiln_mla_shape;

/* A plan: opaque. It is made by kiln_mla_plan_make alone, may be copied, and needs no freeing; all zero it is none. What the
 * device reads of it is in the memory that the caller gave, which must not change until the last call that uses the plan has
 * run. */
typedef struct kiln_mla_plan {
    uint64_t opaque[16];
} kiln_mla_plan;

/* Bytes of device memory that a plan of this shape takes, and those of a smaller batch. */
KILN_API kiln_status kiln_mla_plan_size(kiln_ops *ops, const kiln_mla_shape *shape, size_t *bytes);
/* Bytes of workspace that suffice for decoding with a plan of this shape, and of a smaller batch: no fewer than what
 * kiln_mla_decode_workspace_size and kiln_mla_decode_sparse_workspace_size say, before there is a plan. Nothing is built. */
KILN_API kiln_status kiln_mla_workspace_size(kiln_ops *ops, const kiln_mla_shape *shape, size_t *bytes);

typedef struct kiln_mla_plan_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_mla_shape *shape;
    const kiln_tensor *lengths;      /* dense: in i32 [batch]: tokens in the cache of each request, including the new ones;
                                      *        may be 0 */
    const kiln_tensor *topk_lengths; /* sparse: those of the decoding calls, so that parts have equal work; NULL: */
    const kiln_tensor *extra_topk_lengths;                                  /* all lists are full */
    void   *memory;                  /* kiln_mla_plan_size bytes, aligned to 256 */
    size_t  memory_bytes;
} kiln_mla_plan_args;

/* Queues one or two small kernels that compute a plan, and fills *plan, which calls queued later on the same stream may use.
 * In a captured graph each replay computes the plan again, for the lengths at that time. */
KILN_API kiln_status kiln_mla_plan_make(kiln_ops *ops, kiln_stream *stream, const kiln_mla_plan_args *args, kiln_mla_plan *plan);
/* The shape that a plan was made for, with its defaults filled in: the number of partitions, one key head. */
KILN_API kiln_status kiln_mla_plan_shape(const kiln_mla_plan *plan, kiln_mla_shape *shape);

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
    const kiln_tensor *lse;          /* out  f32 [batch][query_heads][queries], or NULL */
    bool   causal;                   /* query j sees keys before length - (queries - 1 - j) */
    bool   round_scales;             /* fp8 cache: as in kiln_mla_decode_sparse_args */
    const double *scale;             /* > 0; NULL: 1/sqrt(576) */
    void  *workspace;                /* kiln_mla_decode_workspace_size bytes */
    size_t workspace_bytes;
} kiln_mla_decode_args;

/* Slots of pages past a request's length, and table entries past its last page, are never read. */
KILN_API kiln_status kiln_mla_decode_workspace_size(kiln_ops *ops, const kiln_mla_decode_args *args, size_t *bytes);
KILN_API kiln_status kiln_mla_decode(kiln_ops *ops, kiln_stream *stream, const kiln_mla_decode_args *args);

/* ---- sparse decoding over fp8 caches of either format */

typedef struct kiln_mla_decode_sparse_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_mla_plan *plan;       /* with topk, and extra_topk if there is an extra cache; made for lists as long as these, or
                                      * longer, as full ones are: then parts are valid, but not of equal cost */
    const kiln_tensor *q;            /* in   bf16 [batch][queries][query_heads][D]; D is 576 or 512; one key head */
    const kiln_tensor *cache;        /* in   u8, i8 or e4m3 [pages][page size][656] where D is 576, [584] where it is 512; a page
                                      *      has any number of tokens */
    const kiln_tensor *indices;      /* in   i32 [batch][queries][topk]: slots, page * (page size) + offset in it, in any order.
                                      *      One below 0 or past the cache is masked; one that occurs twice counts twice */
    const kiln_tensor *topk_lengths; /* in   i32 [batch]: how many entries of a request's lists count: as planned; NULL: all */
    const kiln_tensor *extra_cache;          /* in   NULL, or a second cache of the same format, with pages of its own size and
                                              *      lists of its own: both are attended to */
    const kiln_tensor *extra_indices;        /* in   i32 [batch][queries][extra_topk] */
    const kiln_tensor *extra_topk_lengths;   /* in   i32 [batch] or NULL */
    const kiln_tensor *sink;         /* in   f32 [query_heads]: a logit, natural and not scaled, that is added to the denominator
                                      *      of out only; NULL: none */
    const kiln_tensor *out;          /* out  bf16 [batch][queries][query_heads][512] */
    const kiln_tensor *lse;          /* out  f32 [batch][query_heads][queries], or NULL */
    const double *scale;             /* > 0; NULL: 1/sqrt(D) */
    bool   round_scales;             /* round the scales of the cache to bf16 before use, as some writers expect; else keys are
                                      * the product in f32, rounded once. The same for powers of two */
    void  *workspace;                /* kiln_mla_decode_sparse_workspace_size bytes */
    size_t workspace_bytes;
} kiln_mla_decode_sparse_args;

KILN_API kiln_status kiln_mla_decode_sparse_workspace_size(kiln_ops *ops, const kiln_mla_decode_sparse_args *args, size_t *bytes);
KILN_API kiln_status kiln_mla_decode_sparse(kiln_ops *ops, kiln_stream *stream, const kiln_mla_decode_sparse_args *args);

/* ---- filling and reading paged caches
 *
 * A slot is page * (page size) + offset in it. Rows go to the slots in `slots`, or row n to slot n. A slot below 0 or
 * past the cache is not written, and reads as zeros; slots that are written must differ. The rest of the cache is unchanged. */

/* The slots of the last `queries` tokens of each request: once a step, for every layer's append. */
typedef struct kiln_mla_slots_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *table;        /* in   i32 [batch][pages per request] */
    const kiln_tensor *lengths;      /* in   i32 [batch]: including the new tokens */
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

/* Into the format for the size of the keys: for each 128 of the first 512 values, or each 64 of the first 448, a scale, and
 * the e4m3 of value / scale; the last 64 values as bf16. With keys of 576 the scale is max(largest magnitude / 448, 2^-126),
 * rounded to bf16; with keys of 512 the least power of two that is at least max(largest magnitude / 448, 1e-4). A NaN stays
 * NaN and affects no other value; an infinity makes its group NaN or 0. */
typedef struct kiln_mla_quantize_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *keys;         /* in    bf16 or f16 [N][576] or [N][512] */
    const kiln_tensor *slots;        /* in    i32 [N]; NULL: 0, 1, 2 ... */
    const kiln_tensor *cache;        /* inout u8, i8 or e4m3 [pages][page size][656] or [584] */
    bool   full_scales;              /* 656 bytes: keep scales in f32; else they are rounded to bf16, so that readers that round
                                      * them and readers that do not agree */
    bool   power_scales;             /* 656 bytes: scales as with keys of 512, as FlashMLA has written them since 2026 */
} kiln_mla_quantize_args;

KILN_API kiln_status kiln_mla_quantize(kiln_ops *ops, kiln_stream *stream, const kiln_mla_quantize_args *args);

typedef struct kiln_mla_dequantize_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *cache;        /* in   u8, i8 or e4m3 [pages][page size][656] or [584] */
    const kiln_tensor *slots;        /* in   i32 [N]; NULL: 0, 1, 2 ... */
    const kiln_tensor *keys;         /* out  bf16 [N][576] or [N][512] */
    bool   round_scales;             /* as in kiln_mla_decode_sparse_args */
} kiln_mla_dequantize_args;

KILN_API kiln_status kiln_mla_dequantize(kiln_ops *ops, kiln_stream *stream, const kiln_mla_dequantize_args *args);

/* ---- decoding over a contiguous cache, one new token of each request, latent and rotary parts in tensors of their own
 *
 * A key is 512 latent values, which are also its value, and 64 rotary ones:
 *     s[t] = scale * (<q, cache[t]> + <q_rotary, rotary_cache[t]>),   out = sum over t of softmax(s)[t] * cache[t] */

typedef struct kiln_mla_decode_contiguous_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   bf16 or f16 [B][H][512] */
    const kiln_tensor *q_rotary;     /* in   as q [B][H][64] */
    const kiln_tensor *cache;        /* in   as q, or e4m3 [B][S][512]; here and in rotary_cache a dimension of 1 for the key head
                                      *      may stand before the last one */
    const kiln_tensor *rotary_cache; /* in   as q [B][S][64] */
    const kiln_tensor *lengths;      /* in   i32 [B]: keys of each request, the first ones; what comes after them is not looked at.
                                      *      One below 0 is 0, one past S is S. NULL: S */
    const kiln_tensor *out;          /* out  as q [B][H][512] */
    const kiln_tensor *lse;          /* out  f32 [B][H]; NULL: not wanted */
    int64_t splits;                  /* into how many shares the keys are split, 1 to 65536; 0: as many as fill the device */
    const double *scale;             /* > 0; NULL: 1/sqrt(576) */
    void   *workspace;               /* kiln_mla_decode_contiguous_workspace_size bytes */
    size_t  workspace_bytes;
    const kiln_tensor *scales;       /* in   f32 [B][S] or [B][S][1], with a cache of e4m3: what the latent values of a
                                      *      key are multiplied by, in f32, rounded once; NULL: 1 */
} kiln_mla_decode_contiguous_args;

KILN_API kiln_status kiln_mla_decode_contiguous_workspace_size(kiln_ops *ops, const kiln_mla_decode_contiguous_args *args,
                                                               size_t *bytes);
KILN_API kiln_status kiln_mla_decode_contiguous(kiln_ops *ops, kiln_stream *stream, const kiln_mla_decode_contiguous_args *args);

/* ---- sparse prefill: each query token attends to its own list of rows. For batches concatenate rows and offset the indices */

typedef struct kiln_mla_prefill_sparse_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   bf16 [S][H][D]; D is 576 or 512 */
    const kiln_tensor *kv;           /* in   bf16 [SKV][D] */
    const kiln_tensor *indices;      /* in   i32 [S][topk]: rows of kv, in any order. One below 0 or past SKV - 1 is masked;
                                      *      one that occurs twice counts twice */
    const kiln_tensor *topk_lengths; /* in   i32 [S]: how many entries of each list count; NULL: all */
    const kiln_tensor *sink;         /* in   f32 [H]: a logit, natural and not scaled, that is added to the denominator of out
                                      *      only; NULL: none */
    const kiln_tensor *out;          /* out  bf16 [S][H][512] */
    const kiln_tensor *max_logits;   /* out  f32 [S][H] or NULL: the maximum of scale * <q, k>; no key: -infinity; NaN where lse is */
    const kiln_tensor *lse;          /* out  f32 [S][H] or NULL: the logarithm of the sum of exp(scale * <q, k>); no key: +infinity,
                                      *      and out is 0 */
    const double *scale;             /* > 0; NULL: 1/sqrt(D) */
    bool   base2;                    /* max_logits and lse in base 2, times log2(e), and lse -infinity for a row without keys: as
                                      * FlashMLA returned them until 2026 */
    const kiln_tensor *ends;         /* in   i32 [S]: rows of kv from ends[s] on are masked for query s, as in causal attention over
                                      *      lists that may name later rows; NULL: none is */
} kiln_mla_prefill_sparse_args;

KILN_API kiln_status kiln_mla_prefill_sparse(kiln_ops *ops, kiln_stream *stream, const kiln_mla_prefill_sparse_args *args);

#ifdef __cplusplus
}
#endif
#endif
