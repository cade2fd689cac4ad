// SPDX-License-Identifier: MIT
// sink_tiles.c - a tile that only the body of one loop uses becomes a tile of the body.
//
// Copies into tiles of a pipeline's body run ahead, through buffers; those into a tile from outside cannot, because its
// contents would have to be there after the loop. Where every step fills the tile before it reads it nothing is carried,
// and the place of the declaration says nothing.
//
// before: simplified    after: such tiles are declared by the statement that fills them; in an `if`, on the side that uses them
// never:  moves a tile that a step may read before the step has filled all of it, nor one of a loop's body into an `if` there,
//         where it would have one buffer
#include "passes/passes.h"

static bool is_dst(const Region *dst, const Buffer *tile) { return dst->buffer == tile && region_is_whole(dst); }

typedef struct Reads {
    const Buffer *tile;
    int n;
} Reads;

static void count_read(const TileUse *use, void *context)
{
    Reads *const r = context;
    r->n += use->reads && buffer_root(use->buffer) == r->tile;
}

static bool reads(TileOp *op, const Buffer *tile)
{
    Reads r = { tile, 0 };
    tile_uses(op, count_read, &r);
    return r.n > 0;
}

// Whether the op gives the whole tile new contents, and reads none of the old.
static bool fills(TileOp *op, const Buffer *tile)
{
    if (reads(op, tile)) return false;
    switch ((int)op->kind) {
    case T_FILL: return is_dst(&op->fill.dst, tile);
    case T_COPY: return is_dst(&op->copy.dst, tile);
    case T_MATMUL: return is_dst(&op->matmul.dst, tile) && !op->matmul.accumulate;
    default: return false;
    }
}

static TileOp *sole_user(TileOp *op, const Buffer *tile)
{
    TileOp *user = NULL;
    for (; op; op = op->next) {
        if (!tile_touches(op, tile)) continue;
        if (user) return NULL;
        user = op;
    }
    return user;
}

// The one block in the op that uses the tile, from its first use on; NULL: there are several, or the op reads it itself.
static TileOp **find_block(TileOp *user, const Buffer *tile)
{
    TileOp **body, **first = NULL;
    int block = -1;
    if (reads(user, tile)) return NULL; // its bounds or condition
    for (int i = 0; (body = tile_bodies(user, i)) != NULL; i++)
        for (TileOp **link = body; *link; link = &(*link)->next) {
            if (!tile_touches(*link, tile)) continue;
            if (first && i != block) return NULL;
            if (!first) first = link;
            block = i;
        }
    return user->kind == T_WHILE && block != 0 ? NULL : first;
}

static bool is_loop(const TileOp *op) { return op->kind == T_PIPELINE || op->kind == T_FOR || op->kind == T_WHILE; }

// Where the tile may be declared in the only op that uses it; NULL: nowhere. Within a loop that is before what fills it, in
// the loop's block or in one that alone uses it there.
static TileOp **find_home(TileOp *user, const Buffer *tile, bool in_loop)
{
    if (!is_loop(user) && user->kind != T_IF) return NULL;
    TileOp **const at = find_block(user, tile);
    if (!at || !(in_loop || is_loop(user)) || fills(*at, tile)) return at;
    TileOp **const home = sole_user(*at, tile) ? find_home(*at, tile, true) : NULL;
    return home && (*at)->kind == T_IF ? at : home;
}

static void sink_in(TileOp **link, bool is_body)
{
    for (TileOp *op; (op = *link) != NULL;) {
        TileOp **body;
        Buffer *const tile = op->kind == T_TILE ? op->tile.buffer : NULL;
        TileOp *const user = tile && !tile->cluster_shared ? sole_user(op->next, tile) : NULL;
        TileOp **const at = user && !(is_body && user->kind == T_IF) ? find_home(user, tile, false) : NULL;
        if (at) {
            *link = op->next;
            op->next = *at;
            op->stage = (*at)->stage;
            *at = op;
            continue;
        }
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) sink_in(body, is_loop(op));
        link = &op->next;
    }
}

void sink_tiles(TileKernel *kernel)
{
    if (!kernel->checked) sink_in(&kernel->body, false);
}
