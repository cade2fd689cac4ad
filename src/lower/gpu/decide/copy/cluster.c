// SPDX-License-Identifier: MIT
// cluster.c - the CTAs of a cluster, and which tiles are fetched once for all of them (sm_90).
//
// cluster(x = n): n neighbours along x are launched as one cluster of thread blocks, if they have anything to share.
// Where a tile's copies depend neither on x nor on anything that does, in what they read, under which conditions and
// how often, every CTA of the cluster makes the same copies in the same order: each then fetches an n-th of every
// box, by multicast into the same place of all n. A full barrier waits for the whole tile's bytes, whoever sends them;
// an empty one for the consumers of all CTAs. Boxes are divided in box_copy.c.
//
// A `cluster shared` tile that a producer group converts (producer_group.c) is made once, too: each CTA converts
// an n-th of its rows into its own tile and copies them to the same place in every other's (convert.c). A full barrier
// then waits for its own producer's warps and the others' bytes. Rows that are copied without conversion each CTA
// copies itself, if they do not go with converted ones.
#include "lower/gpu/decide/copy/fetch.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/decide/iteration/known_values.h"
#include "lower/gpu/decide/copy/rows.h"
#include "lower/gpu/facts/info.h"

// Of several coordinates the first: blocks of a cluster are neighbours in one number. A --check build has no rings.
void find_cluster(Lowering *lo)
{
    const TileKernel *const k = lo->kernel;
    lo->cluster = 1;
    lo->clustered = -1;
    for (int i = 0; i < k->n_grid && lo->gpu->clusters && !k->checked; i++) {
        if (k->grid[i].cluster <= 1) continue;
        if (lo->clustered < 0) {
            lo->cluster = k->grid[i].cluster;
            lo->clustered = i;
        } else {
            note(lo, "cluster(%s = %d) is not used: clusters lie along %s", k->grid[i].var->name, k->grid[i].cluster,
                 k->grid[lo->clustered].var->name);
        }
    }
}

typedef struct Alike {
    const KnownValues *values;
    Buffer *root;
    bool all, converts;
} Alike;

static bool see_fill(Lowering *lo, TileOp *op, void *context)
{
    Alike *const alike = context;
    if (!op_info(lo, op)->fills) return op->kind == T_FORALL;
    if (root_uses(lo, op, alike->root).writes)
        alike->all =
            alike->all && path_is_known(alike->values, op) && fill_divides(lo, op, lo->cluster, &alike->converts);
    return true;
}

// That its rows do not depend on the coordinate, check/cluster.c has found.
static bool is_exchanged(Lowering *lo, const KnownValues *values, const TileInfo *tile)
{
    const bool is_known = tile->buffer->cluster_shared && path_is_known(values, tile->declared);
    Alike alike = { .values = values, .root = tile->buffer, .all = is_known };
    each_op(lo, lo->kernel->body, see_fill, &alike);
    return alike.all && alike.converts;
}

// before: rings are made       after: it is known which tiles the cluster makes once; without any there is none
void find_shared_tiles(Lowering *lo)
{
    if (lo->cluster <= 1) return;
    KnownValues values = new_known_values(lo); // what all CTAs of a cluster know alike
    values.no_tiles = true;
    values.unknown[lo->kernel->grid[lo->clustered].var->id] = true;
    find_unknown(&values);
    for (int i = 0; i < lo->rings.count; i++) {
        Ring *const ring = lo->rings.items[i];
        for (int t = 0; t < ring->n_tiles; t++) {
            TileInfo *const tile = ring->tiles[t];
            tile->is_multicast = !ring->is_filled && !ring->by_lanes && tile_is_fetchable(&values, tile);
            tile->is_exchanged = ring->is_filled && is_exchanged(lo, &values, tile);
            ring->is_shared |= tile->is_multicast || tile->is_exchanged;
        }
        lo->shares |= ring->is_shared;
    }
    lo->cluster = lo->shares ? lo->cluster : 1;
}

static void explain_apart(Lowering *lo, const Ring *ring, const TileInfo *tile)
{
    const char *const coordinate = lo->kernel->grid[lo->clustered].var->name;
    if (tile->is_multicast || tile->is_exchanged) return;
    text_print(lo->explanation, "  %s is made by each CTA: ", tile->buffer->name);
    if (ring->is_filled)
        text_print(lo->explanation, "%s\n", tile->buffer->cluster_shared ? "its rows do not divide" : "it is computed");
    else if (ring->by_lanes) text_print(lo->explanation, "it is copied by lanes, not by TMA\n");
    else text_print(lo->explanation, "what is copied, under which conditions or how often depends on %s\n", coordinate);
}

void explain_cluster(Lowering *lo)
{
    for (int i = 0; i < lo->kernel->n_grid && lo->clustered < 0; i++)
        if (lo->kernel->grid[i].cluster > 1)
            text_print(lo->explanation, "cluster(%s = %d) is not used: every CTA makes its own tiles\n",
                       lo->kernel->grid[i].var->name, lo->kernel->grid[i].cluster);
    if (lo->clustered < 0) return;
    const TileGridDim *const dim = &lo->kernel->grid[lo->clustered];
    text_print(lo->explanation,
               lo->shares ? "clusters of %d along %s" : "no clusters of %d along %s: there is nothing to share",
               dim->cluster, dim->var->name);
    for (int exchanged = 0; exchanged < 2; exchanged++) {
        const char *before = exchanged ? "; rows exchanged:" : "; multicast:";
        for (int i = 0; i < lo->n_declared; i++) {
            const TileInfo *const tile = lo->declared.items[i];
            if (!(exchanged ? tile->is_exchanged : tile->is_multicast)) continue;
            text_print(lo->explanation, "%s %s", before, tile->buffer->name);
            before = "";
        }
    }
    text_print(lo->explanation, "\n");
    for (int i = 0; i < lo->rings.count; i++)
        for (int t = 0; t < lo->rings.items[i]->n_tiles; t++)
            explain_apart(lo, lo->rings.items[i], lo->rings.items[i]->tiles[t]);
}
