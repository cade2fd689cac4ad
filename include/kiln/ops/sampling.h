/* SPDX-License-Identifier: MIT */
/* sampling.h - tokens from logits: the largest of each row, and draws with temperature, top-k, top-p and min-p.
 *
 * Letters: M rows, N and V elements of a row. T is bf16, f16 or f32. kiln/ops/ops.h has what holds for all calls (memory, streams,
 * errors, threads, first call); rows of x and logits may lie apart. Results are the same in every run. The kernels are in
 * kernels/topk.
 */
#ifndef KILN_OPS_SAMPLING_H
#define KILN_OPS_SAMPLING_H

#include "kiln/ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The K largest elements of each row, the largest first, and their columns. Of equal ones the lowest columns are taken, and come
 * first; NaN is below every number. */
typedef struct kiln_topk_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *x;            /* in   T [M][N], N at least K */
    const kiln_tensor *values;       /* out  T [M][K], K from 1 to 2048 */
    const kiln_tensor *indices;      /* out  i32 [M][K] */
    void   *workspace;               /* kiln_topk_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_topk_args;

KILN_API kiln_status kiln_topk_workspace_size(kiln_ops *ops, const kiln_topk_args *args, size_t *bytes);
KILN_API kiln_status kiln_topk(kiln_ops *ops, kiln_stream *stream, const kiln_topk_args *args);

/* A token of each row. Its candidates are the top_k largest logits, of these the fewest, largest first, whose probabilities add up to
 * top_p of theirs, and of these those with at least min_p of the largest probability; of equal logits the lowest columns stay. With
 * `seeds` a token is drawn among them by its probability, exp(logit / temperature) up to a factor; a row whose temperature is not
 * above 0, and every row without seeds, takes the largest logit, of equal ones the lowest column. The draw is a function of the row,
 * its seed and its step alone: on one kind of device equal ones give equal tokens, whatever else is in the batch. Probabilities
 * below 2^-36 of the largest are 0. NaN is never taken, and a row without a number above -infinity has the token -1, of
 * probability 0. */
typedef struct kiln_sample_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *logits;       /* in   T [M][V], V from 1 to 262144 */
    const kiln_tensor *temperatures; /* in   f32 [M]; NULL: 1 */
    const kiln_tensor *top_k;        /* in   i32 [M], 0 or less: all; NULL: all */
    const kiln_tensor *top_p;        /* in   f32 [M], 1 or more: all, 0 or less: the largest; NULL: all */
    const kiln_tensor *min_p;        /* in   f32 [M], from 0 to 1; NULL: 0 */
    const kiln_tensor *seeds;        /* in   i64 [M]; NULL: the largest logits are taken */
    const kiln_tensor *steps;        /* in   i64 [M]: how many draws of the seed came before, such as the position; NULL: 0 */
    const kiln_tensor *tokens;       /* out  i32 [M] */
    const kiln_tensor *probabilities; /* out f32 [M]: of the token among the candidates; NULL: not wanted */
    const kiln_tensor *logprobs;     /* out  f32 [M]: its natural logarithm among all, by the logits as they are; NULL: not wanted */
    const kiln_tensor *distribution; /* out  f32 [M][V]: of all tokens among the candidates, others 0; NULL: not wanted */
} kiln_sample_args;

KILN_API kiln_status kiln_sample(kiln_ops *ops, kiln_stream *stream, const kiln_sample_args *args);

#ifdef __cplusplus
}
#endif
#endif
