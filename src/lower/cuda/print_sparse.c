// SPDX-License-Identifier: MIT
// print_sparse.c - printing: the places of a 2:4 sparse operand's kept elements (sparse.c).
//
// What is added to a dense product is a word for each lane and instruction that names the places of kept elements, two
// bits each, in the order in which `meta` holds them. Of four lanes that have rows r and r + 8 of a warp's 16:
//
//   16-bit elements, k 32:  lane c % 2 names columns 16 * c .. 16 * c + 15, row r in its low half, row r + 8 in its
//   high bytes, k 64:            lane c names row r + 8 * (c % 2), columns 32 * (c / 2) .. 32 * (c / 2) + 31
//
// so a lane reads two half words or one word of the tile.
#include "lower/cuda/product.h"
#include "lower/cuda/print.h"

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
