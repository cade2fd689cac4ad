/* SPDX-License-Identifier: MIT */
/* quant.h - products with quantised weights.
 *
 *     c = a w^T + bias,  w[n][k] = (code[n][k] - zero) * scale,  scale and zero of a group of weights along k
 *
 * Letters: M rows, N columns of c, K contraction, a multiple of 32; P, K rounded up to a multiple of 128. Weights are in the
 * library's own layout, which the packing call makes of the layouts of checkpoints, once:
 *
 *     codes   [N][P]      along k; codes of 4 and 2 bits fill bytes from their low bits. Beyond K they are 0.
 *     scales  [N][P/G]    one for each group of G: 16, 32, 64 or 128. Beyond K they are 0. Larger groups repeat theirs.
 *     zeros   [N][P/G]    u8, 0 to 64; larger ones count as 64
 *     minima  [N][P/G]    are subtracted from the product of code and scale
 *
 *     format     codes  group              scales               zeros    minima
 *     INT4       u4     16 32 64 128       f16, bf16            may be   -        AWQ, GPTQ
 *     INT4S      i4     16 32 64 128       f16, bf16            -        -        GGUF Q4_0
 *     INT2       u2     16 32 64 128       f16, bf16            may be   -        GPTQ
 *     NF4        u4     16 32 64 128       f16, bf16            -        -        QLoRA
 *     FP4        e2m1   16 32 64 128       f16, bf16            -        -
 *     MXFP4      e2m1   32                 u8: exponents, 2^(s - 127); 255 is NaN. a is bf16.
 *     INT8       i8     16 32 64 128       f16, bf16            -        -        GGUF Q8_0 and, in groups of 16, Q6_K
 *     FP8        e4m3   16 32 64 128       f16, bf16            -        -
 *     INT4MIN    u4     32                 f16, bf16            -        yes      GGUF Q4_K
 *
 * a is bf16 or f16; c and bias are both of one type, a's or f32. Scales may be of either 16-bit type: of a's they cost least.
 * For up to eight rows of a on the CPU, and two on a GPU, weights are not rounded; for more they are rounded once to a's type. Sums
 * are f32, and so are bias and residual added. The result is the same in every run.
 *
 * The formats below multiply numbers of 8 bits, each with a scale for a row of a and for a column of c, or for blocks:
 *
 *     W8A8       a i8, codes i8 [N][P];  c = (a codes^T) * a_scales[m] * scales[n]; sums are i32, exact
 *     W4A8       the same with codes i4
 *     W4A8U      the same with codes u4, from which zeros u8 [N], 0 to 64, are subtracted; NULL: 0
 *     W2A8       the same with codes i2: BitNet's -1, 0, 1
 *     FP8_BLOCK  a e4m3 with a_scales [M][P/128], codes e4m3 [N][P] with scales [(N + 127)/128][P/128], f32. Each block of 128
 *                along k is summed by the tensor cores, then scaled and added in f32.
 *
 * There scales and a_scales are f32, a has P columns, and c and bias are bf16, f16 or f32. Of i8 either may be absent: 1; with
 * neither c may be i32, the sums. a_scales of FP8_BLOCK may be contiguous by columns, with strides 1 and a multiple of 4.
 *
 * c may be contiguous by columns, its strides 1 and a multiple of 16 bytes: the transpose of c; but of FP8_BLOCK.
 *
 * kiln/ops/ops.h has what holds for all calls (memory, streams, errors, threads, first call); rows of a and c may lie apart.
 * Kernels: kernels/quant.
 */
#ifndef KILN_OPS_QUANT_H
#define KILN_OPS_QUANT_H

#include "kiln/ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kiln_quant_format {
    KILN_QUANT_INT4,
    KILN_QUANT_INT4S,
    KILN_QUANT_INT2,
    KILN_QUANT_NF4,
    KILN_QUANT_FP4,
    KILN_QUANT_MXFP4,
    KILN_QUANT_INT8,
    KILN_QUANT_FP8,
    KILN_QUANT_INT4MIN,
    KILN_QUANT_W8A8,
    KILN_QUANT_W4A8,
    KILN_QUANT_W2A8,
    KILN_QUANT_FP8_BLOCK,
    KILN_QUANT_W4A8U
} kiln_quant_format;

typedef struct kiln_quantised_gemm_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *a;            /* in   [M][K] */
    const kiln_tensor *codes;        /* in   [N][P], of the format's type or u8: [N][bytes] */
    const kiln_tensor *scales;       /* in   as the format says */
    const kiln_tensor *zeros;        /* in   [N][P/G], of W4A8U [N]; NULL: 0 */
    const kiln_tensor *minima;       /* in   [N][P/G], of the scales' type */
    const kiln_tensor *a_scales;     /* in   [M]; of FP8_BLOCK [M][P/128] */
    const kiln_tensor *bias;         /* in   [N]; NULL: none */
    const kiln_tensor *c;            /* out  [M][N] */
    kiln_quant_format format;
    int     group;                   /* G; not read where the format has one or none */
    void   *workspace;               /* kiln_quantised_gemm_workspace_size bytes */
    size_t  workspace_bytes;
    const kiln_tensor *residual;     /* in   [M][N], of c's type, added in f32; of formats with groups; NULL: none */
} kiln_quantised_gemm_args;

KILN_API kiln_status kiln_quantised_gemm_workspace_size(kiln_ops *ops, const kiln_quantised_gemm_args *args,
                                                        size_t *bytes);
KILN_API kiln_status kiln_quantised_gemm(kiln_ops *ops, kiln_stream *stream, const kiln_quantised_gemm_args *args);

/* Layouts of checkpoints. `b`: bits of a code; groups of any size that K is a multiple of, or of all of K.
 *
 *     PLAIN         weights [N][K*b/8] bytes along k, low bits first; scales [N][K/S], zeros u8 [N][K/S]
 *                   Scales are f16, bf16 or f32, MXFP4's u8.
 *     AWQ           INT4. weights i32 [K][N/8], eight columns to a word in AWQ's order, scales [K/S][N], zeros i32 [K/S][N/8]
 *     GPTQ          INT4, INT2. weights i32 [K*b/32][N], scales [K/S][N], zeros i32 [K/S][N*b/32], which hold one less.
 *                   Groups are of consecutive rows: weights whose order was changed (act-order) must have been sorted.
 *     BITSANDBYTES  NF4. PLAIN with high bits first
 *     TWIDDLED      FP4, MXFP4. PLAIN but for the bits of each two bytes (Triton's and TileLang's order for bf16)
 *     INTERLEAVED   W2A8. PLAIN but for the order in each four bytes, of codes + 2 (BitNet)
 *     GGUF          rows of ggml's blocks, bytes: Q4_0 for INT4S, Q8_0 for INT8 in groups of 32, Q6_K for INT8 in groups of 16,
 *                   Q4_K for INT4MIN. Scales and minima are products that are rounded once to the type of `scales`.
 */
typedef enum kiln_quant_layout {
    KILN_QUANT_PLAIN,
    KILN_QUANT_AWQ,
    KILN_QUANT_GPTQ,
    KILN_QUANT_BITSANDBYTES,
    KILN_QUANT_TWIDDLED,
    KILN_QUANT_INTERLEAVED,
    KILN_QUANT_GGUF
} kiln_quant_layout;

typedef struct kiln_quant_pack_args {
    size_t  struct_size;
    const kiln_tensor *weights;      /* in   as the layout says; bytes may be u8 or i8 */
    const kiln_tensor *weight_scales;/* in   as the layout says; NULL for GGUF, and where the format has no groups */
    const kiln_tensor *weight_zeros; /* in   as the layout says; NULL: none */
    const kiln_tensor *codes;        /* out  [N][P], of the format's type or u8: [N][bytes] */
    const kiln_tensor *scales;       /* out  [N][P/G]; NULL with weight_scales, but for GGUF */
    const kiln_tensor *zeros;        /* out  u8 [N][P/G]; NULL with weight_zeros */
    const kiln_tensor *minima;       /* out  [N][P/G] of INT4MIN; else NULL */
    kiln_quant_format format;
    kiln_quant_layout layout;
    int64_t k;                       /* K */
    int     group;                   /* G, as above, of scales */
    int     weight_group;            /* S, of weight_scales; 0: K */
    int     exponent_offset;         /* MXFP4: added to the exponents, 0 to 127: 127 where scales stand for 2^s */
} kiln_quant_pack_args;

KILN_API kiln_status kiln_quant_pack(kiln_ops *ops, kiln_stream *stream, const kiln_quant_pack_args *args);

/* Packed weights as numbers, w of the format, rounded once: what a product in 16 bits takes, or a check of what was packed. */
typedef struct kiln_quant_unpack_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *codes;        /* in   [N][P], as kiln_quantised_gemm takes them, as all down to minima */
    const kiln_tensor *scales;       /* in   as the format says; of W8A8, W4A8, W4A8U and W2A8 NULL: 1 */
    const kiln_tensor *zeros;        /* in   [N][P/G], of W4A8U [N]; NULL: 0 */
    const kiln_tensor *minima;       /* in   [N][P/G], of the scales' type */
    const kiln_tensor *weights;      /* out  bf16, f16 or f32 [N][K] */
    kiln_quant_format format;
    int     group;                   /* G; not read where the format has one or none */
} kiln_quant_unpack_args;

KILN_API kiln_status kiln_quant_unpack(kiln_ops *ops, kiln_stream *stream, const kiln_quant_unpack_args *args);

/* Weights of BitNet, for W2A8: scale = max(mean magnitude, 1e-5), code = weight / scale, rounded to even, within -1 .. 1. The mean
 * is that of all rows, or of those from offsets[g] to offsets[g + 1], such as the rows of queries, of keys and of values in one
 * matrix. Weights are finite. */
typedef struct kiln_quant_ternary_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *weights;      /* in   bf16, f16 or f32 [N][K]; K at least 32 */
    const kiln_tensor *offsets;      /* in   i32 [groups + 1], from 0 to N, never falling; NULL: one group */
    const kiln_tensor *codes;        /* out  i2 [N][P], or u8 [N][P/4] */
    const kiln_tensor *scales;       /* out  f32 [N] */
    void   *workspace;               /* kiln_quant_ternary_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_quant_ternary_args;

KILN_API kiln_status kiln_quant_ternary_workspace_size(kiln_ops *ops, const kiln_quant_ternary_args *args, size_t *bytes);
KILN_API kiln_status kiln_quant_ternary(kiln_ops *ops, kiln_stream *stream, const kiln_quant_ternary_args *args);

/* The last extent and type of `codes` and `scales` for K columns: P and P/G. */
KILN_API kiln_status kiln_quant_extents(kiln_quant_format format, int64_t k, int group, kiln_type *code_type,
                                        int64_t *code_columns, int64_t *scale_columns);

#ifdef __cplusplus
}
#endif
#endif
