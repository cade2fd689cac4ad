// SPDX-License-Identifier: MIT
// in_flight.c - deciding: products in flight, and waiting for them where a result is first used.
//
// Groups of products complete in order, so waiting for one leaves the later ones in flight. When an MMA is known to
// be done, the ring buffers that it read are released.
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/decide/pipeline/ring_uses.h"
#include "lower/gpu/decide/copy/rows.h"
#include "lower/gpu/facts/info.h"

void add_in_flight(Lowering *lo, const Product *p)
{
    MmaInFlight mma = { .accumulator = tile_info(lo, p->op->matmul.dst.buffer), .op = p->op };
    if (p->a_in_registers && tile_info(lo, p->left.region.buffer)->is_packed)
        mma.a_registers = tile_info(lo, p->left.region.buffer); // else the product reads a packed copy
    else if (!p->a_in_registers && !p->is_preloaded) mma.reads[0] = tile_info(lo, p->left.region.buffer);
    mma.reads[1] = tile_info(lo, p->right.region.buffer);
    VEC_PUSH(lo->arena, &lo->in_flight, mma);
}

bool is_in_flight(const Lowering *lo, const TileInfo *acc)
{
    for (int i = 0; i < lo->in_flight.count; i++)
        if (lo->in_flight.items[i].accumulator == acc) return true;
    return false;
}

// The assembler moves a wait to the top of its basic block, before the work that it should follow. Only a block's
// boundary holds it: a wait for a buffer that is known to be full is one, and costs next to nothing.
static void act_wait_barrier(Lowering *lo, const MmaInFlight *mma)
{
    const Ring *const ring = mma->n_releases ? mma->releases[0] : NULL;
    if (!ring) return;
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        if (tile->is_accumulator && tile->storage == TILE_IN_REGISTERS && !is_in_flight(lo, tile))
            act_register_fence(lo, tile);
    }
    for (int i = 0; i < lo->made_under_mma.count && !lo->schedules_waits; i++)
        if (!lo->made_under_mma.items[i]->is_accumulator) act_register_fence(lo, lo->made_under_mma.items[i]);
    lo->made_under_mma.count = 0;
    act_wait(lo, ring);
}

void act_scheduling_barrier(Lowering *lo)
{
    if (lo->in_flight.count) act_wait_barrier(lo, &lo->in_flight.items[lo->in_flight.count - 1]);
}

static bool releases_any(const Lowering *lo, const MmaInFlight *mma)
{
    bool any = mma->n_releases > 0;
    for (int i = 0; i < lo->rings.count; i++) any |= mma->op && release_within(lo, lo->rings.items[i]) == mma->op;
    return any;
}

static void release(Lowering *lo, MmaInFlight *mma)
{
    for (int i = 0; i < mma->n_releases; i++) decide_release(lo, mma->releases[i]);
    mma->n_releases = 0;
    for (int i = 0; i < lo->rings.count; i++)
        if (mma->op && release_within(lo, lo->rings.items[i]) == mma->op)
            decide_last_release(lo, lo->rings.items[i], true);
    mma->op = NULL;
}

// Each accumulator once.
static void fence_results(Lowering *lo, int last)
{
    for (int i = 0; i <= last; i++) {
        const TileInfo *const acc = lo->in_flight.items[i].accumulator;
        bool again = false;
        for (int j = i + 1; j <= last; j++) again = again || lo->in_flight.items[j].accumulator == acc;
        if (!again) act_register_fence(lo, acc);
    }
}

// Where one group computes alone, only its own statements run under a product.
static bool keeps_cover(const Lowering *lo, int last)
{
    return lo->schedules_waits || (lo->all.groups == 1 && lo->in_flight.items[last].is_covered);
}

// Memory answers late: what reads or writes it must begin before the wait, what only computes may as well come after.
static void note_memory(const TileUse *use, void *context)
{
    Lowering *const lo = context;
    const Buffer *const root = buffer_root(use->buffer);
    const TileInfo *const tile = tile_info(lo, root);
    if (root->kind != BUFFER_TENSOR && !(tile && tile->storage == TILE_IN_SHARED)) return;
    for (int i = 0; i < lo->in_flight.count; i++) lo->in_flight.items[i].is_covered = true;
}

static void note_made(const TileUse *use, void *context)
{
    Lowering *const lo = context;
    const TileInfo *const tile = tile_info(lo, buffer_root(use->buffer));
    if (!use->writes || !tile || tile->storage != TILE_IN_REGISTERS || tile->buffer->type != DTYPE_F32) return;
    for (int i = 0; i < lo->made_under_mma.count; i++)
        if (lo->made_under_mma.items[i] == tile) return;
    VEC_PUSH(lo->arena, &lo->made_under_mma, tile);
}

static bool note_made_by(Lowering *lo, TileOp *op, void *context)
{
    (void)context;
    tile_uses(op, note_memory, lo);
    tile_uses(op, note_made, lo);
    return false;
}

void cover_in_flight(Lowering *lo, TileOp *op)
{
    if (lo->in_flight.count && lo->all.groups == 1) visit_op(lo, op, note_made_by, NULL);
}

// Everything up to in_flight[last] is done.
static void wait_for_in_flight(Lowering *lo, int last)
{
    const int later = lo->in_flight.count - 1 - last;
    if (keeps_cover(lo, last)) act_wait_barrier(lo, &lo->in_flight.items[last]);
    // Groups that share tiles release each as soon as it is read: the other's next one may come after it.
    for (int i = 0; i < last && lo->is_specialised; i++) {
        MmaInFlight *const mma = &lo->in_flight.items[i];
        if (releases_any(lo, mma)) act_mma_wait(lo, lo->in_flight.count - 1 - i);
        release(lo, mma);
    }
    act_mma_wait(lo, later);
    fence_results(lo, last);
    for (int i = 0; i <= last; i++) release(lo, &lo->in_flight.items[i]);
    for (int i = last + 1; i < lo->in_flight.count; i++) lo->in_flight.items[i - last - 1] = lo->in_flight.items[i];
    lo->in_flight.count = later;
}

static bool reads_tile(const MmaInFlight *mma, const TileInfo *tile)
{
    return mma->reads[0] == tile || mma->reads[1] == tile;
}

void wait_for_tile(Lowering *lo, const TileInfo *tile, bool written)
{
    for (int i = lo->in_flight.count - 1; i >= 0; i--) {
        const MmaInFlight *const f = &lo->in_flight.items[i];
        if (f->accumulator == tile || (written && (f->a_registers == tile || reads_tile(f, tile)))) {
            wait_for_in_flight(lo, i);
            return;
        }
    }
}

void wait_for_all(Lowering *lo)
{
    wait_for_copies(lo);
    if (lo->in_flight.count) wait_for_in_flight(lo, lo->in_flight.count - 1);
}

bool release_with_in_flight(Lowering *lo, Ring *ring)
{
    for (int i = lo->in_flight.count - 1; i >= 0; i--) {
        MmaInFlight *const f = &lo->in_flight.items[i];
        for (int t = 0; t < ring->n_tiles; t++)
            if (reads_tile(f, ring->tiles[t]) && f->n_releases < COUNT(f->releases)) {
                f->releases[f->n_releases++] = ring;
                return true;
            }
    }
    return false;
}
