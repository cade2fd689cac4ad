/* SPDX-License-Identifier: MIT */
/* gemm.h - matrix products of any shape: one call chooses the tiles, and whether tiles are divided along K.
 *
 *     c[m][n] = activation(scale * a_scales[m] * b_scales[n] * sum over k of a[m][k] b[k][n] + bias[n]) + residual[m][n]
 *
 * or, with a second matrix `up`, a gated pair, as the first half of a gated MLP:
 *
 *     c[m][n] = activation(scale * a_scales[m] * b_scales[n] * sum over k of a[m][k] b[k][n] + bias[n])
 *               * (scale * a_scales[m] * up_scales[n] * sum over k of a[m][k] up[k][n] + up_bias[n]) + residual[m][n]
 *
 * Letters: Z batch, M rows, N columns, K contraction. Tensors have two dimensions, or three with the batch first; scales have
 * one, or two with the batch first. The result is the same in every run. Types of c, bias and residual are the same:
 *
 *     a and b                          sums     c
 *     bf16, f16, f32, both the same    f32      bf16, f16, e4m3, e5m2, f32
 *     e4m3, e5m2, also one of each     f32      the same
 *     i8                               i32      i32: the sums, with bias and residual; or the same, the sums taken to f32
 *     f64                              f64      f64
 *
 * Of a sparse matrix two of each four neighbours along K are kept (2:4): the tensor has half of the columns, [Z][M][K/2], and
 * a_places or b_places, of kiln_sparse24_pack, say where they stood. a and b then are of one type of bf16, f16, e4m3, e5m2 and i8; K is a
 * multiple of 8; of b as of a the sparse rows go along K (transpose_b), and of types of 8 bits those of the other, too. There is no
 * pair, nothing is copied first, and tiles are not divided along K. The kernel is kernels/gemm/sparse_any.tile.
 *
 * Scales of blocks, as DeepGEMM has them: a and b are e4m3 without a batch, a_scales are [M][K/128], one for each 1 x 128 of a, and
 * b_scales [(N + 127)/128][K/128], one for each 128 x 128 of b. K is a multiple of 128, of b the rows go along K (transpose_b),
 * a_scales may be contiguous by columns, with strides 1 and a multiple of 4, and c is bf16, f16 or f32. Each 128 of K is summed by
 * the tensor cores, then scaled and added in f32. There is a bias, and nothing else
 * beside it. The kernels are in kernels/quant/fp8_block.tile.
 *
 * kiln/ops/ops.h has what holds for all calls (memory, streams, errors, threads, first call); rows of a, b, c and residual may
 * lie apart. On a GPU, rows of a, b and up may begin at any elements: their strides are any, their data is aligned as its type.
 * Those that do not begin at multiples of 16 bytes, or lie apart and are no multiple of that long, are copied into the workspace
 * first; its size is asked for with the tensors' data in place, since it depends on that. The kernel is
 * kernels/gemm/any.tile. Weights of 4 bits: kiln/ops/quant.h.
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

typedef enum kiln_precision {        /* of products of f32; other types have one */
    KILN_PRECISION_F32,              /* every product in f32, by multiply-adds */
    KILN_PRECISION_TF32,             /* factors rounded to 10 bits of mantissa, on tensor cores */
    KILN_PRECISION_TF32X3            /* each factor in two parts, three products: about as exact as f32 */
} kiln_precision;

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
    const kiln_tensor *a_scales;     /* in   f32 [Z][M], or of blocks [M][K/128]; NULL: 1. Not with c of i32 or f64 */
    const kiln_tensor *b_scales;     /* in   f32 [Z][N], or of blocks [N/128, rounded up][K/128]; NULL: 1. Not with c of i32 or f64 */
    kiln_precision precision;
    const kiln_tensor *up;           /* in   as b; NULL: no pair. Not with c of i32 */
    const kiln_tensor *up_scales;    /* in   f32 [Z][N]; NULL: 1 */
    const kiln_tensor *up_bias;      /* in   [N]; NULL: none */
    const kiln_tensor *a_places;     /* in   u8 [Z][M][K/8]; NULL: a is dense. Not with transpose_a or b_places */
    const kiln_tensor *b_places;     /* in   u8 [Z][N][K/8], with transpose_b; NULL: b is dense */
} kiln_gemm_args;

KILN_API kiln_status kiln_gemm_workspace_size(kiln_ops *ops, const kiln_gemm_args *args, size_t *bytes);
KILN_API kiln_status kiln_gemm(kiln_ops *ops, kiln_stream *stream, const kiln_gemm_args *args);

/* The two elements that are kept of each four along a row, and their places: two bits each, of four elements in a byte from its low
 * bits, the lower place first. Of four with more than two numbers beside 0 the two largest by magnitude are kept (NaN counts as
 * infinity, the first come first among equals): where that is not wanted, any `excess` that is not 0 tells. Tensors are contiguous. */
typedef struct kiln_sparse24_pack_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *weights;      /* in   bf16, f16, e4m3, e5m2 or i8 [Z][R][K], or [R][K]; K is a multiple of 8 */
    const kiln_tensor *values;       /* out  as weights [Z][R][K/2] */
    const kiln_tensor *places;       /* out  u8 [Z][R][K/8] */
    const kiln_tensor *excess;       /* out  i32 [Z][R]: groups of the row that had more than two; NULL with `prune` alone */
    bool    prune;                   /* what is above two may go unseen */
} kiln_sparse24_pack_args;

KILN_API kiln_status kiln_sparse24_pack(kiln_ops *ops, kiln_stream *stream, const kiln_sparse24_pack_args *args);

#ifdef __cplusplus
}
#endif
#endif
