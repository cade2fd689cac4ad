// SPDX-License-Identifier: MIT
// sparse.c - deciding: 2:4 sparse left operands on tensor cores, wgmma.mma_async.sp and mma.sp.
//
// The kept elements lie and move like a dense operand of half the contraction; the right operand has all of it. Where
// their places lie is said in print_sparse.c. TF32 keeps one of two neighbours there, not two of four.
#include "lower/gpu/facts/product.h"
#include "lower/gpu/facts/operands.h"
#include "lower/gpu/decide/iteration/hints.h"
#include "lower/gpu/decide/mma/products.h"
#include "lower/gpu/facts/info.h"

const char *check_sparse(Lowering *lo, const Product *p, bool is_wgmma)
{
    const Buffer *const meta = p->op->matmul.meta;
    const TileInfo *const places = tile_info(lo, meta);
    if (!places || meta->rank != 2) return "the metadata of a sparse operand is not a tile of its own";
    if (row_padding(meta) * dtype_bits(meta->type) / 8 % 4 != 0)
        return "the padded rows of the metadata do not begin at words";
    if (dtype_bits(p->type) == 32) return "tensor cores keep one of two f32 neighbours, not two of four";
    if (p->odd_rows || p->odd_columns) return "sparse products of bytes read their contraction along rows";
    if (!is_wgmma && dtype_bits(p->type) == 8 && dtype_is_float(p->type)) return "only wgmma multiplies sparse fp8";
    if (!p->right.transposed) return NULL;
    // An instruction reads 64 bytes of a row: a piece that no panel may divide.
    const TileInfo *const right = tile_info(lo, p->right.region.buffer);
    SharedLayout layout;
    int64_t rows, columns, start[2], width[2];
    const int bytes = dtype_bits(p->type) / 8;
    if (!product_region(&p->right.region, start, width) || !expr_as_int(right->buffer->shape[0], &rows) ||
        !expr_as_int(right->buffer->shape[1], &columns) ||
        !tile_panels(right, (int)rows, (int)columns, bytes, &layout) ||
        (layout.swizzle_bytes < 64 && !row_padding(right->buffer)) || start[1] * bytes % 64 != 0)
        return "the rows of a sparse operand's right side are not a multiple of 64 bytes";
    return NULL;
}

void finish_sparse(Lowering *lo, const Product *p)
{
    TileInfo *const places = tile_info(lo, p->op->matmul.meta);
    if (places->storage == TILE_IN_REGISTERS) {
        places->storage = TILE_IN_SHARED;
        places->why = "it holds the metadata of a sparse operand";
    }
}
