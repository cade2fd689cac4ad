// SPDX-License-Identifier: MIT
// sink_tiles.c - a shared tile that one loop alone uses, and fills from a tensor before anything else, is the loop's own.
//
//   shared T x[M][N];
//   for (..) { x = X[..]; use x }
// becomes
//   for (..) { shared T x[M][N]; x = X[..]; use x }
//
// What a loop declares may have several buffers, so that copies run ahead.
//
// before: a simplified kernel                        after: the same results
// never:  moves a tile whose values live from one turn to the next, or past the loop
#include "passes/passes.h"

typedef struct Seek {
    const Buffer *root;
    bool reads, writes;
} Seek;

static void see_use(const TileUse *use, void *context)
{
    Seek *const seek = context;
    if (buffer_root(use->buffer) != seek->root) return;
    seek->reads |= use->reads || use->atomic;
    seek->writes |= use->writes || use->atomic;
}

static void seek_in(Seek *seek, TileOp *op)
{
    if (op->kind != T_TILE) tile_uses(op, see_use, seek);
    TileOp **body;
    for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
        for (TileOp *inner = *body; inner; inner = inner->next) seek_in(seek, inner);
}

static bool uses(TileOp *op, const Buffer *root)
{
    Seek seek = { .root = root };
    seek_in(&seek, op);
    return seek.reads || seek.writes;
}

static TileOp **body_of_loop(TileOp *op)
{
    return op->kind == T_FOR ? &op->for_.body : op->kind == T_PIPELINE ? &op->pipeline.body : NULL;
}

// The link to the only op from here on that uses it; NULL: none or several.
static TileOp **only_user(TileOp **link, const Buffer *root)
{
    TileOp **user = NULL;
    for (; *link; link = &(*link)->next) {
        if (!uses(*link, root)) continue;
        if (user) return NULL;
        user = link;
    }
    return user;
}

static bool is_fill(TileOp *op, const Buffer *root)
{
    Seek own = { .root = root };
    if (op->kind != T_COPY) return false;
    tile_uses(op, see_use, &own);
    return !own.reads && op->copy.dst.buffer == root && region_is_whole(&op->copy.dst) &&
           buffer_root(op->copy.src.buffer)->kind == BUFFER_TENSOR;
}

// The first use in the loop, if it is a copy of a tensor to all of the tile; through loops that alone use it.
static TileOp **first_fill(TileOp *loop, const Buffer *root)
{
    TileOp **link = body_of_loop(loop);
    Seek bounds = { .root = root };
    if (!link) return NULL;
    tile_uses(loop, see_use, &bounds);
    if (bounds.reads) return NULL;
    while (*link && !uses(*link, root)) link = &(*link)->next;
    if (*link && is_fill(*link, root)) return link;
    TileOp **const user = only_user(link, root);
    return user ? first_fill(*user, root) : NULL;
}

// Whether the tile at the link went into the loop that uses it.
static bool sink(TileOp **link)
{
    TileOp *const tile = *link;
    const Buffer *const b = tile->tile.buffer;
    if (b->kind != BUFFER_SHARED || b->cluster_shared) return false;
    TileOp **const user = only_user(&tile->next, b), **const fill = user ? first_fill(*user, b) : NULL;
    if (!fill) return false;
    TileOp *const after = tile->next, *const first = *fill;
    tile->next = first;
    tile->stage = first->stage;
    *fill = tile;
    *link = after;
    return true;
}

static void sink_block(TileOp **link)
{
    while (*link) {
        if ((*link)->kind == T_TILE && sink(link)) continue;
        TileOp **body;
        for (int i = 0; (body = tile_bodies(*link, i)) != NULL; i++) sink_block(body);
        link = &(*link)->next;
    }
}

void sink_tiles(TileKernel *kernel)
{
    if (!kernel->checked) sink_block(&kernel->body);
}
