/* SPDX-License-Identifier: MIT */
/* paged.h - attention over paged caches of keys and values, for multi-head, grouped-query and multi-query attention:
 * decoding, speculative decoding, prefill in chunks, and batches of all of these in one call; appending to such caches.
 *
 *     s[i][j] = scale * <q[i], k[j]>,  out[i] = sum over visible j of softmax(s[i])[j] * v[j],
 *     lse[i]  = ln of the sum over visible j of exp(s[i][j])
 *
 * Letters: B requests, TQ query rows of all of them, H query heads, HKV key heads (H is a multiple of HKV: query head h reads
 * key head h / (H / HKV)), D size of queries and keys, DV of values; D and DV are multiples of 16 up to 256. Types: bf16 or
 * f16, the same for q and out; k and v have that type or are both e4m3.
 *
 * A cache is [pages][page size][HKV][D]; one whose pages have heads before tokens is passed with strides. A page has 1 to 256
 * tokens. Key t of request b is in slot t % (page size) of page table[b][t / (page size)], the same of both caches; `lengths`
 * counts the new tokens, which are appended first. Slots past a length, and table entries past its last page, are never read.
 *
 * Masks are bottom-right: query i of S of a request of L keys sees key j if j <= i + L - S. A row that sees no key has out 0
 * and lse -infinity. One that sees a score of NaN or +infinity has NaN in out and lse; a key whose score is -infinity counts
 * as masked.
 *
 * kiln/ops/ops.h has what holds for all calls (memory, streams, errors, threads, first call). The kernels are
 * kernels/attention/paged.tile, paged_plan.tile and paged_cache.tile.
 */
#ifndef KILN_OPS_PAGED_H
#define KILN_OPS_PAGED_H

#include "kiln/ops/rotary.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the plan: how the keys of a ragged batch are divided
 *
 * Without a plan the keys of each request are split into as many shares, so that the longest request is done last. A plan divides
 * the keys of the whole batch into parts of equal work. A step plans once, and every layer with the same masks and sizes uses it. */

/* Opaque. It is made by kiln_paged_plan_make alone, may be copied, and needs no freeing; all zero it is none. What the device reads
 * of it is in the memory that the caller gave, which must not change until the last call that uses the plan has run. */
typedef struct kiln_paged_plan {
    uint64_t opaque[20];
} kiln_paged_plan;

typedef struct kiln_paged_plan_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *lengths;      /* in   i32 [B], q_offsets [B + 1] or NULL: as in kiln_paged_attention_args, as are */
    const kiln_tensor *q_offsets;    /*      max_queries, causal and window */
    int64_t rows;                    /* TQ */
    int64_t max_queries;
    int64_t heads;                   /* H */
    int64_t key_heads;               /* HKV */
    int64_t size;                    /* D */
    int64_t value_size;              /* DV; 0: D */
    bool    eight_bit;               /* the caches are e4m3 */
    bool    causal;
    int64_t window;
    int64_t parts;                   /* of equal work, 1 to 65536; 0: as many as fill the device */
    void   *memory;                  /* kiln_paged_plan_size bytes, aligned to 256 */
    size_t  memory_bytes;
} kiln_paged_plan_args;

/* Bytes of device memory that a plan takes. They depend on the numbers of the arguments and on B, and on no value in device memory;
 * with q_offsets, a batch of fewer requests and rows takes no more. */
KILN_API kiln_status kiln_paged_plan_size(kiln_ops *ops, const kiln_paged_plan_args *args, size_t *bytes);
/* Queues two or three small kernels that compute a plan, and fills *plan, which calls queued later on the same stream may use. In a
 * captured graph each replay computes the plan again, for the lengths and offsets at that time. */
KILN_API kiln_status kiln_paged_plan_make(kiln_ops *ops, kiln_stream *stream, const kiln_paged_plan_args *args, kiln_paged_plan *plan);

/* ---- attention */

typedef struct kiln_paged_attention_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_paged_plan *plan;     /* made for the same lengths, offsets, sizes and masks; NULL: none */
    const kiln_tensor *q;            /* in   bf16 or f16 [TQ][H][D]: request b has rows q_offsets[b] to q_offsets[b + 1] - 1 */
    const kiln_tensor *k;            /* in   as q, or e4m3 [pages][page size][HKV][D] */
    const kiln_tensor *v;            /* in   as k [pages][page size][HKV][DV] */
    const kiln_tensor *table;        /* in   i32 [B][pages per request], at most 2^30 slots each */
    const kiln_tensor *lengths;      /* in   i32 [B]: keys of each request, the new ones included; may be 0 */
    const kiln_tensor *q_offsets;    /* in   i32 [B + 1], from 0 to TQ, not decreasing; NULL: every request has TQ / B rows */
    int64_t max_queries;             /* with q_offsets: rows of the request that has most, or more; rows past it are not
                                      * computed. 0: TQ. A small number (times H / HKV at most 64) chooses the way of decoding. With
                                      * a plan: the plan's */
    int64_t max_keys;                /* keys of the longest request, or more: how many shares the keys are split into depends on
                                      * it, and no result; 0: what the table has room for. With a plan: not used */
    const kiln_tensor *out;          /* out  [TQ][H][DV] */
    const kiln_tensor *lse;          /* out  f32 [TQ][H]; NULL: not wanted */
    bool    causal;
    int64_t window;                  /* > 0: causal, and only the last `window` keys up to the query's own. Pages before the window
                                      * of a request's first row are not read, and their table entries may be anything */
    double  softcap;                 /* > 0: scores become softcap * tanh(s / softcap); 0: they do not */
    const kiln_tensor *slopes;       /* in   f32 [H] (ALiBi): slope * |i + L - S - j| is taken off s, once capped; NULL: none */
    const kiln_tensor *sinks;        /* in   f32 [H]: a logit, natural and not scaled, that is added to the denominator of out
                                      *      alone; NULL: none */
    const kiln_tensor *k_scales;     /* in   f32 [HKV], positive: what the keys of a head are multiplied by; NULL: 1 */
    const kiln_tensor *v_scales;     /* in   f32 [HKV]: the same for its values */
    int64_t splits;                  /* into how many shares the keys are split, 1 to 65536; 0: as many as fill the device, or as
                                      * planned */
    const double *scale;             /* > 0; NULL: 1/sqrt(D) */
    void   *workspace;               /* kiln_paged_attention_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_paged_attention_args;

/* The size depends on shapes, types, options, max_queries and max_keys, and on no value in device memory. */
KILN_API kiln_status kiln_paged_attention_workspace_size(kiln_ops *ops, const kiln_paged_attention_args *args, size_t *bytes);
KILN_API kiln_status kiln_paged_attention(kiln_ops *ops, kiln_stream *stream, const kiln_paged_attention_args *args);

/* ---- new tokens
 *
 * A slot is page * (page size) + offset in it. */

/* Slots and positions of the new tokens of all requests, the last of each: once a step, for every layer's append. */
typedef struct kiln_paged_slots_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *table;        /* in   i32 [B][pages per request] */
    const kiln_tensor *lengths;      /* in   i32 [B]: including the new tokens */
    const kiln_tensor *q_offsets;    /* in   i32 [B + 1]: as in kiln_paged_attention_args; NULL: TQ / B tokens each */
    const kiln_tensor *slots;        /* out  i32 [TQ]; -1 for a token before the first or past the table */
    const kiln_tensor *positions;    /* out  i32 [TQ]: the token's place in its request; NULL: not wanted */
    int64_t page_size;               /* tokens of a page */
} kiln_paged_slots_args;

KILN_API kiln_status kiln_paged_slots(kiln_ops *ops, kiln_stream *stream, const kiln_paged_slots_args *args);

/* Writes keys and values to their slots, the keys rotated by their positions' angles first, if asked for (queries:
 * kiln_rotary_embedding). A slot below 0 or past the cache is not written; slots that are written must differ. The rest of the
 * caches is unchanged. */
typedef struct kiln_paged_append_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *keys;         /* in    bf16 or f16 [N][HKV][D] */
    const kiln_tensor *values;       /* in    [N][HKV][DV] */
    const kiln_tensor *slots;        /* in    i32 [N] */
    const kiln_tensor *positions;    /* in    i32 [N]: with `rotary` */
    const kiln_tensor *k;            /* inout as keys, or e4m3 [pages][page size][HKV][D] */
    const kiln_tensor *v;            /* inout as k [pages][page size][HKV][DV] */
    const kiln_tensor *k_scales;     /* in    f32 [HKV], positive: what the keys of a head are divided by; NULL: 1. e4m3 saturates */
    const kiln_tensor *v_scales;     /* in    f32 [HKV]: the same for its values */
    const kiln_rotary *rotary;       /* in host memory; NULL: none. Styles: halves, interleaved, YaRN, Llama 3 */
    int64_t trained_length;          /* YaRN, Llama 3: positions that the model was trained for, at least 1 */
} kiln_paged_append_args;

KILN_API kiln_status kiln_paged_append(kiln_ops *ops, kiln_stream *stream, const kiln_paged_append_args *args);

#ifdef __cplusplus
}
#endif
#endif
