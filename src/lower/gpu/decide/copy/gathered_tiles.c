// SPDX-License-Identifier: MIT
// gathered_tiles.c - rows whose indices are known to the producer, but are no box and not walked: its threads copy them.
//
//     forall (i : 128) a[i] = X[(m*128 + i + shift) % N][c*64 +: 64];
//
// Where nothing but launch arguments, indices and read-only tensors says which rows a step's tile has, the statement need
// not wait for the consumers, nor they for it. Then the producer is a group that gathers (producer_group.c), beside the
// boxes that one of its threads fetches, and all other statements stay the consumers'.
//
// before: tiles have storage, no copy is fetched       after: such statements fill, as those of a placed producer group do
#include "lower/gpu/decide/copy/fetch.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/groups.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/decide/copy/rows.h"

// ---- a statement

static TileInfo *filled_tile(Lowering *lo, TileOp *op)
{
    return op->kind == T_FORALL && op->forall.body && op->forall.body->kind == T_STORE
               ? tile_info(lo, buffer_root(op->forall.body->store.buffer))
               : NULL;
}

// Whole rows, as they lie, into a tile of a pipeline with several buffers.
static bool may_fill(Lowering *lo, TileOp *op)
{
    OpInfo *const info = op_info(lo, op);
    const TileInfo *const tile = filled_tile(lo, op);
    if (!tile || op->groups || !info->parent || info->parent->kind != T_PIPELINE || info->parent->pipeline.stages < 2 ||
        op_info(lo, tile->declared)->parent != info->parent)
        return false;
    info->fills = true; // by the producer's partition
    Rows rows;
    info->fills = plan_rows(lo, op, &rows) && rows.is_copy && rows.store->store.buffer == tile->buffer &&
                  buffer_root(rows.runs[0].load->load.buffer)->access == ACCESS_IN;
    return info->fills;
}

static bool is_load(const Expr *x, void *context)
{
    (void)context;
    return x->kind == E_LOAD;
}

// A tensor lists the rows: `X[AT[i]]`.
static bool sees_list(Lowering *lo, TileOp *op, void *context)
{
    bool *const any = context;
    Rows rows;
    if (op->kind != T_FORALL || !op_info(lo, op)->fills || !plan_rows(lo, op, &rows)) return op->kind == T_FORALL;
    const Expr *const load = rows.runs[0].load;
    for (int d = 0; d < load->load.buffer->rank; d++) *any |= expr_any(load->load.subs[d], is_load, NULL);
    return true;
}

static bool mark_fill(Lowering *lo, TileOp *op, void *context)
{
    bool *const any = context;
    if (op->kind != T_FORALL) return false;
    *any |= may_fill(lo, op);
    return true;
}

// ---- all of a tile's

typedef struct Writers {
    const Buffer *root;
    bool fills, others;
} Writers;

static bool see_writer(Lowering *lo, TileOp *op, void *context)
{
    Writers *const writers = context;
    if (op_info(lo, op)->fills) {
        writers->fills |= root_uses(lo, op, writers->root).writes;
        return true;
    }
    writers->others |= op->kind != T_TILE && own_uses(op, writers->root).writes;
    return false;
}

static bool forget_fill(Lowering *lo, TileOp *op, void *context)
{
    const Buffer *const root = context;
    if (op_info(lo, op)->fills && (!root || filled_tile(lo, op)->buffer == root)) op_info(lo, op)->fills = false;
    return op->kind == T_FORALL;
}

static bool find_filled(Lowering *lo)
{
    bool any = false;
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        Writers writers = { .root = tile->buffer };
        each_op(lo, lo->kernel->body, see_writer, &writers);
        if (writers.fills && writers.others) each_op(lo, lo->kernel->body, forget_fill, tile->buffer);
        tile->is_filled = writers.fills && !writers.others;
        any |= tile->is_filled;
    }
    return any;
}

void find_gathered_tiles(Lowering *lo)
{
    bool any = false;
    if (lo->has_producer_group || lo->is_specialised || lo->partition.warps != 4 || lo->cluster > 1) return;
    each_op(lo, lo->kernel->body, mark_fill, &any);
    if (!any || !find_filled(lo)) return;
    if (!fills_are_known(lo)) {
        each_op(lo, lo->kernel->body, forget_fill, NULL);
        for (int i = 0; i < lo->n_declared; i++) lo->declared.items[i]->is_filled = false;
        return;
    }
    lo->has_producer_group = lo->gathers_beside = true;
    each_op(lo, lo->kernel->body, sees_list, &lo->gathers_by_list);
}
