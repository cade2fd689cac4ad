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
#include "lower/gpu/print/build/build.h"
#include "lower/gpu/print/products/print_product.h"
#include "lower/gpu/print/layout/print_transfer.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/facts/info.h"

// The address of this byte of a row of metadata, plus `pieces` pieces of `piece` bytes; an element may hold several.
static Expr *address_of(Printer *pr, const TileInfo *tile, Expr *row, int byte, Expr *pieces, int piece)
{
    const int bytes = dtype_bits(tile->buffer->type) / 8;
    if (bytes <= piece)
        return lane_address(pr, tile, row,
                            i32_add(pr, i32_const(pr, byte / bytes), i32_mul(pr, pieces, piece / bytes)));
    Expr *const within = i32_add(pr, i32_const(pr, byte % bytes), i32_mul(pr, pieces, piece));
    return expr_binary(pr->arena, X_ADD, lane_address(pr, tile, row, i32_const(pr, byte / bytes)),
                       cast(pr, DTYPE_U32, within));
}

// Rows below the product's last are computed and thrown away; their places must be valid all the same.
static Expr *row_within(Printer *pr, const Product *p, Expr *row, int covered)
{
    return covered > p->m ? call_expr(pr, DTYPE_I32, "min", 2, row, i32_const(pr, p->m - 1)) : row;
}

Var *load_places(Printer *pr, const Product *p)
{
    const TileInfo *const tile = tile_info(pr->lo, p->op->matmul.meta);
    const bool of_bytes = dtype_bits(p->type) == 8;
    const int steps = p->k / p->step_k, step_rows = 16 * pr->lo->partition.warps, step_bytes = p->step_k / 4;
    const int groups = p->division == DIVIDE_ROWS ? pr->lo->partition.groups : 1,
              covered = groups * p->row_blocks * step_rows;
    Var *const words = emit_array(pr, DTYPE_U32, "places", p->row_blocks * steps);
    Expr *line = i32_add(pr, i32_mul(pr, var_of(pr, pr->warp), 16), lane_bits(pr, 2, 7));
    if (groups > 1) line = i32_add(pr, line, i32_mul(pr, var_of(pr, pr->group), step_rows * p->row_blocks));
    if (of_bytes) line = i32_add(pr, line, i32_mul(pr, lane_bits(pr, 0, 1), 8));
    for (int block = 0; block < p->row_blocks; block++)
        for (int step = 0; step < steps; step++) {
            Expr *const row = i32_add(pr, line, i32_const(pr, block * step_rows));
            Expr *const upper = row_within(pr, p, row, covered);
            Expr *word;
            if (of_bytes) {
                word = call_expr(pr, DTYPE_U32, "load_places", 1,
                                 address_of(pr, tile, upper, step * step_bytes, lane_bits(pr, 1, 1), 4));
            } else {
                Expr *const lower = row_within(pr, p, i32_add(pr, row, i32_const(pr, 8)), covered);
                Expr *const half = lane_bits(pr, 0, 1);
                word =
                    call_expr(pr, DTYPE_U32, "load_places", 2, address_of(pr, tile, upper, step * step_bytes, half, 2),
                              address_of(pr, tile, lower, step * step_bytes, half, 2));
            }
            emit_element(pr, words, i32_const(pr, block * steps + step), word);
        }
    return words;
}
