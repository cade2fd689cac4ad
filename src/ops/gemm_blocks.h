// SPDX-License-Identifier: MIT
// gemm_blocks.h - products of kiln_gemm whose scales are of blocks of 128, and the kernels that they share with kiln/ops/quant.h.
#ifndef KILN_OPS_GEMM_BLOCKS_H
#define KILN_OPS_GEMM_BLOCKS_H

#include "kiln/ops/gemm.h"
#include "ops/call.h"

// Scales of a have as many dimensions as a.
static inline bool gemm_has_blocks(const kiln_gemm_args *g)
{
    return g->a && g->a->rank == 2 && g->a->type == KILN_E4M3 && g->a_scales && g->a_scales->rank == 2;
}
// Checks the arguments and finds the kernel; ranks have been looked at.
kiln_status gemm_prepare_blocks(Call *call, const kiln_gemm_args *g);

// What a table says of the scales of A, which it has by columns if the caller's are contiguous so.
const char *gemm_row_scales_shape(const kiln_tensor *scales);
// The kernel of a product of e4m3, c and bias of `result`, for the extents M, N and BLOCKS of a table of A, W, SA, SW, BIAS and C.
kiln_status gemm_choose_blocks(Call *call, kiln_type result, const kiln_tensor *bias, bool by_columns);

#endif
