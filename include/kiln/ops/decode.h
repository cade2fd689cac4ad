/* SPDX-License-Identifier: MIT */
/* decode.h - masked multi-head attention of one decoding step, fused with what stands around it in a layer: biases of the
 * projections, rotary embedding, attention over a paged cache, and the new token's key and value appended to that cache.
 *
 * For row r, query head h and its key head g = h / (H / HKV), with n tokens in the cache and the new one at position n:
 *
 *     q' = turn(q + q_bias), k' = turn((k + k_bias) * key_factors), v' = (v + v_bias) * value_factors
 *     s[t] = scale * <q', K[t]> + slopes[h] * (t - n) + bias[h][n][t] + bucket_bias[h][bucket(t - n)]   for cached t
 *     s[n] = scale * <q', k'> + bias[h][n][n] + bucket_bias[h][0]
 *     out = sum over t of softmax(s)[t] * V[t], times out_scale;  K[n] = k', V[n] = v'
 *
 * The new token always takes part, before it is rounded or quantised for the cache.
 *
 * Letters: R rows, one new token each (requests * beams); H query heads, HKV key heads (H is a multiple of HKV; H / HKV is at
 * most 128 and at most 16384 / D); D head size, a multiple of 16 up to 256; T the type that q' and the weights are rounded to:
 * bf16, f16 or f32. Scores, softmax, sums and the rotary embedding are f32.
 *
 * kiln/ops/ops.h has what holds for all calls (memory, streams, errors, threads, first call), but here only q, k, v and
 * tensors of i32 may have strides; and rows marked in `finished` keep what their part of out has. The kernels are
 * kernels/decode/masked.tile.
 */
#ifndef KILN_OPS_DECODE_H
#define KILN_OPS_DECODE_H

#include "kiln/ops/rotary.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_masked_decode_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */

    /* ---- the plain case */
    const kiln_tensor *q;            /* in    bf16, f16, f32 or i8 [R][H][D]: the new tokens' projections */
    const kiln_tensor *k;            /* in    as q [R][HKV][D]; NULL in cross attention, as v */
    const kiln_tensor *v;            /* in    as q [R][HKV][D]. All three may be parts of one tensor [R][H + 2 * HKV][D] */
    const kiln_tensor *cache;        /* inout T, i8 or e4m3 [blocks][HKV][page size][D]: blocks of keys and blocks of values. In
                                      *       cross attention it is only read */
    const kiln_tensor *table;        /* in    i32 [R][2][pages]: the block of each page of keys, then of values. Used entries are
                                      *       blocks of the cache, and the page that a token is appended to is the row's own */
    const kiln_tensor *lengths;      /* in    i32 [R]: tokens in the cache, without the new one and without the prefix */
    const kiln_tensor *out;          /* out   T or e4m3 [R][H][D] */
    const kiln_rotary *rotary;       /* in host memory; NULL: none */
    void   *workspace;               /* kiln_masked_decode_workspace_size bytes */
    size_t  workspace_bytes;

    /* ---- the cache */
    const kiln_tensor *scales;       /* inout f32 [blocks][HKV][page size]: what the elements of a token, i8 or e4m3, are
                                      *       multiplied by. An i8 cache needs it: a new token gets its largest magnitude / 128,
                                      *       and one of NaN a scale of NaN. An e4m3 cache: NULL: 1; a new token gets 1 */
    const kiln_tensor *cache2;       /* inout as cache [blocks2][HKV][page size][D]: a second pool. An entry of the table with the
                                      *       top bit set means the block of its other 31 bits, of this one. Not with scales */
    int64_t ring;                    /* token t is in place t % ring: the last `ring` tokens and the new one count.
                                      * 1 to pages * page size; 0: pages * page size */
    int64_t max_length;              /* tokens in the cache of the longest row, prefix included, or more: what the workspace and
                                      * the splitting are made for; tokens past it are not seen. 0: as many as fit */
    int64_t splits;                  /* into how many parts the cached tokens are split, at most: 1 to 1024; 0: as many as fill
                                      * the device */
    /* ---- the projections */
    const kiln_tensor *q_bias;       /* in    T [H][D]; NULL: none */
    const kiln_tensor *k_bias;       /* in    T [HKV][D]; NULL: none */
    const kiln_tensor *v_bias;       /* in    T [HKV][D]; NULL: none */
    const kiln_tensor *qkv_scales;   /* in    f32 [3]: what q, k and v are multiplied by before biases; i8 needs it; NULL: 1 */
    kiln_type type;                  /* T; 0: the type of q; if that is i8, the type of out */
    const kiln_tensor *tasks;        /* in    i32 [R / beams]: which factors each request has; NULL: none */
    const kiln_tensor *key_factors;  /* in    T [tasks][HKV][D]: after bias, before rotary embedding; with `tasks` */
    const kiln_tensor *value_factors;/* in    T [tasks][HKV][D] */
    const kiln_tensor *positions;    /* in    i32 [R][components]: rotary position of the new token; the first component counts.
                                      *       NULL: n. With `rotary` */
    const kiln_tensor *prefix_lengths;/* in   i32 [R]: tokens of a prefix, in the cache before the `lengths` others; NULL: 0 */
    bool    positions_after_prefix;  /* rotary positions begin with 0 after the prefix. Interleaved only */
    /* ---- the scores */
    const double *scale;             /* > 0; NULL: 1/sqrt(D) */
    const kiln_tensor *slopes;       /* in    f32 [H]: linear bias (ALiBi); NULL: none */
    const kiln_tensor *bias;         /* in    T [H][L][L]: of the query at the second index for the key at the third; every
                                      *       position is below L; NULL: none */
    const kiln_tensor *bucket_bias;  /* in    T [H][buckets], at least 4: by distance, a bucket for each up to half of them, the
                                      *       others in logarithmic steps up to bucket_distance (T5); NULL: none */
    int64_t bucket_distance;         /* with bucket_bias: > buckets / 2: from here on distances share the last bucket */
    bool    one_sided_buckets;       /* all buckets are for keys before the query; else the first half is (the other half is of
                                      * keys after it, which decoding has none of) */
    bool    log_scaling;             /* queries at n >= trained_length are multiplied by ln(n + 1) / ln(trained_length) */
    int64_t trained_length;          /* > 1 where log_scaling, NTK, YaRN or Llama 3 asks for it */
    /* ---- the rows */
    const kiln_tensor *finished;     /* in    bool [R]: rows to leave alone, their out and cache too; NULL: none */
    bool    cross;                   /* cross attention: over an encoder's `lengths` tokens; nothing is appended. Rows of beams
                                      * read from the first of their request; one of length 0 has out 0. n is lengths - 1 */
    int64_t beams;                   /* rows of a request; R is a multiple; 0: 1 */
    const kiln_tensor *sources;      /* in    i32 [R][positions]: of which beam of the request, from 0 on, the row has the token
                                      *       at each position; needed with beams > 1, but in cross attention; n < ring then */
    const kiln_tensor *prompt_lengths;/* in   i32 [R]: positions before it are the request's first beam's; with `sources` */
    const kiln_tensor *out_scale;    /* in    f32 [1]: what out is multiplied by; NULL: 1 */
    const kiln_tensor *sinks;        /* in    f32 [H]: a logit of each head, natural and not scaled, whose exponential is added to the
                                      *       sum of softmax, and which has no value; -infinity is none, +infinity or NaN makes
                                      *       NaN; NULL: none */
} kiln_masked_decode_args;

KILN_API kiln_status kiln_masked_decode_workspace_size(kiln_ops *ops, const kiln_masked_decode_args *args, size_t *bytes);
KILN_API kiln_status kiln_masked_decode(kiln_ops *ops, kiln_stream *stream, const kiln_masked_decode_args *args);

#ifdef __cplusplus
}
#endif
#endif
