// SPDX-License-Identifier: MIT
// box_copy.c - which part of a box this CTA copies, and when the copy waits for its slot.
//
// before: it is known which tiles a cluster fetches once (cluster.c)      after: tma.c can print the copy, by its map
#include "lower/gpu/facts/box.h"
#include "lower/gpu/facts/info.h"

#include <assert.h>

static Share share_of(Lowering *lo, const TileInfo *tile, const Box *box)
{
    Share share = { .n = 1, .along = -1, .whole = -1 };
    if (!tile || !tile->is_multicast) return share;
    const SharedLayout *const s = &tile->shared;
    const int last = box->tensor->rank - 1, panels = s->columns / s->panel_columns, n = share.n = lo->cluster;
    int slowest = 0;
    while (slowest < last && box->width[slowest] == 1) slowest++;
    int64_t bytes = slowest < last ? s->pitch_bytes : dtype_bits(box->tensor->type) / 8;
    for (int d = slowest + 1; d < last; d++) bytes *= box->width[d];
    const int64_t width = box->width[slowest] / n;
    if (box->cut >= 0 || box_has_steps(box)) {
        share.whole = lo->n_alternating++ % n;
    } else if (panels % n == 0) {
        share.panels = panels / n;
    } else if (box->width[slowest] % n == 0 && width * bytes % BOX_ALIGN == 0 && (slowest < last || panels == 1)) {
        share.along = slowest;
        share.width = (int)width;
        share.bytes = (int)(width * bytes);
    } else {
        share.whole = lo->n_alternating++ % n;
    }
    return share;
}

// A cut box takes arithmetic before it can be copied: its copy waits for the slot after that, not before. Not where
// several threads wait, each for what it copies.
bool copy_opens_ring(Lowering *lo, const TileOp *op, const Ring *ring)
{
    return !lo->by_warp && !lo->has_producer_group && ring->is_plain && ring->first_fetch == op && copy_is_cut(lo, op);
}

// From its first row.
static BoxCopy *plan_walk(Lowering *lo, const TileOp *op, BoxCopy *copy)
{
    const Region *const src = &op->copy.src;
    copy->im2col = op_info(lo, op)->im2col;
    copy->box = (Box){ .tensor = src->buffer, .cut = -1 };
    for (int d = 0; d < src->buffer->rank; d++) copy->box.start[d] = src->subs[d].start;
    copy->of_tensor = true;
    copy->share = (Share){ .n = 1, .along = -1, .whole = -1 };
    copy->map = map_of_copy(lo, copy);
    return copy;
}

static BoxCopy *plan_box(Lowering *lo, TileOp *op, const Ring *ring)
{
    Expr *first;
    BoxCopy *const copy = NEW(lo->arena, BoxCopy, .tile = tile_info(lo, op->copy.dst.buffer), .ring = ring);
    if (op_info(lo, op)->im2col) return plan_walk(lo, op, copy);
    const bool is_box = find_box(lo, &op->copy.src, &copy->box) && is_rows_of_tile(&op->copy.dst, &first);
    assert(is_box && "it was found to be a box");
    (void)is_box;
    copy->first = first;
    copy->of_tensor = op->copy.src.buffer->kind == BUFFER_TENSOR;
    copy->share = share_of(lo, ring ? copy->tile : NULL, &copy->box);
    if (copy->share.along >= 0) copy->box.width[copy->share.along] = copy->share.width;
    copy->opens = ring && copy_opens_ring(lo, op, ring);
    copy->map = map_of_copy(lo, copy);
    return copy;
}

const BoxCopy *plan_box_copy(Lowering *lo, TileOp *op, const Ring *ring) { return plan_box(lo, op, ring); }

const BoxCopy *plan_box_run(Lowering *lo, const Ring *ring, int *boxes)
{
    BoxCopy *first = NULL, **end = &first;
    *boxes = 0;
    for (TileOp *op = ring->first_fetch; op != ring->last_fetch->next; op = op->next) {
        if (!is_copy_into(op, ring->tiles[0]->buffer)) continue;
        *end = plan_box(lo, op, ring);
        end = &(*end)->next;
        ++*boxes;
    }
    return first;
}
