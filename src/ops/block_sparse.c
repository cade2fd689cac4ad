// SPDX-License-Identifier: MIT
// block_sparse.c - the operator of kiln/ops/block_sparse.h over kernels/gemm/block_sparse.tile.
#include "kiln/ops/block_sparse.h"
#include "ops/call.h"

#include <inttypes.h>

enum { BLOCK = 128, BLOCK_K = 64, BLOCK_MOST = 1 << 16 };

// A block is a tile of a power of two, from 16 on, or several of the largest.
static kiln_status check_block(const Call *call, const char *name, int64_t *block, int64_t largest)
{
    if (*block == 0) *block = largest;
    const bool fits = *block >= 16 && *block <= BLOCK_MOST &&
                      (*block % largest == 0 || (*block < largest && (*block & (*block - 1)) == 0));
    return fits ? KILN_OK
                : call_fail(call, KILN_UNSUPPORTED,
                            "'%s' is %" PRId64 ", expected a power of two from 16 to %" PRId64
                            ", or a multiple of it up to %d",
                            name, *block, largest, BLOCK_MOST);
}

static kiln_status check_mask(const Call *call, const char *letter, const char *blocks, const char *name, int64_t block)
{
    const int64_t is = call_extent(call, blocks), wanted = (call_extent(call, letter) + block - 1) / block;
    return is == wanted
               ? KILN_OK
               : call_fail(call, KILN_BAD_SHAPE,
                           "'mask' has %" PRId64 " %s, expected %" PRId64 " of '%s' = %" PRId64 ": %s is %" PRId64, is,
                           blocks, wanted, name, block, letter, call_extent(call, letter));
}

kiln_status kiln_block_sparse_gemm(kiln_ops *ops, kiln_stream *stream, const kiln_block_sparse_gemm_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_block_sparse_gemm", ops, a, FORM(kiln_block_sparse_gemm_args));
    if (call_again(&call, stream, &status)) return status;
    const bool is_known = a->a && (unsigned)a->a->type <= KILN_BOOL;
    const unsigned results = (is_known ? TYPES_16 & 1U << a->a->type : TYPES_16) | 1U << KILN_F32;
    // clang-format off
    const Want wants[] = {
        { IN,  "a",    a->a,    TYPES_16, "A[M][K]" },
        { IN,  "b",    a->b,    0,        a->transpose_b ? "B[N][K]" : "B[K][N]" },
        { IN,  "mask", a->mask, 1 << KILN_U8 | 1 << KILN_BOOL, "[blocks of rows][blocks of columns][blocks of K]" },
        { OUT, "c",    a->c,    results,  "C[M][N]" },
    };
    // clang-format on
    int64_t m = a->block_m, n = a->block_n, k = a->block_k;
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_block(&call, "block_m", &m, BLOCK);
    if (!status) status = check_block(&call, "block_n", &n, BLOCK);
    if (!status) status = check_block(&call, "block_k", &k, BLOCK_K);
    if (!status) status = check_mask(&call, "M", "blocks of rows", "block_m", m);
    if (!status) status = check_mask(&call, "N", "blocks of columns", "block_n", n);
    if (!status) status = check_mask(&call, "K", "blocks of K", "block_k", k);
    if (status) return status;
    call_take_bytes(&call, 2);
    status = call_kernel(&call, "gemm/block_sparse.tile", "gemm_block_sparse",
                         "T=%s, TC=%s, TB=%s, GM=%d, GN=%d, GK=%d, BN=%d", kiln_type_name(a->a->type),
                         kiln_type_name(a->c->type), yes(a->transpose_b), (int)m, (int)n, (int)k,
                         n % 256 == 0 ? 256 : (int)(n < BLOCK ? n : BLOCK));
    return status ? status : call_run(&call, stream, NULL, 0);
}
