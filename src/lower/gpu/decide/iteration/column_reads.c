// SPDX-License-Identifier: MIT
// column_reads.c - shared tiles that no product reads, but foralls whose lanes stand in different rows.
//
// Where rows are multiples of 128 bytes, the lanes of such a forall (its fragments lie as accumulators do) meet in the
// same banks. Swizzled panels, which products would read, keep them apart; the copy engine fills them as well.
//
// before: layouts of fragments are known      after: such tiles want panels, unless the source says how they lie
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/decide/iteration/hints.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/info.h"

enum { SWIZZLE_BYTES = 128, ROWS_MIN = 32, LANES_DOWN_MIN = 4, ROW_BYTES_MOST = 32 };

typedef struct Readers {
    TileInfo *tile;
    bool down, other;
} Readers;

// Threads' numbers (or neighbouring elements of one thread) that move the subscript.
static int extent_along(const Iteration *it, const Expr *sub, LayoutInput input)
{
    int extent = 1;
    for (int i = 0; i < it->n; i++)
        for (int j = 0; j < it->layout.n && it->dim_of[i] >= 0 && expr_uses(sub, it->indices[i].var); j++) {
            const LayoutMode *const mode = &it->layout.mode[j];
            if (mode->input == input && mode->dim == it->dim_of[i] && (input == IN_LANE || mode->stride == 1))
                extent *= mode->extent;
        }
    return extent;
}

// The lanes that stand in one row read little of it, and others the same banks.
static bool meet_in_banks(const Iteration *it, Expr *const *subs, int bytes)
{
    return extent_along(it, subs[0], IN_LANE) >= LANES_DOWN_MIN &&
           extent_along(it, subs[1], IN_LANE) * extent_along(it, subs[1], IN_REGISTER) * bytes <= ROW_BYTES_MOST;
}

static void see_map(Lowering *lo, TileOp *op, Readers *readers)
{
    MapUses uses = { 0 };
    TileOp *const map = as_map(lo, op);
    map_uses(lo, map, &uses);
    for (int i = 0; i < uses.count; i++) {
        const TileUse *const use = &uses.items[i].use;
        if (buffer_root(use->buffer) != readers->tile->buffer) continue;
        if (use->buffer->kind == BUFFER_VIEW || use->atomic) readers->other = true;
        if (!use->reads || !use->subs || use->buffer->rank != 2) continue;
        Iteration it;
        choose_iteration(lo, map, &it);
        readers->down |= !it.is_linear && meet_in_banks(&it, use->subs, dtype_bits(use->buffer->type) / 8);
    }
}

static void see_other(const TileUse *use, void *context)
{
    Readers *const readers = context;
    readers->other |= buffer_root(use->buffer) == readers->tile->buffer;
}

static bool see_op(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind == T_TILE) return false;
    if (is_map(op)) see_map(lo, op, context);
    else tile_uses(op, see_other, context);
    return is_map(op);
}

void find_column_reads(Lowering *lo)
{
    for (int i = 0; i < lo->n_declared && lo->gpu->tma && !lo->kernel->checked; i++) {
        TileInfo *const tile = lo->declared.items[i];
        const Buffer *const b = tile->buffer;
        const int bytes = dtype_bits(b->type) / 8;
        int64_t rows, columns;
        if (b->kind != BUFFER_SHARED || b->hint != HINT_NONE || b->cluster_shared || tile->wants_panels ||
            b->rank != 2 || (bytes != 2 && bytes != 4) || !expr_as_int(b->shape[0], &rows) || rows < ROWS_MIN ||
            !expr_as_int(b->shape[1], &columns) || columns * bytes % SWIZZLE_BYTES != 0)
            continue;
        Readers readers = { .tile = tile };
        each_op(lo, lo->kernel->body, see_op, &readers);
        if (!readers.down || readers.other) continue;
        tile->panel_most = SWIZZLE_BYTES / bytes;
        tile->wants_panels = tile_panels(tile, (int)rows, (int)columns, bytes, &tile->shared);
    }
}
