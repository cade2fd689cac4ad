// SPDX-License-Identifier: MIT
// partial.c - deciding: sums and extremes that only the end of a loop needs whole.
//
// sum[i] *= fix[i]; sum[i] += s[i][j] inside a loop is linear in sum: each thread may carry the sum of its own columns,
// and the lanes and warps of a row combine once after the loop instead of once per step. So it is with row_max[i] max=
// x[i][j] and min=, where nothing else changes row_max.
//
// layout(c) = partial divides the contraction of c += a @ b among the warp groups: each adds up its part in a copy of
// c, and the copies are added up after the loop, too; elsewhere after the product.
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/decide/pipeline/map.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/decide/pipeline/walk.h"
#include "lower/gpu/facts/info.h"

typedef struct Linear {
    Lowering *lo;
    TileInfo *tile;
    bool sums, scales, other;
    UpdateOp with;
    TileOp *op;
    Iteration it;
} Linear;

// Every thread has iterations of its own: none repeats what another sums.
static bool threads_share(const Iteration *it)
{
    for (int i = 0; i < it->layout.n; i++)
        if (it->layout.mode[i].dim == REPLICATED) return false;
    return it->layout.n > 0 && !it->is_linear;
}

static void check_use(const TileUse *use, void *context)
{
    Linear *const linear = context;
    if (buffer_root(use->buffer) != linear->tile->buffer) return;
    const TileOp *const op = linear->op;
    const bool is_target = op->kind == T_UPDATE && op->update.buffer == linear->tile->buffer && use->writes;
    if (is_split_k(linear->lo, op) && op->matmul.dst.buffer == use->buffer && op->matmul.accumulate) {
        linear->other |= !use->writes || (linear->sums && linear->with != UPDATE_ADD);
        linear->sums = true;
        linear->with = UPDATE_ADD;
        return;
    }
    const UpdateOp with = op->update.op;
    if (is_target && op->update.reduces && (with == UPDATE_ADD || with == UPDATE_MAX || with == UPDATE_MIN) &&
        threads_share(&linear->it)) {
        linear->other |= linear->sums && linear->with != with;
        linear->sums = true;
        linear->with = with;
    } else if (is_target && !op->update.reduces && with == UPDATE_MUL) {
        linear->scales = true;
    } else {
        linear->other = true;
    }
}

static bool loads_buffer(const Expr *x, void *context)
{
    const Buffer *const buffer = context;
    return x->kind == E_LOAD && x->load.buffer == buffer;
}

static bool check_op(Lowering *lo, TileOp *op, void *context)
{
    Linear *const linear = context;
    if (op->kind == T_TILE) linear->other |= op->tile.buffer == linear->tile->buffer;
    linear->op = op;
    if (op->kind == T_FORALL) choose_iteration(lo, op, &linear->it);
    if (op_info(lo, op)->fetched) return true;
    tile_uses(op, check_use, linear);
    if (op->kind == T_UPDATE && expr_any(op->update.value, loads_buffer, (void *)linear->tile->buffer))
        linear->other = true;
    return false;
}

// Several threads hold the same element.
static bool is_replicated(const Layout *layout)
{
    for (int i = 0; i < layout->n; i++)
        if (layout->mode[i].dim == REPLICATED) return true;
    return false;
}

static bool is_linear_in(Lowering *lo, TileOp *loop, TileInfo *tile)
{
    Linear linear = { .lo = lo, .tile = tile };
    if (lo->kernel->checked) return false;
    if (tile->storage != TILE_IN_REGISTERS || tile->is_partial || !is_replicated(&tile->layout) ||
        !dtype_is_float(tile->buffer->type) || dtype_bits(tile->buffer->type) < 32)
        return false;
    TileOp **body;
    for (int i = 0; (body = tile_bodies(loop, i)) != NULL; i++) each_op(lo, *body, check_op, &linear);
    tile->partial_with = linear.with;
    return linear.sums && !linear.other && !(linear.scales && linear.with != UPDATE_ADD);
}

bool is_split_k(Lowering *lo, const TileOp *op)
{
    if (op->kind != T_MATMUL) return false;
    const Product *const p = op_info(lo, op)->product;
    return p && p->division == DIVIDE_CONTRACTION && (p->kind == PRODUCT_WGMMA || p->kind == PRODUCT_MMA);
}

int split_k_bytes(const Lowering *lo, const TileInfo *tile)
{
    return layout_registers(&tile->layout) * lo->partition.groups * 32 * lo->partition.warps * 4;
}

static Action *act_on_tile(Lowering *lo, const TileInfo *tile, MapKind how)
{
    Action *const action = open_action(lo, (Action){ .kind = ACTION_MAP, .map = { .how = how, .tile = tile->number } });
    access_tile(lo, action, tile, true, true, false);
    return action;
}

void act_keep_first(Lowering *lo, const TileInfo *tile)
{
    act_on_tile(lo, tile, MAP_BEGIN_PARTIALS);
    close_action(lo);
}

void act_join_groups(Lowering *lo, const TileInfo *tile)
{
    act_on_tile(lo, tile, MAP_COMBINE_GROUPS);
    act_sync(lo); // earlier readers of the scratch
    act_sync(lo);
    close_action(lo);
}

void open_partial_sums(Lowering *lo, TileOp *loop)
{
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        const bool of_another_group = lo->is_specialised && tile->groups && !(tile->groups >> lo->walk & 1);
        if (of_another_group || !is_linear_in(lo, loop, tile)) continue;
        if (tile->partial_with == UPDATE_ADD) act_keep_first(lo, tile);
        tile->is_partial = true;
        tile->partial_in = loop;
    }
}

void close_partial_sums(Lowering *lo, TileOp *loop)
{
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        if (!tile->is_partial || tile->partial_in != loop) continue;
        tile->is_partial = false;
        if (tile->is_split_k) act_join_groups(lo, tile);
        else act_join_sums(lo, tile);
    }
}
