/* SPDX-License-Identifier: MIT */
/* nn.h - the small operators around products and attention: norms, rotary embedding, activations, softmax, cross entropy,
 * embedding lookup, argmax, casts to fp8, Hadamard transform, convolution.
 *
 * Letters: M rows, N elements of a row. A tensor of more dimensions is taken as rows of its last one: describe it so. Types: T is
 * bf16, f16 or f32, the same for all tensors of a call that have it; sums are f32.
 *
 * kiln/ops/ops.h has what holds for all calls (memory, streams, errors, threads, first call). Rows of all tensors [M][N], [M][V],
 * [V][N], [M][G][N] and [tokens][H][D] may lie apart, but those of kiln_hadamard; pixels and lines of a convolution's, too. One
 * call needs a workspace, kiln_gated_norm_backward. Results are the same in every run. The kernels are in kernels/norm,
 * kernels/nn, kernels/cast, kernels/transform and kernels/conv.
 */
#ifndef KILN_OPS_NN_H
#define KILN_OPS_NN_H

#include "kiln/ops/gemm.h"
#include "kiln/ops/rotary.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out = (s - mean) / sqrt(variance + eps) * weight + bias of s = x + residual, row by row; RMS norm: mean 0. */
typedef struct kiln_norm_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *x;            /* in   T [M][N], N from 1 to 16384 */
    const kiln_tensor *residual;     /* in   T [M][N]; NULL: none */
    const kiln_tensor *weight;       /* in   T [N]; NULL: 1 */
    const kiln_tensor *bias;         /* in   T [N]; NULL: 0 */
    const kiln_tensor *out;          /* out  T, e4m3 or i8 [M][N]; narrow ones divided by their row's scale, saturating; NaN is 0 in i8 */
    const kiln_tensor *sum;          /* out  T [M][N]: x + residual, rounded, which is what is normalised; NULL: not wanted */
    const kiln_tensor *out_scale;    /* out  f32 [M]: max(largest magnitude of the row, 1e-4) / 448, for i8 / 127. With e4m3 and i8 */
    double  eps;                     /* at least 0, and finite */
} kiln_norm_args;

KILN_API kiln_status kiln_rms_norm(kiln_ops *ops, kiln_stream *stream, const kiln_norm_args *args);
KILN_API kiln_status kiln_layer_norm(kiln_ops *ops, kiln_stream *stream, const kiln_norm_args *args);

/* RMS norm of groups of N elements beside a gate: out = norm(x) * weight * f(z), or with gate_first norm(x * f(z)) * weight; f is
 * silu. Heads of a token are its groups, or parts of a long row; a plain row is one group. eps as above.
 *
 * The gradient without z is that of kiln_rms_norm: what its groups are made from is computed again from x. That of the weight is
 * a sum of f32, in an order that the shapes decide. dresidual, the gradient of what went past the norm, is added to dx. */
typedef struct kiln_gated_norm_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *x;            /* in   T [M][G][N], N from 1 to 8192; of f32 to 4096 */
    const kiln_tensor *z;            /* in   T [M][G][N]; NULL: no gate */
    const kiln_tensor *weight;       /* in   T [N], or [G][N]; NULL: 1 */
    const kiln_tensor *out;          /* out  T [M][G][N] */
    double  eps;                     /* at least 0, and finite */
    bool    gate_first;              /* x is multiplied by f(z), then normalised */
    bool    sigmoid;                 /* f(z) = 1 / (1 + exp(-z)) */
} kiln_gated_norm_args;

typedef struct kiln_gated_norm_backward_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *x;            /* in   T [M][G][N], as in the forward call, as all down to weight */
    const kiln_tensor *z;            /* in   T [M][G][N]; NULL: no gate */
    const kiln_tensor *weight;       /* in   T [N], or [G][N]; NULL: 1 */
    const kiln_tensor *dout;         /* in   T [M][G][N] */
    const kiln_tensor *dresidual;    /* in   T [M][G][N]; NULL: 0 */
    const kiln_tensor *dx;           /* out  T [M][G][N] */
    const kiln_tensor *dz;           /* out  T [M][G][N]; NULL: not wanted. Not without z */
    const kiln_tensor *dweight;      /* out  T, of weight's shape; NULL: not wanted. Not without weight */
    double  eps;
    bool    gate_first, sigmoid;
    void   *workspace;               /* kiln_gated_norm_backward_workspace_size bytes; 0 without dweight */
    size_t  workspace_bytes;
} kiln_gated_norm_backward_args;

KILN_API kiln_status kiln_gated_norm(kiln_ops *ops, kiln_stream *stream, const kiln_gated_norm_args *args);
KILN_API kiln_status kiln_gated_norm_backward_workspace_size(kiln_ops *ops, const kiln_gated_norm_backward_args *args,
                                                             size_t *bytes);
KILN_API kiln_status kiln_gated_norm_backward(kiln_ops *ops, kiln_stream *stream, const kiln_gated_norm_backward_args *args);

/* Turns pairs of each head's elements, in place, by an angle that grows with the token's position (kiln/ops/rotary.h). */
typedef struct kiln_rotary_embedding_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *x;            /* inout T [tokens][H][D]: queries or keys */
    const kiln_tensor *positions;    /* in   i32 [tokens] */
    const kiln_rotary *rotary;       /* in host memory; NULL: halves, all of D, base 10000 */
    int64_t trained_length;          /* YaRN, Llama 3, NTK: positions that the model was trained for, at least 1 */
    bool    backward;                /* by the opposite angle: what it makes of a gradient */
    const kiln_tensor *lengths;      /* in   i32 [tokens]: NTK: L, the tokens of the sequence that each is of; NULL with other styles */
} kiln_rotary_embedding_args;

KILN_API kiln_status kiln_rotary_embedding(kiln_ops *ops, kiln_stream *stream, const kiln_rotary_embedding_args *args);

/* out = activation(gate) * up. SwiGLU: KILN_ACTIVATION_SILU, gate and up parts of one tensor [M][2 N]. */
typedef struct kiln_activate_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *gate;         /* in   T [M][N] */
    const kiln_tensor *up;           /* in   T [M][N]; NULL: 1 */
    const kiln_tensor *out;          /* out  T [M][N] */
    kiln_activation activation;
} kiln_activate_args;

typedef struct kiln_activate_backward_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *gate;         /* in   T [M][N] */
    const kiln_tensor *up;           /* in   T [M][N]; NULL: 1 */
    const kiln_tensor *dout;         /* in   T [M][N] */
    const kiln_tensor *dgate;        /* out  T [M][N] */
    const kiln_tensor *dup;          /* out  T [M][N]; NULL: not wanted. Not without up */
    kiln_activation activation;
} kiln_activate_backward_args;

KILN_API kiln_status kiln_activate(kiln_ops *ops, kiln_stream *stream, const kiln_activate_args *args);
KILN_API kiln_status kiln_activate_backward(kiln_ops *ops, kiln_stream *stream, const kiln_activate_backward_args *args);

/* A row of -infinity has no softmax: NaN. */
typedef struct kiln_softmax_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *x;            /* in   T [M][N], N at least 1 */
    const kiln_tensor *out;          /* out  bf16, f16 or f32 [M][N] */
} kiln_softmax_args;

KILN_API kiln_status kiln_softmax(kiln_ops *ops, kiln_stream *stream, const kiln_softmax_args *args);

/*
 * loss = lse - logits[label], natural logarithms. A label outside of the row, such as -100, is ignored: loss and gradient are 0.
 * kiln_cross_entropy writes the gradient, too, if dlogits is given, which is faster than kiln_cross_entropy_backward after it.
 */
typedef struct kiln_cross_entropy_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *logits;       /* in   T [M][V], V at least 1 */
    const kiln_tensor *labels;       /* in   i32 [M] */
    const kiln_tensor *loss;         /* out  f32 [M] */
    const kiln_tensor *lse;          /* out  f32 [M]: the logarithm of the sum of exponentials, for the backward pass */
    const kiln_tensor *dloss;        /* in   f32 [M]; NULL: 1. Not without dlogits */
    const kiln_tensor *dlogits;      /* out  T [M][V], no memory of logits; NULL: not wanted */
} kiln_cross_entropy_args;

typedef struct kiln_cross_entropy_backward_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *logits;       /* in   T [M][V] */
    const kiln_tensor *labels;       /* in   i32 [M] */
    const kiln_tensor *lse;          /* in   f32 [M], of the forward pass */
    const kiln_tensor *dloss;        /* in   f32 [M] */
    const kiln_tensor *dlogits;      /* out  T [M][V] */
} kiln_cross_entropy_backward_args;

KILN_API kiln_status kiln_cross_entropy(kiln_ops *ops, kiln_stream *stream, const kiln_cross_entropy_args *args);
KILN_API kiln_status kiln_cross_entropy_backward(kiln_ops *ops, kiln_stream *stream, const kiln_cross_entropy_backward_args *args);

/* Rows of a table by number, times a factor. A number that is no row of the table gives zeros. */
typedef struct kiln_embedding_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *table;        /* in   T [V][N] */
    const kiln_tensor *tokens;       /* in   i32 [M] */
    const kiln_tensor *out;          /* out  T [M][N] */
    const double *scale;             /* > 0; NULL: 1 */
} kiln_embedding_args;

KILN_API kiln_status kiln_embedding(kiln_ops *ops, kiln_stream *stream, const kiln_embedding_args *args);

/* The column of the largest of each row, the first among equals; NaN counts as the largest. */
typedef struct kiln_argmax_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *x;            /* in   T [M][N], N at least 1 */
    const kiln_tensor *index;        /* out  i32 [M] */
} kiln_argmax_args;

KILN_API kiln_status kiln_argmax(kiln_ops *ops, kiln_stream *stream, const kiln_argmax_args *args);

/* x is about out * scale, scale = max(largest magnitude, 1e-4) / 448 of a row, or of each `group` neighbours in it. NaN stays NaN.
 *
 * Scales of groups may be contiguous by columns, with strides 1 and a multiple of 4, but with counts: as products by blocks take them.
 *
 * With counts, rows of x are groups that stand back to back, counts[g] of them, and each group of out and scales has a place for R
 * rows, as kiln_grouped_gemm takes them with counts: codes and scales past its own are 0. Rows past R are left out. */
typedef struct kiln_cast_fp8_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *x;            /* in   T [M][N] */
    const kiln_tensor *out;          /* out  e4m3 [M][N], with counts [G][R][N] */
    const kiln_tensor *scales;       /* out  f32 [M], with a group [M][N / group, rounded up], with counts [G][R][...] */
    int64_t group;                   /* 32, 64, 128 or 256; 0: whole rows, not with counts */
    const kiln_tensor *counts;       /* in   i32 [G], M or less in all (negative: none); NULL: rows are no groups */
} kiln_cast_fp8_args;

KILN_API kiln_status kiln_cast_fp8(kiln_ops *ops, kiln_stream *stream, const kiln_cast_fp8_args *args);

/* x is about out * scale, scale = max(largest magnitude, 1e-5) / 127 of a row: activations for W8A8, W4A8 and W2A8 of quant.h. Rounded
 * to even; NaN is 0. */
typedef struct kiln_cast_int8_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *x;            /* in   T [M][N] */
    const kiln_tensor *out;          /* out  i8 [M][N] */
    const kiln_tensor *scales;       /* out  f32 [M] */
} kiln_cast_int8_args;

KILN_API kiln_status kiln_cast_int8(kiln_ops *ops, kiln_stream *stream, const kiln_cast_int8_args *args);

/* The Walsh-Hadamard transform of each row in natural order, not normalised. */
typedef struct kiln_hadamard_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *x;            /* in   T [M][N], N a power of two from 2 to 32768 */
    const kiln_tensor *out;          /* out  T [M][N] */
} kiln_hadamard_args;

KILN_API kiln_status kiln_hadamard(kiln_ops *ops, kiln_stream *stream, const kiln_hadamard_args *args);

/* OH = (H + 2 pad - dilation (KH - 1) - 1) / stride + 1, OW alike; outside of the image is 0. */
typedef struct kiln_conv2d_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *x;            /* in   T [images][H][W][C] */
    const kiln_tensor *filter;       /* in   T [KH][KW][C][F] */
    const kiln_tensor *out;          /* out  T [images][OH][OW][F] */
    int64_t stride, dilation;        /* at least 1; 0: 1 */
    int64_t pad;                     /* at least 0, on all sides */
} kiln_conv2d_args;

KILN_API kiln_status kiln_conv2d(kiln_ops *ops, kiln_stream *stream, const kiln_conv2d_args *args);

#ifdef __cplusplus
}
#endif
#endif
