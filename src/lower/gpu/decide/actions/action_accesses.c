// SPDX-License-Identifier: MIT
// action_accesses.c - which tiles an action reads and writes, as its operation says.
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/facts/info.h"

typedef struct Listing {
    Lowering *lo;
    Action *action;
    const TileOp *op; // whose accesses they are
} Listing;

static TileAccess *find_access(const Listing *listing, const TileInfo *tile)
{
    for (int i = 0; i < listing->action->n_accesses; i++)
        if (listing->action->accesses[i].tile == tile->number) return &listing->action->accesses[i];
    return NULL;
}

static void list_access(const Listing *listing, const TileInfo *tile, bool reads, bool writes, bool is_async)
{
    TileAccess *const known = find_access(listing, tile);
    if (known) {
        known->reads |= reads;
        known->writes |= writes;
        known->is_async |= is_async;
        return;
    }
    schedule_access(listing->lo->builder.schedule, listing->action,
                    (TileAccess){ .tile = tile->number, .reads = reads, .writes = writes, .is_async = is_async });
}

void access_tile(Lowering *lo, Action *action, const TileInfo *tile, bool reads, bool writes, bool is_async)
{
    list_access(&(Listing){ lo, action, NULL }, tile, reads, writes, is_async);
}

static void list_use(const TileUse *use, void *context)
{
    const Listing *const listing = context;
    const TileInfo *const tile = tile_info(listing->lo, buffer_root(use->buffer));
    const TileOp *const op = listing->op;
    if (!tile) return;
    const bool adds =
        use->atomic && op->kind == T_ATOMIC && op->atomic.op == ATOMIC_ADD && use->subs == op->atomic.subs;
    TileAccess *const known = find_access(listing, tile);
    const bool adds_only = adds && (!known || known->is_addition);
    list_access(listing, tile, use->reads || adds, use->writes || use->atomic, false);
    find_access(listing, tile)->is_addition = adds_only;
}

static bool list_op(Lowering *lo, TileOp *op, void *context)
{
    (void)lo;
    ((Listing *)context)->op = op;
    if (op->kind != T_TILE) tile_uses(op, list_use, context);
    return false;
}

// All tiles that threads read or write in the op and what is inside it.
void record_accesses(Lowering *lo, Action *action, TileOp *op)
{
    Listing listing = { lo, action, op };
    visit_op(lo, op, list_op, &listing);
}
