// SPDX-License-Identifier: MIT
// hints.c - layout(a) = swizzle(n), padded(n): where the rows of a shared tile lie.
//
// A swizzled tile stands in panels of n bytes, as TMA and wgmma know them; 0 is row by row. A padded tile has n
// elements between its rows, so that a column's elements lie in different banks: no box and no wgmma can have such
// rows, but ldmatrix and ordinary loads can. rows, columns, partial and transposed, hints of a product's result, are
// products.c's.
#include "lower/gpu/facts/lowering.h"
#include "lower/gpu/facts/operands.h"
#include "lower/gpu/decide/iteration/hints.h"

bool tile_panels(const TileInfo *tile, int rows, int columns, int element_bytes, SharedLayout *layout)
{
    const Buffer *const b = tile->buffer;
    if (b->hint == HINT_SWIZZLE && !b->hint_value) return false;
    if (!row_padding(b)) return shared_panels(rows, columns, element_bytes, tile->panel_most, layout);
    *layout = shared_padded((rows + 7) / 8 * 8, columns, row_padding(b), element_bytes);
    return columns * element_bytes % 32 == 0 && layout->pitch_bytes % 16 == 0;
}

static void refuse(Lowering *lo, const Buffer *tile, const char *why)
{
    lo->failed = true;
    diag_error(lo->diags, tile->span, "layout(%s) = swizzle(%d): %s", tile->name, tile->hint_value, why);
}

// Before anything else asks how a tile lies.
void take_layout_hints(Lowering *lo)
{
    for (int i = 0; i < lo->n_declared && !lo->kernel->checked; i++) {
        TileInfo *const tile = lo->declared.items[i];
        const Buffer *const b = tile->buffer;
        const int bits = dtype_bits(b->type);
        int64_t rows, columns;
        if (b->kind != BUFFER_SHARED || b->hint != HINT_SWIZZLE || !b->hint_value) continue;
        if (b->rank != 2 || bits < 8) refuse(lo, b, "panels are of matrices of whole bytes");
        else if (!expr_as_int(b->shape[0], &rows) || !expr_as_int(b->shape[1], &columns) ||
                 columns * bits / 8 % b->hint_value != 0)
            refuse(lo, b, arena_printf(lo->arena, "its rows are not a multiple of %d bytes", b->hint_value));
        else {
            tile->panel_most = b->hint_value * 8 / bits;
            tile->wants_panels = tile_panels(tile, (int)rows, (int)columns, bits / 8, &tile->shared);
        }
    }
}
