// SPDX-License-Identifier: MIT
// accesses.c - which buffers that threads share each op reads or writes, for hazards.c.
//
// before: tiles have their storage, fetches and places       after: nothing has changed; the answers stand beside the
//         ops
#include "lower/gpu/decide/sync/hazards.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/decide/pipeline/store.h"
#include "lower/gpu/decide/pipeline/several_writers.h"
#include "lower/gpu/decide/pipeline/walk.h"
#include "lower/gpu/facts/info.h"

// ---- shared buffers

static void add_shared(Walk *walk, const Buffer *root)
{
    walk->places[root->id] = walk->n;
    walk->shared[walk->n++] = root;
}

void find_shared(Walk *walk)
{
    Lowering *const lo = walk->lo;
    const TileKernel *const k = lo->kernel;
    const bool *const several_writers = find_several_writers(lo), *const sums = find_sums(lo); // by buffer, of tensors
    walk->shared = NEW_ARRAY(lo->arena, const Buffer *, k->n_buffers + 1);
    walk->places = NEW_ARRAY(lo->arena, int, k->n_buffers + 1);
    for (int i = 0; i < k->n_buffers; i++) walk->places[i] = -1;
    for (int i = 0; i < k->n_params; i++) {
        const Buffer *const tensor = k->params[i].tensor;
        if (k->params[i].is_tensor && !sums[tensor->id] &&
            (tensor->access == ACCESS_INOUT || several_writers[tensor->id]))
            add_shared(walk, tensor);
    }
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        if (tile->storage == TILE_IN_SHARED && !tile->ring && !tile->multistage) add_shared(walk, tile->buffer);
    }
}

int place_of(const Walk *walk, Buffer *buffer) { return walk->places[buffer_root(buffer)->id]; }

const TileInfo *tile_at(const Walk *walk, int at) { return walk->lo->tiles[walk->shared[at]->id]; }

// ---- what ops do to them

typedef struct Listing {
    Walk *walk;
    const TileOp *op;
    SharedAccesses *shared_accesses;
} Listing;

static SharedAccess *access_at(const Listing *listing, int at)
{
    SharedAccesses *const shared_accesses = listing->shared_accesses;
    int i = 0;
    while (i < shared_accesses->list.count && shared_accesses->list.items[i].at != at) i++;
    if (i == shared_accesses->list.count)
        VEC_PUSH(listing->walk->lo->arena, &shared_accesses->list, (SharedAccess){ .at = at });
    return &shared_accesses->list.items[i];
}

// By an atomic statement, of which several in a row leave the same in any order.
static bool is_addition(const Walk *walk, const TileOp *op, const TileUse *use, int at)
{
    const TileInfo *const tile = tile_at(walk, at);
    return use->atomic && op->kind == T_ATOMIC && op->atomic.op == ATOMIC_ADD && use->subs == op->atomic.subs && tile &&
           !tile->alternates && !walk->lo->is_specialised;
}

static void add_access(const TileUse *use, void *context)
{
    const Listing *const listing = context;
    const int at = place_of(listing->walk, use->buffer);
    if (at < 0) return;
    SharedAccess *const access = access_at(listing, at);
    if (is_addition(listing->walk, listing->op, use, at)) {
        access->adds = true;
        return;
    }
    access->reads |= use->reads;
    access->writes |= use->writes || use->atomic;
}

// A store that is staged writes the tiles which its groups' staging covers. Nobody need remember who wrote to a spent
// one: groups have parts of their own, and all synchronise before it is filled again.
static void access_staging(Listing *listing, TileOp *op)
{
    Lowering *const lo = listing->walk->lo;
    if (!lo->staged_over || !is_map(op) || !store_is_staged(lo, op)) return;
    const int part = lo->staging_bytes / lo->all.groups;
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        if (tile->storage != TILE_IN_SHARED) continue;
        for (int g = 0; g < lo->all.groups; g++) {
            const int begin = lo->staging_offset + g * part, end = tile->offset + tile->shared.bytes * tile->buffers;
            const int at = place_of(listing->walk, tile->buffer);
            if (!(listing->walk->groups >> g & 1) || tile->offset >= begin + part || begin >= end || at < 0) continue;
            access_at(listing, at)->writes |= lo->boxes_most == 0;
            access_at(listing, at)->stages = true;
        }
    }
}

static bool list_accesses(Lowering *lo, TileOp *op, void *context)
{
    (void)lo;
    ((Listing *)context)->op = op;
    tile_uses(op, add_access, context);
    return false;
}

static bool access_inside(Lowering *lo, TileOp *op, void *context)
{
    access_staging(context, op);
    return list_accesses(lo, op, context);
}

const SharedAccesses *shared_accesses_of(Walk *walk, TileOp *op)
{
    OpInfo *const info = op_info(walk->lo, op);
    if (info->shared_accesses) return info->shared_accesses;
    info->shared_accesses = NEW(walk->lo->arena, SharedAccesses);
    Listing listing = { walk, op, info->shared_accesses };
    if (is_flow(op)) tile_uses(op, add_access, &listing);
    else visit_op(walk->lo, op, access_inside, &listing);
    return listing.shared_accesses;
}

// ---- loops

bool only_reads(Walk *walk, TileOp *loop)
{
    SharedAccesses all = { 0 };
    Listing listing = { walk, loop, &all };
    bool writes = false;
    visit_op(walk->lo, loop, list_accesses, &listing);
    for (int i = 0; i < all.list.count; i++) writes |= all.list.items[i].writes;
    return !writes;
}
