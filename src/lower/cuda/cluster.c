// cluster.c - the instances of a cluster, and which tiles are fetched once for all of them (sm_90).
//
// cluster(x = n): n neighbours along x are launched as one cluster of thread blocks, if they have anything to share. Where a tile's copies depend neither
// on x nor on anything that does, in what they read, under which conditions and how often, every instance of the
// cluster makes the same copies in the same order: each then fetches an n-th of every box, by multicast into the same
// place of all n. A full barrier waits for the whole tile's bytes, whoever sends them; an empty one for the consumers
// of all instances. Boxes are divided in tma.c.
#include "lower/cuda/cuda.h"

// Of several coordinates the first: blocks of a cluster are neighbours in one number. A --check build has no rings.
void find_cluster(Lowering *lo)
{
    const TileKernel *const k = lo->kernel;
    lo->cluster = 1;
    lo->clustered = -1;
    for (int i = 0; i < k->n_grid && lo->target->arch >= 90 && !k->checked; i++) {
        if (k->grid[i].cluster <= 1)
            continue;
        if (lo->clustered < 0) {
            lo->cluster = k->grid[i].cluster;
            lo->clustered = i;
        } else {
            note(lo, "cluster(%s = %d) is not used: clusters lie along %s", k->grid[i].var->name, k->grid[i].cluster,
                 k->grid[lo->clustered].var->name);
        }
    }
}

// before: channels are made       after: it is known which tiles are fetched once for the cluster; without any there is none
void find_multicasts(Lowering *lo)
{
    if (lo->cluster <= 1)
        return;
    Slice slice = new_slice(lo);     // what all instances of a cluster know alike
    slice.no_tiles = true;
    slice.unknown[lo->kernel->grid[lo->clustered].var->id] = true;
    find_unknown(&slice);
    for (int i = 0; i < lo->channels.count; i++) {
        Channel *const channel = lo->channels.items[i];
        for (int t = 0; t < channel->n_tiles && !channel->is_filled && !channel->by_lanes; t++) {
            channel->tiles[t]->is_multicast = tile_is_fetchable(&slice, channel->tiles[t]);
            channel->is_multicast |= channel->tiles[t]->is_multicast;
        }
        lo->multicasts |= channel->is_multicast;
    }
    lo->cluster = lo->multicasts ? lo->cluster : 1;
}

void declare_rank(Lowering *lo)
{
    if (lo->cluster <= 1)
        return;
    lo->rank = emit_declare(lo, DTYPE_I32, "rank", expr_call(lo->arena, DTYPE_I32,
                            arena_printf(lo->arena, "(int32_t)(blockIdx.x %% %uu)", lo->cluster), -1, NULL));
}

static void explain_apart(Lowering *lo, const Channel *channel, const TileInfo *tile)
{
    const char *const coordinate = lo->kernel->grid[lo->clustered].var->name;
    if (tile->is_multicast)
        return;
    text_print(lo->explanation, "  %s is made by each instance: ", tile->buffer->name);
    if (channel->is_filled)
        text_print(lo->explanation, "it is computed\n");
    else if (channel->by_lanes)
        text_print(lo->explanation, "it is copied by lanes, not by TMA\n");
    else
        text_print(lo->explanation, "what is copied, under which conditions or how often depends on %s\n", coordinate);
}

void explain_cluster(Lowering *lo)
{
    for (int i = 0; i < lo->kernel->n_grid && lo->clustered < 0; i++)
        if (lo->kernel->grid[i].cluster > 1)
            text_print(lo->explanation, "cluster(%s = %d) is not used: every instance makes its own tiles\n",
                       lo->kernel->grid[i].var->name, lo->kernel->grid[i].cluster);
    if (lo->clustered < 0)
        return;
    const TileGridDim *const dim = &lo->kernel->grid[lo->clustered];
    text_print(lo->explanation, lo->multicasts ? "clusters of %d along %s, multicast:" : "no clusters of %d along %s: there is nothing to share",
               dim->cluster, dim->var->name);
    for (int i = 0; i < lo->n_declared; i++)
        if (lo->declared.items[i]->is_multicast)
            text_print(lo->explanation, " %s", lo->declared.items[i]->buffer->name);
    text_print(lo->explanation, "\n");
    for (int i = 0; i < lo->channels.count; i++)
        for (int t = 0; t < lo->channels.items[i]->n_tiles; t++)
            explain_apart(lo, lo->channels.items[i], lo->channels.items[i]->tiles[t]);
}
