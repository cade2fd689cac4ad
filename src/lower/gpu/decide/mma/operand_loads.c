// SPDX-License-Identifier: MIT
// operand_loads.c - how ldmatrix brings the words of an operand that is in shared memory.
//
// The operand of an instruction is a fragment whose layout is known: 16 lines by 32 bytes of the contraction, counted in
// units of 16 bits. A way from the tile to that layout is a transfer as any other (layout/convert.h), and what is left of it
// for the printer is which lane gives the address of which row: the rest are constants.
//
// before: products.c has found that instructions read the operand       after: it has an OperandLoad
#include "lower/gpu/decide/mma/products.h"
#include "layout/convert.h"

#include <assert.h>

enum { LINES = 16, HALF_WORDS = 16, BYTES = 32 }; // of one load

// The four words of a lane are in the order in which instructions take them: of the left operand lines before the
// contraction, of the right one after it.
static Layout words_of(bool is_left)
{
    Layout words = layout_new(2, (int[]){ LINES, HALF_WORDS });
    layout_add(&words, IN_REGISTER, 2, 1, 1);
    layout_add(&words, IN_REGISTER, 2, !is_left, 8);
    layout_add(&words, IN_REGISTER, 2, is_left, 8);
    layout_add(&words, IN_LANE, 4, 1, 2);
    layout_add(&words, IN_LANE, 8, 0, 1);
    return words;
}

// Bytes whose contraction runs down the tile: a unit is a pair of lines. The rows that a lane gets are four neighbours, two by
// a matrix, so that after the pairs are taken apart a word holds these.
static Layout words_of_pairs(void)
{
    Layout words = layout_new(2, (int[]){ BYTES, LINES / 2 });
    layout_add(&words, IN_REGISTER, 2, 0, 1);
    layout_add(&words, IN_REGISTER, 2, 0, 2);
    layout_add(&words, IN_REGISTER, 2, 0, 16);
    layout_add(&words, IN_LANE, 4, 0, 4);
    layout_add(&words, IN_LANE, 8, 1, 1);
    return words;
}

// Rows and columns of the tile for each lane: the eight rows of a matrix, then the matrix.
static Layout lanes_of(const SharedTransfer *how, int element_bits)
{
    enum { MATRIX_ROWS = 8, UNIT_BITS = 16 };
    const Layout all = layout_project(&how->lanes, 2, (int[]){ 0, 2 });
    Layout lanes = layout_new(2, all.extent);
    for (int i = 0, below = 1; i < all.n; below *= all.mode[i++].extent) {
        const LayoutMode *const mode = &all.mode[i];
        const bool is_cut = below < MATRIX_ROWS && below * mode->extent > MATRIX_ROWS;
        const int extent = is_cut ? MATRIX_ROWS / below : mode->extent;
        const int stride = mode->dim == 0 ? mode->stride : mode->stride * UNIT_BITS / element_bits;
        layout_add(&lanes, IN_LANE, extent, mode->dim, stride);
        layout_add(&lanes, IN_LANE, mode->extent / extent, mode->dim, stride * extent);
    }
    return lanes;
}

OperandLoad plan_operand_load(Lowering *lo, const Operand *x, bool is_left)
{
    const bool is_across = is_left == x->transposed, in_pairs = is_across && dtype_bits(x->type) == 8;
    Layout words = in_pairs ? words_of_pairs() : words_of(is_left);
    if (is_across && !in_pairs) words = layout_project(&words, 2, (int[]){ 1, 0 });
    const SharedLayout part = shared_plain(words.extent[0], words.extent[1], 2);
    const TransferOptions options = {
        .partition = { 1, 1 }, .element_bytes = 2, .has_matrices = true, .anywhere = true
    };
    SharedTransfer how;
    const bool is_planned = plan_transfer(lo->arena, &words, &part, &options, &how);
    assert(is_planned && how.n == 1 && how.side.access == (is_across ? BY_TRANSPOSED_MATRICES : BY_MATRICES));
    (void)is_planned;
    return (OperandLoad){ .is_across = is_across,
                          .sort = !in_pairs ? NULL
                                  : is_left ? "sort_rows"
                                            : "sort_columns",
                          .lanes = lanes_of(&how, dtype_bits(x->type)) };
}
