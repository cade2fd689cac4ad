// SPDX-License-Identifier: MIT
// whole_slices.c - a slice of a tile that is as wide as the tile begins at 0.
//
// Subscripts of tiles are in range, so that a slice of all of a dimension has one place, whatever computes it; a product of a
// slice at a place that is known at run time takes other instructions than one of the tile.
//
// before: simplified    after: no slice of a tile has all of a dimension and a start that is not 0
// never:  drops a start with an effect, or one of a tensor, where what is outside reads as 0
#include "passes/passes.h"

static void fold_region(Arena *arena, Region *r)
{
    if (!buffer_is_tile(r->buffer)) return;
    for (int d = 0; d < r->buffer->rank; d++) {
        Sub *const sub = &r->subs[d];
        if (!sub->is_range || (sub->step && !expr_is_int(sub->step, 1)) || expr_is_int(sub->start, 0)) continue;
        if (!expr_equal(sub->width, r->buffer->shape[d]) || !expr_is_pure(sub->start)) continue;
        *sub = (Sub){ true, int_const(arena, 0), sub->width, NULL };
    }
}

static void fold_in(Arena *arena, TileOp *op)
{
    for (; op; op = op->next) {
        TileOp **body;
        switch ((int)op->kind) {
        case T_FILL: fold_region(arena, &op->fill.dst); break;
        case T_COPY:
        case T_ATOMIC_TILE:
            fold_region(arena, &op->copy.dst);
            fold_region(arena, &op->copy.src);
            break;
        case T_MATMUL:
            fold_region(arena, &op->matmul.dst);
            fold_region(arena, &op->matmul.a.region);
            fold_region(arena, &op->matmul.b.region);
            break;
        case T_SCAN:
            fold_region(arena, &op->scan.dst);
            fold_region(arena, &op->scan.src);
            break;
        default: break;
        }
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) fold_in(arena, *body);
    }
}

void whole_slices(TileKernel *kernel)
{
    if (!kernel->checked) fold_in(kernel->arena, kernel->body);
}
