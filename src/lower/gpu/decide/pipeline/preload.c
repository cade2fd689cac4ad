// SPDX-License-Identifier: MIT
// preload.c - deciding: left operands that stay the same through a loop, kept in registers.
//
// wgmma reads a left operand in shared memory anew for every instruction. One that is declared outside the loop (the
// queries of attention) is loaded once by ldmatrix instead, if registers are left; its buffer is then free at once.
//
// Not in every pipeline: in plain loops of all groups ptxas 13.0 took the words for dead after their last use in the
// body and gave their registers to other left operands (attention backward's dQ came out wrong from its second step
// on).
//
// before: shared tiles are laid out, rings are known       after: choose_preloads() has marked the products that do;
//                                                          act_preloads() has loaded theirs before a loop
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/decide/pipeline/pipeline.h"
#include "lower/gpu/facts/registers.h"
#include "lower/gpu/facts/groups.h"
#include "lower/gpu/decide/pipeline/ring_uses.h"
#include "lower/gpu/facts/info.h"

enum { OTHER_REGISTERS = 40, BESIDE_GROUP = 24 }; // of a thread, beside its fragments and operands

typedef struct Search {
    Lowering *lo;
    TileOp *loop;
    int words, most;
    uint32_t groups;
} Search;

static void act_preload(Lowering *lo, Product *p)
{
    const TileInfo *const left = tile_info(lo, p->left.region.buffer);
    Action load = { .kind = ACTION_LDMATRIX, .op = p->op };
    schedule_access(lo->builder.schedule, &load, (TileAccess){ .tile = left->number, .reads = true });
    act(lo, load);
    p->is_preloaded = true;
}

// Rotated, or of groups whose registers are divided by need.
static bool preloads_for(Lowering *lo, TileOp *loop)
{
    return loop->kind == T_PIPELINE && (can_software_pipeline(lo, loop) || unequal_registers(lo, 0));
}

static bool choose_product(Lowering *lo, TileOp *op, void *context)
{
    Search *const search = context;
    if (op->kind != T_MATMUL) return op->kind == T_FORALL;
    Product *const p = op_info(lo, op)->product;
    const Operand *const a = &p->left;
    const TileInfo *const tile = tile_info(lo, a->region.buffer);
    if (!(op_groups(lo, op) & search->groups) || p->kind != PRODUCT_WGMMA || p->a_in_registers || p->preloads ||
        a->transposed || dtype_bits(p->type) != 16 || p->division != DIVIDE_ROWS || !region_is_whole(&a->region) ||
        !tile->ring || is_within(lo, tile->declared, search->loop))
        return false;
    const int words = p->k / 4 * p->row_blocks;
    if (search->words + words > search->most) return false;
    search->words += words;
    p->preloads = tile->ring->is_loaded = true;
    return false;
}

static bool choose_in_loop(Lowering *lo, TileOp *loop, void *context)
{
    if (!preloads_for(lo, loop)) return loop->kind == T_FORALL;
    const bool unequal = unequal_registers(lo, 0) > 0;
    for (int g = 0; g < (unequal ? lo->all.groups : 1); g++) {
        Search search = { lo, loop, words_during(lo, loop), consumer_registers(lo) - OTHER_REGISTERS, ~0u };
        if (unequal)
            search = (Search){ lo, loop, group_words(lo, g), unequal_registers(lo, g) - BESIDE_GROUP, 1u << g };
        TileOp **body;
        for (int i = 0; (body = tile_bodies(loop, i)) != NULL; i++) each_op(lo, *body, choose_product, &search);
    }
    return false;
}

void choose_preloads(Lowering *lo) { each_op(lo, lo->kernel->body, choose_in_loop, NULL); }

typedef struct Readers {
    const Ring *ring;
    TileOp *op;
    bool other;
    Lowering *lo;
} Readers;

static void see_use(const TileUse *use, void *context)
{
    Readers *const readers = context;
    const Buffer *const root = buffer_root(use->buffer);
    for (int t = 0; t < readers->ring->n_tiles; t++) {
        if (root != readers->ring->tiles[t]->buffer) continue;
        const Product *const p = readers->op->kind == T_MATMUL ? op_info(readers->lo, readers->op)->product : NULL;
        // The right operand is read from shared memory even where the left one is not.
        if (!p || !p->preloads || root == p->right.region.buffer) readers->other = true;
    }
}

static bool see_op(Lowering *lo, TileOp *op, void *context)
{
    Readers *const readers = context;
    readers->op = op;
    if (op->kind != T_TILE && !op_info(lo, op)->fetched) tile_uses(op, see_use, readers);
    return false;
}

// Only fed registers: free before the loop.
bool is_preloaded_alone(Lowering *lo, const Ring *ring)
{
    TileOp *const loop = ring->last_use;
    if (ring->first_use != loop) return false;
    Readers readers = { .ring = ring, .lo = lo };
    TileOp **body;
    for (int i = 0; (body = tile_bodies(loop, i)) != NULL; i++) each_op(lo, *body, see_op, &readers);
    return !readers.other;
}

static bool preload_product(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind == T_MATMUL && (!lo->is_specialised || op_groups(lo, op) >> lo->walk & 1) &&
        op_info(lo, op)->product->preloads && !op_info(lo, op)->product->is_preloaded)
        act_preload(lo, op_info(lo, op)->product);
    return op->kind == T_FORALL;
}

void act_preloads(Lowering *lo, TileOp *loop)
{
    if (!preloads_for(lo, loop)) return;
    TileOp **body;
    for (int i = 0; (body = tile_bodies(loop, i)) != NULL; i++) each_op(lo, *body, preload_product, NULL);
    for (int i = 0; i < lo->rings.count && !lo->is_specialised; i++) {
        Ring *const ring = lo->rings.items[i];
        if (ring->last_use != loop || ring->is_released || !is_preloaded_alone(lo, ring)) continue;
        decide_release(lo, ring);
        ring->is_released = true;
    }
}
