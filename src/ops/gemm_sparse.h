// SPDX-License-Identifier: MIT
// gemm_sparse.h - products of kiln_gemm with places: of which one operand is 2:4 sparse.
#ifndef KILN_OPS_GEMM_SPARSE_H
#define KILN_OPS_GEMM_SPARSE_H

#include "kiln/ops/gemm.h"
#include "ops/call.h"

static inline bool gemm_is_sparse(const kiln_gemm_args *g) { return g->a_places || g->b_places; }
// Checks the arguments and finds the kernel; ranks have been looked at.
kiln_status gemm_prepare_sparse(Call *call, const kiln_gemm_args *g);

#endif
