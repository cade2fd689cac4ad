// SPDX-License-Identifier: MIT
// convert_reads.c - a forall reads fragments whose layouts differ: the cheaper of two is converted before it.
//
// Products stay as they are, whoever reads their results: no use of a value decides how it is computed. The forall reads a
// copy, which has the layout that the forall's other fragments have, and the copy converts (convert_layout.c).
//
// before: layouts spread through foralls (storage.c)      after: a copy stands before the forall, which reads it
#include "lower/gpu/decide/layout/convert_layout.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/info.h"

// ---- which one

static bool is_laid_out(const TileInfo *tile) { return tile && tile->storage == TILE_IN_REGISTERS && tile->has_layout; }

static bool is_only_read(Lowering *lo, TileOp *forall, const TileInfo *tile)
{
    const RootUses uses = root_uses(lo, forall, tile->buffer);
    return uses.reads && !uses.writes && dtype_bits(tile->buffer->type) >= 8;
}

// The one other fragment with a layout; NULL: there are several.
static TileInfo *only_other(Lowering *lo, const MapUses *uses, const TileInfo *tile)
{
    TileInfo *other = NULL;
    for (int i = 0; i < uses->count; i++) {
        TileInfo *const here = tile_info(lo, uses->items[i].use.buffer);
        if (!is_laid_out(here) || here == tile || here == other) continue;
        if (other) return NULL;
        other = here;
    }
    return other;
}

static int conversion_cost(const Lowering *lo, const TileInfo *from, const TileInfo *to)
{
    Conversion how;
    return find_conversion(lo, from, &to->layout, &how) ? how.cost : INT32_MAX;
}

// Rows and columns move as vectors or matrices, or stay in warps. What all threads of a row hold is better read from
// shared memory.
static bool converts_well(const Lowering *lo, const TileInfo *tile, const Layout *wanted)
{
    Conversion how;
    return find_conversion(lo, tile, wanted, &how) &&
           (how.kind != CONVERT_SHARED || (tile->buffer->rank >= 2 && converts_in_pieces(&how, tile->buffer->type)));
}

static TileInfo *choose_converted(Lowering *lo, TileOp *forall, const MapUses *uses, TileInfo *tile)
{
    TileInfo *const other = only_other(lo, uses, tile);
    const bool can_tile = is_only_read(lo, forall, tile), can_other = other && is_only_read(lo, forall, other);
    if (can_tile && can_other && conversion_cost(lo, other, tile) < conversion_cost(lo, tile, other)) return other;
    return can_tile ? tile : can_other ? other : NULL;
}

// ---- the copy

typedef struct Replacing {
    Arena *arena;
    const Buffer *from;
    Buffer *to;
} Replacing;

static Expr *replace_load(Expr *x, void *context)
{
    const Replacing *const replacing = context;
    const bool is_one = x->kind == E_LOAD && x->load.buffer == replacing->from;
    return is_one ? expr_load(replacing->arena, replacing->to, x->load.subs) : x;
}

static void replace_in_slot(Expr **slot, void *context)
{
    const Replacing *const replacing = context;
    *slot = expr_map(replacing->arena, *slot, replace_load, context);
}

static bool replace_in_op(Lowering *lo, TileOp *op, void *context)
{
    (void)lo;
    tile_each_expr(op, replace_in_slot, context);
    return false;
}

static TileOp **link_to(Lowering *lo, const TileOp *op)
{
    TileOp *const parent = op_info(lo, op)->parent;
    TileOp **body, **link = parent ? NULL : &lo->kernel->body;
    for (int i = 0; parent && (body = tile_bodies(parent, i)) != NULL && !link; i++)
        for (TileOp *at = *body; at && !link; at = at->next)
            if (at == op) link = body;
    while (*link != op) link = &(*link)->next;
    return link;
}

static Buffer *new_fragment(Lowering *lo, const Buffer *like)
{
    Buffer *const copy = tile_new_buffer(lo->kernel, BUFFER_FRAGMENT, like->type, like->name, like->rank, like->span);
    memcpy(copy->shape, like->shape, sizeof copy->shape);
    return copy;
}

// Before the forall, which reads the copy.
static void insert_copy(Lowering *lo, TileOp *forall, const TileInfo *read)
{
    Buffer *const copy = new_fragment(lo, read->buffer);
    TileOp *const declared = NEW(lo->arena, TileOp, .kind = T_TILE, .span = forall->span, .stage = forall->stage);
    TileOp *const op = NEW(lo->arena, TileOp, .kind = T_COPY, .span = forall->span, .stage = forall->stage);
    declared->tile.buffer = copy;
    op->copy.dst = region_whole(lo->arena, copy, forall->span);
    op->copy.src = region_whole(lo->arena, read->buffer, forall->span);
    Replacing replacing = { lo->arena, read->buffer, copy };
    each_op(lo, forall->forall.body, replace_in_op, &replacing);
    TileOp **const link = link_to(lo, forall);
    *link = declared;
    declared->next = op;
    op->next = forall;
    note_insertion(lo, declared);
    tile_info(lo, copy)->is_converted = true;
}

static bool may_insert(Lowering *lo, const TileOp *forall)
{
    return op_info(lo, forall)->block && !lo->kernel->checked && !lo->is_specialised;
}

bool convert_read(Lowering *lo, TileOp *forall, const MapUses *uses, TileInfo *tile)
{
    const TileInfo *const read = may_insert(lo, forall) ? choose_converted(lo, forall, uses, tile) : NULL;
    if (read) insert_copy(lo, forall, read);
    return read != NULL;
}

bool convert_fragment(Lowering *lo, TileOp *forall, const TileInfo *tile, const Layout *wanted)
{
    const bool converts = may_insert(lo, forall) && !tile->is_converted && is_only_read(lo, forall, tile) &&
                          converts_well(lo, tile, wanted);
    if (converts) insert_copy(lo, forall, tile);
    return converts;
}
