// SPDX-License-Identifier: MIT
// row_indices.c - a producer group knows which rows it gathers before it comes to them.
//
// Row numbers pass through index tiles of the producer group's own: loaded from a list, tested, divided into pages. A
// statement that works out such *row indices*, of one row from its own elements alone, can be made a step early, by one
// thread for each row (row_index_loop.c). Its tiles are double buffered then: this step's and the next's.
//
// before: the producer group's statements and its own tiles are known
// after:  find_row_indices(): is_row_index and loads_early of such statements, has_row_indices of their pipelines,
//         is_double_buffered of tiles
#include "lower/gpu/decide/copy/fetch.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/decide/copy/rows.h"
#include "lower/gpu/facts/info.h"

typedef struct Scan {
    Lowering *lo;
    const Var *row;
    bool elsewhere, loads, own;
} Scan;

static bool see_load(const Expr *x, void *context)
{
    Scan *const scan = context;
    if (x->kind == E_ATOMIC || x->kind == E_CALL) scan->elsewhere = true;
    if (x->kind != E_LOAD) return false;
    const Buffer *const root = buffer_root(x->load.buffer);
    const TileInfo *const tile = tile_info(scan->lo, root);
    scan->loads |= root->kind == BUFFER_TENSOR;
    scan->own |= tile != NULL;
    scan->elsewhere |= tile ? !tile->is_private || x->load.buffer != root || x->load.buffer->rank != 1 ||
                                  x->load.subs[0]->kind != E_VAR || x->load.subs[0]->var.var != scan->row
                            : root->kind != BUFFER_TENSOR;
    return false;
}

// tile[r] = f(tensors, own tiles at r) for a whole tile
static bool works_out_row_indices(Lowering *lo, TileOp *op, bool *loads_early)
{
    int64_t extent, size;
    const TileOp *const store = op->kind == T_FORALL ? op->forall.body : NULL;
    if (!store || op->forall.n != 1 || store->next || store->kind != T_STORE ||
        !full_extent(&op->forall.indices[0], &extent) || extent > WARPGROUP_THREADS)
        return false;
    const TileInfo *const tile = tile_info(lo, store->store.buffer);
    Scan scan = { .lo = lo, .row = op->forall.indices[0].var };
    if (!tile || !tile->is_private || store->store.buffer->rank != 1 ||
        !expr_as_int(store->store.buffer->shape[0], &size) || size != extent || store->store.subs[0]->kind != E_VAR ||
        store->store.subs[0]->var.var != scan.row)
        return false;
    expr_any(store->store.value, see_load, &scan);
    *loads_early = scan.loads && !scan.own;
    return !scan.elsewhere;
}

typedef struct Finding {
    Lowering *lo;
    bool fails;
    int row_indices, rows;
} Finding;

static void see_private_write(const TileUse *use, void *context)
{
    Finding *const finding = context;
    const TileInfo *const tile = tile_info(finding->lo, buffer_root(use->buffer));
    finding->fails |= tile && tile->is_private && (use->writes || use->atomic);
}

static bool see_fill_below(Lowering *lo, TileOp *op, void *context)
{
    ((Finding *)context)->fails |= op_info(lo, op)->fills;
    return op->kind == T_FORALL;
}

static void find_in_block(Lowering *lo, TileOp *block, Finding *finding)
{
    for (TileOp *op = block; op; op = op->next) {
        OpInfo *const info = op_info(lo, op);
        if (info->fills && works_out_row_indices(lo, op, &info->loads_early)) {
            info->is_row_index = true;
            finding->row_indices++;
        } else if (info->fills) {
            each_use(lo, op, see_private_write, finding);
            finding->rows++;
        } else if (op->kind == T_IF) {
            find_in_block(lo, op->branch.then, finding);
            find_in_block(lo, op->branch.otherwise, finding);
        } else if (op->kind == T_SET || (op->kind == T_UPDATE && op->update.var)) {
            finding->fails = true;
        } else if (op->kind == T_FOR || op->kind == T_WHILE || op->kind == T_PIPELINE) {
            visit_op(lo, op, see_fill_below, finding);
        }
    }
}

static bool unmark(Lowering *lo, TileOp *op, void *context)
{
    op_info(lo, op)->is_row_index = false;
    return op->kind == T_FORALL;
}

static bool find_in_pipeline(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind != T_PIPELINE) return op->kind == T_FORALL;
    Finding finding = { .lo = lo, .fails = op->pipeline.n != 1 || op->pipeline.n_stage_labels > 2 };
    find_in_block(lo, op->pipeline.body, &finding);
    if (finding.fails || !finding.row_indices || !finding.rows) {
        each_op(lo, op->pipeline.body, unmark, NULL);
        return false;
    }
    op_info(lo, op)->has_row_indices = true;
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        tile->is_double_buffered |= tile->is_private && is_within(lo, tile->declared, op);
    }
    return false;
}

void find_row_indices(Lowering *lo) { each_op(lo, lo->kernel->body, find_in_pipeline, NULL); }

// ---- what is accessed at a row

typedef struct Locality {
    Lowering *lo;
    const Var *row;
    bool fails;
} Locality;

static void see_tile_at(Locality *local, Buffer *buffer, Expr *const *subs)
{
    if (tile_info(local->lo, buffer_root(buffer)))
        local->fails |= buffer->kind == BUFFER_VIEW || subs[0]->kind != E_VAR || subs[0]->var.var != local->row;
}

static bool see_tile_load(const Expr *x, void *context)
{
    if (x->kind == E_LOAD) see_tile_at(context, x->load.buffer, x->load.subs);
    return false;
}

// Eight rows of each 32 are a warp's (choose_row_pieces), and a row is a lane's.
static bool has_warps_rows(const LoopIndex *index)
{
    int64_t extent;
    return full_extent(index, &extent) && extent % (8 * 4) == 0 && extent <= WARPGROUP_THREADS;
}

static bool see_local(Lowering *lo, TileOp *op, void *context)
{
    bool *const fails = context;
    if (!op_info(lo, op)->fills) return op->kind == T_FORALL;
    const TileOp *const forall = as_map(lo, op), *store = forall->forall.body;
    Locality local = { lo, forall->forall.indices[0].var, false };
    for (; store && store->kind == T_LET; store = store->next)
        if (store->let.value) expr_any(store->let.value, see_tile_load, &local);
    if (!store || store->kind != T_STORE || store->next ||
        !(forall->forall.n == 1 ? has_warps_rows(&forall->forall.indices[0]) : fill_is_rows(lo, op))) {
        *fails = true;
        return true;
    }
    see_tile_at(&local, store->store.buffer, store->store.subs);
    expr_any(store->store.value, see_tile_load, &local);
    *fails |= local.fails;
    return true;
}

bool rows_are_local(Lowering *lo, const TileOp *pipeline)
{
    bool fails = false;
    each_op(lo, pipeline->pipeline.body, see_local, &fails);
    return !fails;
}
