// SPDX-License-Identifier: MIT
// touches.c - which buffers that threads share each op reads or writes, for hazards.c.
//
// before: tiles have their homes, fetches and places       after: nothing has changed; the answers stand beside the ops
#include "lower/cuda/hazards.h"

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
    const bool *const rewritten = find_rewritten(lo), *const sums = find_sums(lo); // by buffer, of tensors
    walk->shared = NEW_ARRAY(lo->arena, const Buffer *, k->n_buffers + 1);
    walk->places = NEW_ARRAY(lo->arena, int, k->n_buffers + 1);
    for (int i = 0; i < k->n_buffers; i++) walk->places[i] = -1;
    for (int i = 0; i < k->n_params; i++) {
        const Buffer *const tensor = k->params[i].tensor;
        if (k->params[i].is_tensor && !sums[tensor->id] && (tensor->access == ACCESS_INOUT || rewritten[tensor->id]))
            add_shared(walk, tensor);
    }
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        if (tile->home == HOME_SHARED && !tile->channel && !tile->ahead) add_shared(walk, tile->buffer);
    }
}

int place_of(const Walk *walk, Buffer *buffer) { return walk->places[buffer_root(buffer)->id]; }

const TileInfo *tile_at(const Walk *walk, int at) { return walk->lo->tiles[walk->shared[at]->id]; }

// ---- what ops do to them

typedef struct Listing {
    Walk *walk;
    Touches *touches;
} Listing;

static Touch *touch_at(const Listing *listing, int at)
{
    Touches *const touches = listing->touches;
    int i = 0;
    while (i < touches->list.count && touches->list.items[i].at != at) i++;
    if (i == touches->list.count) VEC_PUSH(listing->walk->lo->arena, &touches->list, (Touch){ .at = at });
    return &touches->list.items[i];
}

static void add_touch(const TileUse *use, void *context)
{
    const Listing *const listing = context;
    const int at = place_of(listing->walk, use->buffer);
    if (at < 0) return;
    Touch *const touch = touch_at(listing, at);
    touch->reads |= use->reads;
    touch->writes |= use->writes || use->atomic;
}

// A store that is staged writes the tiles which its groups' staging covers. Nobody need remember who wrote to a spent one:
// groups have parts of their own, and all meet before it is filled again.
static void touch_under(Listing *listing, TileOp *op)
{
    Lowering *const lo = listing->walk->lo;
    if (!lo->staged_over || !is_map(op) || !store_is_staged(lo, op)) return;
    const int part = lo->staging_bytes / lo->all.groups;
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        if (tile->home != HOME_SHARED) continue;
        for (int g = 0; g < lo->all.groups; g++) {
            const int begin = lo->staging_offset + g * part, end = tile->offset + tile->shared.bytes * tile->buffers;
            const int at = place_of(listing->walk, tile->buffer);
            if (!(listing->walk->groups >> g & 1) || tile->offset >= begin + part || begin >= end || at < 0) continue;
            touch_at(listing, at)->writes |= lo->boxes_most == 0;
            touch_at(listing, at)->stages = true;
        }
    }
}

static bool touch_inside(Lowering *lo, TileOp *op, void *context)
{
    (void)lo;
    touch_under(context, op);
    tile_uses(op, add_touch, context);
    return false;
}

const Touches *touches_of(Walk *walk, TileOp *op)
{
    OpInfo *const info = op_info(walk->lo, op);
    if (info->touches) return info->touches;
    info->touches = NEW(walk->lo->arena, Touches);
    Listing listing = { walk, info->touches };
    if (is_flow(op)) tile_uses(op, add_touch, &listing);
    else visit_op(walk->lo, op, touch_inside, &listing);
    return listing.touches;
}

// ---- loops

typedef struct Writes {
    const Walk *walk;
    bool any;
} Writes;

static void find_write(const TileUse *use, void *context)
{
    Writes *const writes = context;
    writes->any |= (use->writes || use->atomic) && place_of(writes->walk, use->buffer) >= 0;
}

bool only_reads(Walk *walk, TileOp *loop)
{
    Writes writes = { walk, false };
    each_use(walk->lo, loop, find_write, &writes);
    return !writes.any;
}
