// SPDX-License-Identifier: MIT
// sparse.c - 2:4 sparse left operands on tensor cores: wgmma.mma_async.sp and mma.sp.
//
// The kept elements lie and move like a dense operand of half the contraction; the right operand has all of it. What is
// added is a word for each lane and instruction that names the places of kept elements, two bits each, in the order in
// which `meta` holds them. Of four lanes that have rows r and r + 8 of a warp's 16:
//
//   16-bit elements, k 32:  lane c % 2 names columns 16 * c .. 16 * c + 15, row r in its low half, row r + 8 in its
//   high bytes, k 64:            lane c names row r + 8 * (c % 2), columns 32 * (c / 2) .. 32 * (c / 2) + 31
//
// so a lane reads two half words or one word of the tile. TF32 keeps one of two neighbours there, not two of four.
#include "lower/cuda/cuda.h"

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

// The address of this byte of a row of metadata, plus `pieces` pieces of `piece` bytes; an element may hold several.
static Expr *address_of(Lowering *lo, const TileInfo *tile, Expr *row, int byte, Expr *pieces, int piece)
{
    const int bytes = dtype_bits(tile->buffer->type) / 8;
    if (bytes <= piece)
        return lane_address(lo, tile, row,
                            i32_add(lo, i32_const(lo, byte / bytes), i32_mul(lo, pieces, piece / bytes)));
    Expr *const within = i32_add(lo, i32_const(lo, byte % bytes), i32_mul(lo, pieces, piece));
    return expr_binary(lo->arena, X_ADD, lane_address(lo, tile, row, i32_const(lo, byte / bytes)),
                       cast(lo, DTYPE_U32, within));
}

// Rows below the product's last are computed and thrown away; their places must be valid all the same.
static Expr *row_within(Lowering *lo, const Product *p, Expr *row, int covered)
{
    return covered > p->m ? call_expr(lo, DTYPE_I32, "min", 2, row, i32_const(lo, p->m - 1)) : row;
}

Var *load_places(Lowering *lo, const Product *p)
{
    const TileInfo *const tile = tile_info(lo, p->op->matmul.meta);
    const bool of_bytes = dtype_bits(p->type) == 8;
    const int steps = p->k / p->step_k, step_rows = 16 * lo->partition.warps, step_bytes = p->step_k / 4;
    const int groups = p->division == DIVIDE_ROWS ? lo->partition.groups : 1,
              covered = groups * p->row_blocks * step_rows;
    Var *const words = emit_array(lo, DTYPE_U32, "places", p->row_blocks * steps);
    Expr *line = i32_add(lo, i32_mul(lo, var_of(lo, lo->warp), 16), lane_bits(lo, 2, 7));
    if (groups > 1) line = i32_add(lo, line, i32_mul(lo, var_of(lo, lo->group), step_rows * p->row_blocks));
    if (of_bytes) line = i32_add(lo, line, i32_mul(lo, lane_bits(lo, 0, 1), 8));
    for (int block = 0; block < p->row_blocks; block++)
        for (int step = 0; step < steps; step++) {
            Expr *const row = i32_add(lo, line, i32_const(lo, block * step_rows));
            Expr *const upper = row_within(lo, p, row, covered);
            Expr *word;
            if (of_bytes) {
                word = call_expr(lo, DTYPE_U32, "load_places", 1,
                                 address_of(lo, tile, upper, step * step_bytes, lane_bits(lo, 1, 1), 4));
            } else {
                Expr *const lower = row_within(lo, p, i32_add(lo, row, i32_const(lo, 8)), covered);
                Expr *const half = lane_bits(lo, 0, 1);
                word =
                    call_expr(lo, DTYPE_U32, "load_places", 2, address_of(lo, tile, upper, step * step_bytes, half, 2),
                              address_of(lo, tile, lower, step * step_bytes, half, 2));
            }
            emit_element(lo, words, i32_const(lo, block * steps + step), word);
        }
    return words;
}
