/* SPDX-License-Identifier: MIT */
/* attention.h - softmax attention: forward, backward, packed ragged batches, decoding against a cache.
 *
 *     s[i][j] = scale * <q[i], k[j]>,  out[i] = sum over visible j of softmax(s[i])[j] * v[j],
 *     lse[i]  = ln of the sum over visible j of exp(s[i][j])
 *
 * Letters: B batch, S query rows, SKV key rows, H query heads, HKV key heads (H is a multiple of HKV: query head h reads
 * key head h / (H / HKV)), D size of queries and keys, DV of values; D and DV are multiples of 16 up to 256. Types: bf16,
 * f16 or f32, the same for all but lse, which is f32. Masks are bottom-right: query i of S sees key j of SKV if
 * j <= i + SKV - S. A row that sees no key has out 0, lse -infinity and gradients of 0. One that sees a score of NaN or
 * +infinity has NaN in out, lse and gradients; a key whose score is -infinity counts as masked.
 *
 * softcap > 0 (from 1e-30 to 1e30): s becomes softcap * tanh(s / softcap). sinks: a logit of each query head, natural, not scaled
 * and not capped, whose exponential is added to the sums of softmax and lse; it has no value. Then the lse of a row that sees no
 * key is its sink. On GPUs the tanh of a forward call in 16 bits that asks for no lse is true to 2^-10 of itself, else to 2^-21.
 *
 * kiln/ops/ops.h has what holds for all calls (memory, streams, errors, threads, first call). The kernels are
 * kernels/attention/forward.tile, split.tile, varlen.tile, sink.tile, backward.tile, backward_varlen.tile and decode.tile.
 */
#ifndef KILN_OPS_ATTENTION_H
#define KILN_OPS_ATTENTION_H

#include "kiln/ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- forward, sequences of equal length */

typedef struct kiln_attention_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   [B][S][H][D] */
    const kiln_tensor *k;            /* in   [B][SKV][HKV][D] */
    const kiln_tensor *v;            /* in   [B][SKV][HKV][DV] */
    const kiln_tensor *out;          /* out  [B][S][H][DV] */
    const kiln_tensor *lse;          /* out  f32 [B][H][S]; NULL: not wanted */
    bool    causal;
    int64_t window;                  /* > 0: causal, and only the last `window` keys up to the query's own */
    const double *scale;             /* > 0; NULL: 1/sqrt(D) */
    const kiln_tensor *sinks;        /* in   f32 [H]; NULL: none */
    double  softcap;                 /* > 0; 0: none */
    void   *workspace;               /* kiln_attention_forward_workspace_size bytes, which are 0 for most shapes. With fewer, or NULL,
                                      * the call divides no keys: few queries over many keys then leave multiprocessors idle */
    size_t  workspace_bytes;
} kiln_attention_args;

KILN_API kiln_status kiln_attention_forward_workspace_size(kiln_ops *ops, const kiln_attention_args *args, size_t *bytes);
KILN_API kiln_status kiln_attention_forward(kiln_ops *ops, kiln_stream *stream, const kiln_attention_args *args);

/* ---- forward, a ragged batch packed without padding */

typedef struct kiln_attention_varlen_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   [TQ][H][D]: sequence b is rows q_offsets[b] to q_offsets[b + 1] - 1 */
    const kiln_tensor *k;            /* in   [TK][HKV][D]: the same with k_offsets */
    const kiln_tensor *v;            /* in   [TK][HKV][DV] */
    const kiln_tensor *q_offsets;    /* in   i32 [B + 1], from 0 to TQ, not decreasing */
    const kiln_tensor *k_offsets;    /* in   i32 [B + 1], from 0 to TK, not decreasing */
    int64_t max_queries;             /* rows of the longest sequence of queries, or more; rows past it are not computed */
    const kiln_tensor *out;          /* out  [TQ][H][DV] */
    const kiln_tensor *lse;          /* out  f32 [H][TQ]; NULL: not wanted */
    bool    causal;                  /* within each sequence */
    int64_t window;                  /* > 0: causal, and only the last `window` keys up to the query's own */
    const double *scale;             /* > 0; NULL: 1/sqrt(D) */
    const kiln_tensor *sinks;        /* in   f32 [H]; NULL: none */
    double  softcap;                 /* > 0; 0: none */
} kiln_attention_varlen_args;

KILN_API kiln_status kiln_attention_forward_varlen(kiln_ops *ops, kiln_stream *stream, const kiln_attention_varlen_args *args);

/* The same with q, k and v, or k and v, of each token and head packed in one tensor. For the gradients pass the parts to the
 * backward call: kiln_tensor_slice(&dqkv, 2, 0, D, &dq) and so on. */
typedef struct kiln_attention_qkvpacked_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *qkv;          /* in   [T][H][2 * D + DV]: q, then k, then v */
    const kiln_tensor *offsets;      /* in   i32 [B + 1], from 0 to T, not decreasing */
    int64_t head_size;               /* D */
    int64_t max_rows;                /* of the longest sequence, or more; rows past it are not computed */
    const kiln_tensor *out;          /* out  [T][H][DV] */
    const kiln_tensor *lse;          /* out  f32 [H][T]; NULL: not wanted */
    bool    causal;
    int64_t window;
    const double *scale;
    const kiln_tensor *sinks;        /* in   f32 [H]; NULL: none */
    double  softcap;                 /* > 0; 0: none */
} kiln_attention_qkvpacked_args;

KILN_API kiln_status kiln_attention_forward_qkvpacked(kiln_ops *ops, kiln_stream *stream, const kiln_attention_qkvpacked_args *args);

typedef struct kiln_attention_kvpacked_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   [TQ][H][D] */
    const kiln_tensor *kv;           /* in   [TK][HKV][D + DV]: k, then v */
    const kiln_tensor *q_offsets;    /* in   i32 [B + 1] */
    const kiln_tensor *k_offsets;    /* in   i32 [B + 1] */
    int64_t max_queries;
    const kiln_tensor *out;          /* out  [TQ][H][DV] */
    const kiln_tensor *lse;          /* out  f32 [H][TQ]; NULL: not wanted */
    bool    causal;
    int64_t window;
    const double *scale;
    const kiln_tensor *sinks;        /* in   f32 [H]; NULL: none */
    double  softcap;                 /* > 0; 0: none */
} kiln_attention_kvpacked_args;

KILN_API kiln_status kiln_attention_forward_kvpacked(kiln_ops *ops, kiln_stream *stream, const kiln_attention_kvpacked_args *args);

/* ---- backward, sequences of equal length: the gradients of q, k, v and sinks, from inputs and outputs of the forward call */

typedef struct kiln_attention_backward_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   [B][S][H][D] */
    const kiln_tensor *k;            /* in   [B][SKV][HKV][D] */
    const kiln_tensor *v;            /* in   [B][SKV][HKV][DV] */
    const kiln_tensor *out;          /* in   [B][S][H][DV], of the forward call */
    const kiln_tensor *lse;          /* in   f32 [B][H][S], of the forward call */
    const kiln_tensor *dout;         /* in   [B][S][H][DV]: the gradient of out; that of lse is taken as 0 */
    const kiln_tensor *dq;           /* out  [B][S][H][D] */
    const kiln_tensor *dk;           /* out  [B][SKV][HKV][D], summed over the query heads of a key head */
    const kiln_tensor *dv;           /* out  [B][SKV][HKV][DV] */
    bool    causal;                  /* as in the forward call */
    bool    deterministic;           /* dq in a pass of its own instead of by atomics: the same bits every time, slower */
    const double *scale;             /* as in the forward call */
    void   *workspace;               /* kiln_attention_backward_workspace_size bytes */
    size_t  workspace_bytes;
    int64_t window;                  /* as in the forward call */
    const kiln_tensor *sinks;        /* in   f32 [H], of the forward call; NULL: none */
    const kiln_tensor *dsinks;       /* out  f32 [H], the same bits every time; there if sinks are */
    double  softcap;                 /* as in the forward call */
} kiln_attention_backward_args;

KILN_API kiln_status kiln_attention_backward_workspace_size(kiln_ops *ops, const kiln_attention_backward_args *args,
                                                            size_t *bytes);
KILN_API kiln_status kiln_attention_backward(kiln_ops *ops, kiln_stream *stream, const kiln_attention_backward_args *args);

/* ---- backward, a ragged batch packed without padding */

typedef struct kiln_attention_backward_varlen_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   [TQ][H][D], as in the forward call; so are the next five */
    const kiln_tensor *k;            /* in   [TK][HKV][D] */
    const kiln_tensor *v;            /* in   [TK][HKV][DV] */
    const kiln_tensor *q_offsets;    /* in   i32 [B + 1] */
    const kiln_tensor *k_offsets;    /* in   i32 [B + 1] */
    int64_t max_keys;                /* keys of the longest sequence of keys, or more; keys past it get no gradient */
    const kiln_tensor *out;          /* in   [TQ][H][DV], of the forward call */
    const kiln_tensor *lse;          /* in   f32 [H][TQ], of the forward call */
    const kiln_tensor *dout;         /* in   [TQ][H][DV]: the gradient of out; that of lse is taken as 0 */
    const kiln_tensor *dq;           /* out  [TQ][H][D] */
    const kiln_tensor *dk;           /* out  [TK][HKV][D], summed over the query heads of a key head */
    const kiln_tensor *dv;           /* out  [TK][HKV][DV] */
    bool    causal;                  /* as in the forward call */
    bool    deterministic;           /* dq in a pass of its own instead of by atomics: the same bits every time, slower */
    int64_t max_queries;             /* if deterministic: rows of the longest sequence of queries, or more; rows past it: dq 0 */
    const double *scale;             /* as in the forward call */
    void   *workspace;               /* kiln_attention_backward_varlen_workspace_size bytes */
    size_t  workspace_bytes;
    int64_t window;                  /* as in the forward call */
    const kiln_tensor *sinks;        /* in   f32 [H], of the forward call; NULL: none */
    const kiln_tensor *dsinks;       /* out  f32 [H], the same bits every time; there if sinks are */
    double  softcap;                 /* as in the forward call */
} kiln_attention_backward_varlen_args;

KILN_API kiln_status kiln_attention_backward_varlen_workspace_size(kiln_ops *ops, const kiln_attention_backward_varlen_args *args,
                                                                   size_t *bytes);
KILN_API kiln_status kiln_attention_backward_varlen(kiln_ops *ops, kiln_stream *stream,
                                                    const kiln_attention_backward_varlen_args *args);

/* ---- decoding: one query row for each request against a cache of S keys, which are split among SMs or cores. On a GPU as many
 * query heads may share a key head as fit on a multiprocessor: at least 128 in 16 bits, 16 in f32 */

typedef struct kiln_attention_decode_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   [B][H][D] */
    const kiln_tensor *k;            /* in   [B][S][HKV][D] */
    const kiln_tensor *v;            /* in   [B][S][HKV][DV] */
    const kiln_tensor *mask;         /* in   u8 [B][S][HKV], 0 masks the key; NULL: no mask */
    const kiln_tensor *lengths;      /* in   i32 [B]: how many of the S keys each request has, clamped to 0 .. S; keys after
                                      *      them are not read. NULL: all have S */
    const kiln_tensor *out;          /* out  [B][H][DV] */
    const kiln_tensor *lse;          /* out  f32 [B][H]; NULL: not wanted */
    int64_t splits;                  /* into how many parts the keys are split; 0: as many as fill the device */
    const double *scale;             /* > 0; NULL: 1/sqrt(D) */
    void   *workspace;               /* kiln_attention_decode_workspace_size bytes */
    size_t  workspace_bytes;
    double  softcap;                 /* > 0; 0: none */
    const kiln_tensor *sinks;        /* in   f32 [H]; NULL: none */
} kiln_attention_decode_args;

KILN_API kiln_status kiln_attention_decode_workspace_size(kiln_ops *ops, const kiln_attention_decode_args *args, size_t *bytes);
KILN_API kiln_status kiln_attention_decode(kiln_ops *ops, kiln_stream *stream, const kiln_attention_decode_args *args);

#ifdef __cplusplus
}
#endif
#endif
