/* SPDX-License-Identifier: MIT */
/* gemm.h - matrix products of any shape: one call chooses the tiles, and whether tiles are divided along K.
 *
 *     c = activation(scale * a b + bias) + residual
 *
 * Letters: Z batch, M rows, N columns, K contraction. Tensors have two dimensions, or three with the batch first. Types:
 * a and b bf16, f16, e4m3 or f32, both the same; c, bias and residual bf16, f16, e4m3 or f32, all three the same. Sums are
 * f32. The result is the same in every run.
 *
 * kiln/ops/ops.h has what holds for all calls (memory, streams, errors, threads, first call); all tensors but bias may have
 * rows that lie apart. Rows of a or b that are not multiples of 16 bytes are read element by element, several times slower.
 * The kernel is kernels/gemm/any.tile.
 */
#ifndef KILN_OPS_GEMM_H
#define KILN_OPS_GEMM_H

#include "kiln/ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kiln_activation {
    KILN_ACTIVATION_NONE,
    KILN_ACTIVATION_RELU,
    KILN_ACTIVATION_GELU,            /* by the error function */
    KILN_ACTIVATION_GELU_TANH,       /* by its approximation */
    KILN_ACTIVATION_SILU
} kiln_activation;

typedef struct kiln_gemm_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *a;            /* in   [Z][M][K], with transpose_a [Z][K][M] */
    const kiln_tensor *b;            /* in   [Z][K][N], with transpose_b [Z][N][K] */
    const kiln_tensor *c;            /* out  [Z][M][N] */
    const kiln_tensor *bias;         /* in   [N]; NULL: none */
    const kiln_tensor *residual;     /* in   [Z][M][N]; NULL: none */
    bool    transpose_a, transpose_b;
    kiln_activation activation;
    const double *scale;             /* any number; NULL: 1 */
    void   *workspace;               /* kiln_gemm_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_gemm_args;

KILN_API kiln_status kiln_gemm_workspace_size(kiln_ops *ops, const kiln_gemm_args *args, size_t *bytes);
KILN_API kiln_status kiln_gemm(kiln_ops *ops, kiln_stream *stream, const kiln_gemm_args *args);

#ifdef __cplusplus
}
#endif
#endif
