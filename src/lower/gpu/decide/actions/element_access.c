// SPDX-License-Identifier: MIT
// element_access.c - accesses to elements that have no form: they are refused before anything is printed.
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/info.h"

typedef struct Check {
    Lowering *lo;
    const TileOp *op;
} Check;

// Elements of less than a byte have no address that one of another type could have. Whole bytes of a tensor have one;
// in tiles each packed element has a byte of its own.
static bool has_address(const Buffer *view)
{
    Buffer *const below = view->base.buffer;
    return view->type == below->type ||
           (dtype_bits(view->type) >= 8 && (dtype_bits(below->type) >= 8 || buffer_root(below)->kind == BUFFER_TENSOR));
}

static void check_views(const TileUse *use, void *context)
{
    const Check *const check = context;
    for (const Buffer *view = use->buffer; use->subs && view->kind == BUFFER_VIEW; view = view->base.buffer) {
        if (!has_address(view) && !check->lo->failed)
            unsupported(check->lo, check->op->span, "a view of packed elements in another type ('%s')", view->name);
    }
}

static bool check_op(Lowering *lo, TileOp *op, void *context)
{
    (void)context;
    tile_uses(op, check_views, &(Check){ lo, op });
    return false;
}

void refuse_packed_views(Lowering *lo, TileOp *op) { visit_op(lo, op, check_op, NULL); }

void refuse_fragment_accesses(Lowering *lo, TileOp *map, const Iteration *it)
{
    MapUses uses = { 0 };
    map_uses(lo, map, &uses);
    for (int i = 0; i < uses.count && !lo->failed; i++) {
        const TileUse *const use = &uses.items[i].use;
        const TileInfo *const tile = tile_info(lo, use->buffer);
        Layout layout;
        int same[LAYOUT_MAX_MODES];
        if (tile && tile->storage == TILE_IN_REGISTERS && use->subs &&
            !find_register_modes(lo, tile, use->subs, it, &layout, same))
            unsupported(lo, uses.items[i].op->span, "this access to fragment '%s'", use->buffer->name);
    }
}
