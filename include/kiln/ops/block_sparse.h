/* SPDX-License-Identifier: MIT */
/* block_sparse.h - matrix products over the blocks that a mask keeps.
 *
 *     c = a b, of whose contraction the tiles that the mask leaves out are neither read nor multiplied
 *
 * Letters: M rows, N columns, K contraction. T is bf16 or f16. Sums are f32. kiln/ops/ops.h has what holds for all calls (memory,
 * streams, errors, threads, first call); rows of a, b and c may lie apart. The result is the same in every run. The kernel is
 * kernels/gemm/block_sparse.tile.
 */
#ifndef KILN_OPS_BLOCK_SPARSE_H
#define KILN_OPS_BLOCK_SPARSE_H

#include "kiln/ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Blocks have block_m rows of a, block_n columns of b and block_k elements along K; the mask has one entry for each, in the order
 * of rows, columns and contraction, rounded up: a block at an edge may be ragged. A row and column of the mask without any entry
 * gives zeros. */
typedef struct kiln_block_sparse_gemm_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *a;            /* in   T [M][K] */
    const kiln_tensor *b;            /* in   T [K][N], with transpose_b [N][K] */
    const kiln_tensor *mask;         /* in   u8 or bool [M / block_m][N / block_n][K / block_k], each rounded up: not 0 where a block counts */
    const kiln_tensor *c;            /* out  T or f32 [M][N] */
    int64_t block_m, block_n;        /* 16, 32, 64 or a multiple of 128, up to 65536; 0: 128 */
    int64_t block_k;                 /* 16, 32 or a multiple of 64, up to 65536; 0: 64 */
    bool    transpose_b;
} kiln_block_sparse_gemm_args;

KILN_API kiln_status kiln_block_sparse_gemm(kiln_ops *ops, kiln_stream *stream, const kiln_block_sparse_gemm_args *args);

#ifdef __cplusplus
}
#endif
#endif
