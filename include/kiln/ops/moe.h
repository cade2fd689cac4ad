/* SPDX-License-Identifier: MIT */
/* moe.h - mixtures of experts: routing, permutation and its inverse, products of experts over ragged rows, and a whole layer in one
 * call that queues without reading anything back.
 *
 * Letters: M tokens, K experts of a token, E experts, R rows of experts one after the other, D elements of a token, F hidden
 * elements of an expert. Types: T is bf16 or f16, the same for all tensors of a call that have it; sums are f32.
 * An expert's number outside of 0 .. E - 1 (-1, or one that lives on another device) is none of the call's: its pair of token and
 * expert has no row, and adds nothing.
 *
 * kiln/ops/ops.h has what holds for all calls (memory, streams, errors, threads, first call). Tensors are contiguous, but for a, b
 * and c of kiln_grouped_gemm with offsets, whose rows may lie apart, and those of kiln_moe_unpermute and x and rows of
 * kiln_moe_permute. Results are the same in every run. Kernels are built for E and K, that of kiln_moe for D, too, and for few,
 * some or many rows: an expert's in the mean (on a GPU up to 24, up to 64, more), in kiln_moe the tokens likewise with shared
 * experts, and pairs to be sorted (up to 256, more). Within these, other sizes may differ from call to call. They are in kernels/moe.
 */
#ifndef KILN_OPS_MOE_H
#define KILN_OPS_MOE_H

#include "kiln/ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How experts are chosen. Zeroed: a softmax over all experts, the K largest, weights as they are. */
typedef struct kiln_moe_routing {
    bool    sigmoid;                 /* scores are sigmoids of the logits; false: a softmax of a token's */
    bool    renormalise;             /* weights are divided by their sum */
    const double *scale;             /* > 0: of all weights; NULL: 1 */
    int64_t groups, top_groups;      /* experts in groups of E / groups, of which the best top_groups are chosen from; 0: one group */
    int64_t group_scores;            /* a group is as good as the sum of so many largest of its scores, 1 or 2; 0: 2 */
} kiln_moe_routing;

/* Largest score first, among equals the lowest number; NaN is below every number. */
typedef struct kiln_moe_route_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *logits;       /* in   bf16, f16 or f32 [M][E], E up to 1024 */
    const kiln_tensor *correction;   /* in   f32 [E]: added to scores for the choice, not for the weights; NULL: none */
    const kiln_tensor *experts;      /* out  i32 [M][K] */
    const kiln_tensor *weights;      /* out  f32 [M][K] */
    const kiln_moe_routing *routing; /* in host memory; NULL: zeroed */
} kiln_moe_route_args;

KILN_API kiln_status kiln_moe_route(kiln_ops *ops, kiln_stream *stream, const kiln_moe_route_args *args);

/* Sorts the pairs (token, k) by expert, within one by token. */
typedef struct kiln_moe_permute_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *experts;      /* in   i32 [M][K] */
    const kiln_tensor *x;            /* in   bf16, f16 or f32 [M][N]; NULL: no rows are wanted */
    const kiln_tensor *tokens;       /* out  i32 [R]: the token of each row, -1 where there is none; R at least M K + E (alignment - 1) */
    const kiln_tensor *places;       /* out  i32 [M][K]: the row of each pair; -1: none */
    const kiln_tensor *offsets;      /* out  i32 [E + 1]: where each expert's rows begin, and the last ones end; E up to 4096 */
    const kiln_tensor *rows;         /* out  as x [R][N]: the tokens' rows, zeros where there is none. With x */
    int64_t alignment;               /* experts begin at multiples of so many rows, 1 to 1024; 0: 1 */
} kiln_moe_permute_args;

KILN_API kiln_status kiln_moe_permute(kiln_ops *ops, kiln_stream *stream, const kiln_moe_permute_args *args);

/* out[m] = shared[m] + sum over k of weights[m][k] rows[places[m][k]] + residual[m], in this order. */
typedef struct kiln_moe_unpermute_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *rows;         /* in   bf16, f16 or f32 [R][N] */
    const kiln_tensor *places;       /* in   i32 [M][K]; K from 1 to 64 */
    const kiln_tensor *weights;      /* in   f32 [M][K]; NULL: 1 */
    const kiln_tensor *shared;       /* in   as rows [M][N]; NULL: none */
    const kiln_tensor *residual;     /* in   as rows [M][N]; NULL: none */
    const kiln_tensor *out;          /* out  as rows [M][N] */
} kiln_moe_unpermute_args;

KILN_API kiln_status kiln_moe_unpermute(kiln_ops *ops, kiln_stream *stream, const kiln_moe_unpermute_args *args);

/* c[r] = a[r] b[e] + bias[e] of the expert e that row r belongs to. Either experts stand back to back, from offsets[e] to
 * offsets[e + 1], or, with counts, each has a place of its own, of which its first counts[e] rows count (negative: 0). Rows of c
 * that belong to no expert are not written. Any offsets are fine: experts may be empty, and need not begin at whole tiles. Of e4m3,
 * with transpose_b and without bias, each 1 x 128 of a and each 128 x 128 of a b[e] has a scale, as DeepGEMM has them. */
typedef struct kiln_grouped_gemm_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *a;            /* in   T or e4m3 [R][K], with counts [E][rows][K] */
    const kiln_tensor *b;            /* in   as a [E][K][N], with transpose_b [E][N][K] */
    const kiln_tensor *c;            /* out  T or f32 [R][N], with counts [E][rows][N] */
    const kiln_tensor *a_scales;     /* in   f32 [R][K / 128, rounded up], with counts [E][rows][...]; of e4m3 */
    const kiln_tensor *b_scales;     /* in   f32 [E][N / 128, rounded up][K / 128, rounded up]; of e4m3 */
    const kiln_tensor *offsets;      /* in   i32 [E + 1]: from 0 up to R at most, never falling; NULL: counts are given */
    const kiln_tensor *counts;       /* in   i32 [E]; NULL: offsets are given */
    const kiln_tensor *bias;         /* in   as c [E][N]; NULL: none */
    bool    transpose_b;
    void   *workspace;               /* kiln_grouped_gemm_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_grouped_gemm_args;

KILN_API kiln_status kiln_grouped_gemm_workspace_size(kiln_ops *ops, const kiln_grouped_gemm_args *args, size_t *bytes);
KILN_API kiln_status kiln_grouped_gemm(kiln_ops *ops, kiln_stream *stream, const kiln_grouped_gemm_args *args);

/* c[r] = (a[r] w[e]^T + bias[e]) * row_weights[r] of the expert e that row r belongs to, with weights in MXFP4, which stay packed in
 * memory: e2m1 with an exponent for each 32 along K, as kiln_quant_pack makes them of all experts' rows, [E N] of them
 * (kiln/ops/quant.h: P is K rounded up to a multiple of 128). A weight is code * 2^(scale - 127), 255 is NaN. They are taken to
 * bf16, exactly but for numbers beyond its range. K is a multiple of 32; past it scales are not 255 (those of kiln_quant_pack are
 * not). Rows of c that belong to no expert are not written. */
typedef struct kiln_grouped_mxfp4_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *a;            /* in   bf16 [R][K], with tokens [M][K]; rows may lie apart */
    const kiln_tensor *codes;        /* in   e2m1 [E][N][P], or u8 [E][N][P / 2] */
    const kiln_tensor *scales;       /* in   u8 [E][N][P / 32] */
    const kiln_tensor *offsets;      /* in   i32 [E + 1]: from 0 up to R at most, never falling */
    const kiln_tensor *tokens;       /* in   i32 [R]: the row of a that stands for r, of kiln_moe_permute; -1: zeros. NULL: r */
    const kiln_tensor *bias;         /* in   as c [E][N]; NULL: none */
    const kiln_tensor *row_weights;  /* in   f32 [R]; NULL: 1 */
    const kiln_tensor *c;            /* out  bf16 or f32 [R][N]; rows may lie apart */
    void   *workspace;               /* kiln_grouped_mxfp4_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_grouped_mxfp4_args;

KILN_API kiln_status kiln_grouped_mxfp4_workspace_size(kiln_ops *ops, const kiln_grouped_mxfp4_args *args, size_t *bytes);
KILN_API kiln_status kiln_grouped_mxfp4(kiln_ops *ops, kiln_stream *stream, const kiln_grouped_mxfp4_args *args);

/* The gradient of b: db[e] = a_e^T dc_e, of the rows of each expert; without any: zeros. Rows may lie apart. That of a is kiln_grouped_gemm of dc with
 * b the other way round. An infinity in dc, with transpose_b in a, may give NaN in its column of db[e], and in no other expert's. */
typedef struct kiln_grouped_gemm_weights_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *a;            /* in   T [R][K] */
    const kiln_tensor *dc;           /* in   T [R][N] */
    const kiln_tensor *offsets;      /* in   i32 [E + 1] */
    const kiln_tensor *db;           /* out  T or f32 [E][K][N], with transpose_b [E][N][K] */
    bool    transpose_b;
} kiln_grouped_gemm_weights_args;

KILN_API kiln_status kiln_grouped_gemm_weights(kiln_ops *ops, kiln_stream *stream, const kiln_grouped_gemm_weights_args *args);

typedef enum kiln_moe_activation {
    KILN_MOE_SWIGLU,                 /* silu(g) u */
    KILN_MOE_GEGLU,                  /* gelu(g) u, by the approximation with tanh */
    KILN_MOE_SWIGLU_CLAMPED          /* g sigmoid(alpha g) (u + 1), of min(g, limit) and u within -limit .. limit: gpt-oss */
} kiln_moe_activation;

/* What weights of experts are. D and F are those of x and of the hidden elements; X/128 is rounded up.
 *
 *              gate_up                        gate_up_scales           down                 down_scales
 *     SAME     T [E][2 F][D]                  -                        T [E][D][F]          -
 *     MXFP4    e2m1 [E][2 F][P of D]          u8 [E][2 F][P/32]        e2m1 [E][D][P of F]  u8 [E][D][P/32]
 *     FP8      e4m3 [E][2 F][D]               f32 [E][2 (F/128)][D/128]  e4m3 [E][D][F]     f32 [E][D/128][F/128]
 *
 * MXFP4 is that of kiln_grouped_mxfp4: T is bf16, codes may be u8 of two each, D and F are multiples of 32; shared experts are of T.
 * FP8: each 128 x 128 has a scale, those of gate's blocks first, then of up's. x and the hidden elements are quantised in groups
 * of 128 of a row, as kiln_cast_fp8 does it; shared experts are of e4m3, too. Neither biases nor interleaved rows. */
typedef enum kiln_moe_format {
    KILN_MOE_SAME,
    KILN_MOE_MXFP4,
    KILN_MOE_FP8
} kiln_moe_format;

/* out[m] = residual[m] + shared(x[m]) + sum over k of weights[m][k] expert(x[m]), where
 * expert(x) = down act(gate x + gate bias, up x + up bias) + down bias. Experts are given, or chosen by logits. */
typedef struct kiln_moe_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *x;            /* in   T [M][D] */
    const kiln_tensor *gate_up;      /* in   T [E][2 F][D], or as format says: the rows of gate, then of up; interleaved: in turns */
    const kiln_tensor *down;         /* in   T [E][D][F], or as format says */
    const kiln_tensor *gate_up_bias; /* in   T [E][2 F], in the same order; NULL: none */
    const kiln_tensor *down_bias;    /* in   T [E][D]; NULL: none */
    const kiln_tensor *logits;       /* in   bf16, f16 or f32 [M][E], E up to 1024; NULL: experts are given */
    const kiln_tensor *correction;   /* in   f32 [E], as in kiln_moe_route; NULL: none */
    const kiln_tensor *experts;      /* in   i32 [M][K]; NULL: logits are given */
    const kiln_tensor *weights;      /* in   f32 [M][K], with experts; NULL: 1 */
    const kiln_tensor *shared_gate_up; /* in T or e4m3 [2 S][D], of all shared experts together, in the same order; NULL: none */
    const kiln_tensor *shared_down;  /* in   T or e4m3 [D][S]; NULL: none */
    const kiln_tensor *residual;     /* in   T [M][D]; NULL: none */
    const kiln_tensor *out;          /* out  T [M][D] */
    int64_t top_k;                   /* with logits: experts of a token */
    const kiln_moe_routing *routing; /* with logits; in host memory; NULL: zeroed */
    kiln_moe_activation activation;
    bool    interleaved;
    const double *alpha;             /* of the clamped activation; NULL: 1.702 */
    const double *limit;             /* of the clamped activation, positive; NULL: 7 */
    void   *workspace;               /* kiln_moe_workspace_size bytes */
    size_t  workspace_bytes;
    kiln_moe_format format;
    const kiln_tensor *gate_up_scales; /* in as format says */
    const kiln_tensor *down_scales;  /* in   as format says */
    const kiln_tensor *shared_gate_up_scales; /* in of FP8: f32 [2 (S/128)][D/128], with shared_gate_up */
    const kiln_tensor *shared_down_scales; /* in of FP8: f32 [D/128][S/128], with shared_down */
} kiln_moe_args;

KILN_API kiln_status kiln_moe_workspace_size(kiln_ops *ops, const kiln_moe_args *args, size_t *bytes);
KILN_API kiln_status kiln_moe(kiln_ops *ops, kiln_stream *stream, const kiln_moe_args *args);

#ifdef __cplusplus
}
#endif
#endif
