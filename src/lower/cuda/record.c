// SPDX-License-Identifier: MIT
// record.c - what each operation of a walk is as an action of the schedule.
//
// The printing of these operations still stands in the walks; what is recorded here says the same in the schedule's
// terms.
//
// before: a role is open        after: the action stands at the end of the innermost open one
#include "lower/cuda/print_statements.h"

Action *record(Lowering *lo, Action action) { return schedule_add(&lo->builder, action); }
void record_open(Lowering *lo, Action action)
{
    save_threads(lo);
    schedule_open(&lo->builder, action);
}
void record_otherwise(Lowering *lo)
{
    return_to_threads(lo);
    schedule_otherwise(&lo->builder);
}

void record_close(Lowering *lo)
{
    restore_threads(lo);
    schedule_close(&lo->builder);
}

void record_scope(Lowering *lo, ScopeKind kind, const TileOp *source)
{
    record_open(lo, (Action){ .kind = ACTION_SCOPE, .scope = { .kind = kind, .source = source } });
}

void record_loop(Lowering *lo, LoopPart part, const TileOp *source)
{
    record_open(lo, (Action){ .kind = ACTION_LOOP, .op = source, .loop = { .part = part, .source = source } });
}

void record_ring(Lowering *lo, ActionKind kind, const Ring *ring, int arrivals)
{
    (void)lo;
    record(lo, (Action){ .kind = kind, .ring = { .ring = ring->index, .arrivals = arrivals } });
}

// ---- accesses

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
