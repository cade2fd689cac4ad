// SPDX-License-Identifier: MIT
// decide_product.c - deciding: what a product is in the schedule.
//
// before: its kind and its operands' places are chosen (products.c); what it must not overtake has been waited for
// after:  an ACTION_MMA, and what joins its parts, stand in the schedule; an asynchronous one is noted as in flight
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/decide/pipeline/map.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/decide/mma/products.h"
#include "lower/gpu/decide/pipeline/walk.h"
#include "lower/gpu/facts/groups.h"
#include "lower/gpu/facts/info.h"

static const char *instruction_name(Lowering *lo, const Product *p)
{
    const char *const type = dtype_name(p->type);
    if (p->kind == PRODUCT_WGMMA) return arena_printf(lo->arena, "m64n%dk%d %s", p->n_piece, p->step_k, type);
    if (p->kind == PRODUCT_MMA) return arena_printf(lo->arena, "m16n8k%d %s", p->step_k, type);
    return arena_printf(lo->arena, p->kind == PRODUCT_FMA ? "multiply-adds %s" : "loops %s", type);
}

static void access_operand(Lowering *lo, Action *action, const Operand *operand)
{
    const TileInfo *const tile = tile_info(lo, buffer_root(operand->region.buffer));
    if (tile) access_tile(lo, action, tile, true, false, tile->storage == TILE_IN_SHARED || tile->is_packed);
}

static void access_operands(Lowering *lo, Action *action, const Product *p)
{
    const TileInfo *const acc = tile_info(lo, p->op->matmul.dst.buffer);
    if (p->kind != PRODUCT_WGMMA) {
        record_accesses(lo, action, p->op);
        return;
    }
    if (acc) access_tile(lo, action, acc, p->op->matmul.accumulate, true, false);
    if (!p->is_preloaded) access_operand(lo, action, &p->left);
    access_operand(lo, action, &p->right);
}

static bool is_of_walk(const Lowering *lo, const TileInfo *tile)
{
    return !lo->is_specialised || !tile->groups || tile->groups >> lo->walk & 1;
}

// Without a register fence the compiler may copy the accumulator into other registers between the fence and the
// product. Those that the products right after add to are fenced as well: what set them would else be computed while
// this one is in flight, which ptxas serialises.
static void act_fences_of_sums(Lowering *lo, const TileOp *op)
{
    for (const TileOp *x = op; x && is_wgmma(lo, x); x = x->next) {
        const TileInfo *const acc = tile_info(lo, x->matmul.dst.buffer);
        const bool is_other = x->matmul.dst.buffer != op->matmul.dst.buffer;
        if (x->matmul.accumulate && (x == op || (is_other && is_of_walk(lo, acc) && !is_in_flight(lo, acc))))
            act_register_fence(lo, acc);
    }
}

// Other threads add than those that have cleared: of all groups, where the loops are divided among them.
static void sync_parts(Lowering *lo, TileOp *next)
{
    const Partition partition = lo->partition;
    lo->partition = map_partition(lo, next);
    act_sync(lo);
    lo->partition = partition;
}

static void act_loops(Lowering *lo, TileOp *op)
{
    for (TileOp *part = product_as_loops(lo, op); part; part = part->next) {
        act_map(lo, part, (Action){ .kind = ACTION_MAP, .op = part });
        if (part->next && tile_info(lo, op->matmul.dst.buffer)->storage == TILE_IN_SHARED) sync_parts(lo, part->next);
    }
}

static void act_mma(Lowering *lo, const Product *p)
{
    TileOp *const op = p->op;
    const TileInfo *const acc = tile_info(lo, op->matmul.dst.buffer);
    const bool is_async = p->kind == PRODUCT_WGMMA && !op->matmul.promote;
    Action *const action = open_action(lo, (Action){ .kind = ACTION_MMA,
                                                     .op = op,
                                                     .mma = { .instruction = instruction_name(lo, p),
                                                              .count = 1,
                                                              .is_async = is_async,
                                                              .accumulator = acc ? acc->number : NO_TILE } });
    access_operands(lo, action, p);
    if (is_async && op->matmul.accumulate) act_fences_of_sums(lo, op);
    if (p->kind == PRODUCT_LOOP) act_loops(lo, op);
    close_action(lo);
    if (is_async) add_in_flight(lo, p);
}

void decide_product(Lowering *lo, TileOp *op)
{
    const Product *const p = op_info(lo, op)->product;
    const TileInfo *const acc = tile_info(lo, op->matmul.dst.buffer);
    const bool joins = is_split_k(lo, op) && !acc->is_partial; // else the loop around it does
    if (joins && op->matmul.accumulate) {
        wait_for_tile(lo, acc, true);
        act_keep_first(lo, acc);
    }
    if (p->kind == PRODUCT_WGMMA && op->matmul.promote) wait_for_all(lo);
    act_mma(lo, p);
    if (joins) {
        wait_for_tile(lo, acc, true);
        act_join_groups(lo, acc);
    }
}
