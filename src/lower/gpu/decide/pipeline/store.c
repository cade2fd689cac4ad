// SPDX-License-Identifier: MIT
// store.c - accumulators to tensors through swizzled staging and TMA.
//
// Every warp stores its own 16 rows, a chunk of at most 128 bytes of columns at a time, from boxes of staging that it
// shares with nobody: no barrier is needed. Two boxes rotate, so that one is filled while the other is read; where
// there are more, all are filled, fenced once and sent together. Transposed accumulators go by whole groups.
//
// before: staging is placed (memory.c)     after: a store is an action with the waits for its staging as parts
#include "lower/gpu/decide/pipeline/store.h"

#include "lower/gpu/facts/box.h"
#include "lower/gpu/decide/pipeline/pipeline.h"
#include "lower/gpu/decide/pipeline/several_writers.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/values.h"

#include <assert.h>

// ---- which stores

// That a copy stores whole; NULL: it is none.
static const TileInfo *staged_fragment(Lowering *lo, const TileOp *op)
{
    if (lo->no_staging || (op->kind != T_COPY && op->kind != T_ATOMIC_TILE)) return NULL;
    const TileInfo *const tile = tile_info(lo, op->copy.src.buffer);
    if (!tile || tile->storage != TILE_IN_REGISTERS) return NULL;
    return tile->buffer->rank == 2 && lo->partition.warps == 4 && region_is_whole(&op->copy.src) &&
                   (region_rank(&op->copy.dst) == 2 || op_info(lo, op)->merges_rows)
               ? tile
               : NULL;
}

static bool converts_on_the_way(const TileOp *op, DType from, DType to)
{
    if (op->kind == T_ATOMIC_TILE) return from == DTYPE_F32 && to == DTYPE_F32;
    if (dtype_bits(to) == 32) return from == to;
    if (dtype_bits(to) == 8) return from == DTYPE_F32 && dtype_is_float(to);
    return dtype_bits(to) == 16 && (from == to || (from == DTYPE_F32 && dtype_is_float(to)));
}

// Elements that a warp has along a dimension.
static int warp_extent(const Layout *layout, int dim)
{
    int extent = 1;
    for (int i = 0; i < layout->n; i++)
        if (layout->mode[i].input <= IN_LANE && layout->mode[i].dim == dim) extent *= layout->mode[i].extent;
    return extent;
}

// Two boxes rotate where their number is even; more, where there is room, if they divide it.
static void count_boxes(const Lowering *lo, Staging *plan)
{
    plan->n = layout_registers(&plan->tile->layout) / (plan->rows * plan->columns / WARP_LANES);
    plan->boxes = plan->n % 2 == 0 && !lo->one_box ? 2 : 1;
    for (int boxes = lo->boxes_most; boxes > 2 && plan->boxes <= 2; boxes /= 2)
        plan->boxes = plan->n % boxes == 0 ? boxes : plan->boxes;
}

// The result of a transposed product in 16 bits: boxes of 16 columns and at most 64 rows, filled by stmatrix.trans. Where the
// tensor has several dimensions of rows, 16 divide them (forall_copies.c), but more may not.
static bool plan_turned(Lowering *lo, const TileOp *op, const TileInfo *tile, Staging *plan)
{
    const int rows = tile->layout.extent[0], columns = tile->layout.extent[1], of_groups = 64 * lo->partition.groups;
    const DType type = op->copy.dst.buffer->type;
    Layout layout = layout_accumulator(columns, rows, lo->partition, DIVIDE_ROWS);
    layout = layout_project(&layout, 2, (int[]){ 1, 0 });
    if (op->kind != T_COPY || dtype_bits(type) != 16 || rows % 16 != 0 || columns % of_groups != 0 ||
        !layout_equal(&layout, &tile->layout))
        return false;
    *plan = (Staging){ .tile = tile, .transposed = true, .rows = 64, .columns = 16, .swizzle = 32 };
    while (plan->rows > 16 &&
           (rows % plan->rows != 0 || !boxes_divide_rows(op->copy.dst.buffer, op->copy.dst.subs, plan->rows)))
        plan->rows -= 16;
    plan->box_bytes = (plan->rows * plan->swizzle + SHARED_ALIGN - 1) / SHARED_ALIGN * SHARED_ALIGN;
    count_boxes(lo, plan);
    return slice_is_box(lo, &op->copy.dst, plan->rows, plan->columns);
}

// The accumulator layout of a whole fragment, stored as a box; false: the general path.
static bool plan_staging(Lowering *lo, const TileOp *op, Staging *plan)
{
    const TileInfo *const tile = staged_fragment(lo, op);
    Division division;
    if (!tile || !converts_on_the_way(op, tile->buffer->type, op->copy.dst.buffer->type)) return false;
    if (!layout_is_accumulator(&tile->layout, lo->partition, &division)) return plan_turned(lo, op, tile, plan);
    const int rows = tile->layout.extent[0], columns = tile->layout.extent[1], wide = warp_extent(&tile->layout, 1);
    const DType type = op->copy.dst.buffer->type;
    int swizzle = 128;
    while (swizzle >= 32 && wide * dtype_bits(type) / 8 % swizzle != 0) swizzle /= 2;
    if (swizzle < 32 || columns % 8 != 0 || rows % 16 != 0) return false;
    *plan = (Staging){ .tile = tile,
                       .rows = 16,
                       .columns = swizzle * 8 / dtype_bits(type),
                       .swizzle = swizzle,
                       .box_bytes = 16 * swizzle };
    count_boxes(lo, plan);
    return slice_is_box(lo, &op->copy.dst, 16, plan->columns);
}

// ---- transposed

// Accumulators that were computed transposed (products.c), rows as they are: f32 sums that are added to a tensor, and values
// of 16 bits that are stored. A whole group has 64 columns. It fills boxes of 128 bytes of columns by all rows, synchronises,
// and one thread sends them: a warp alone has 16 columns, whose rows of 32 bytes the copy engine takes slowly.
static bool converts_transposed(const TileOp *op, DType from, DType to)
{
    if (op->kind == T_ATOMIC_TILE) return from == DTYPE_F32 && to == DTYPE_F32;
    return dtype_bits(to) == 16 && (from == to || (from == DTYPE_F32 && dtype_is_float(to)));
}

bool store_is_transposed(Lowering *lo, TileOp *op)
{
    const TileInfo *const tile = lo->kernel->checked ? NULL : staged_fragment(lo, op);
    if (!tile || !converts_transposed(op, tile->buffer->type, op->copy.dst.buffer->type)) return false;
    const int rows = tile->layout.extent[0], columns = tile->layout.extent[1];
    Layout layout = layout_accumulator(columns, rows, lo->partition, DIVIDE_ROWS);
    layout = layout_project(&layout, 2, (int[]){ 1, 0 });
    return layout_equal(&layout, &tile->layout) && columns == GROUP_COLUMNS * lo->partition.groups && rows <= 256 &&
           rows % (op->kind == T_COPY ? 16 : 8) == 0 && slice_is_box(lo, &op->copy.dst, rows, transposed_columns(op));
}

static int transposed_store_bytes(const Lowering *lo, const TileOp *op)
{
    const int boxes = GROUP_COLUMNS / transposed_columns(op);
    return boxes * tile_info(lo, op->copy.src.buffer)->layout.extent[0] * BOX_ROW_BYTES * lo->all.groups;
}

// ---- which stores are staged

// The copy engine's stores are in order with other accesses to the tensor where all consumers synchronise: before it
// they are waited for. Signals between groups do not do that.
static bool is_ordered_by_group_barriers(Lowering *lo, const TileOp *op)
{
    if (!lo->is_specialised || op->kind != T_COPY) return false;
    const Buffer *const root = buffer_root(op->copy.dst.buffer);
    return root->kind == BUFFER_TENSOR && (root->access == ACCESS_INOUT || find_several_writers(lo)[root->id]);
}

bool store_is_staged(Lowering *lo, TileOp *op)
{
    Staging plan;
    if (lo->kernel->checked || is_ordered_by_group_barriers(lo, op)) return false;
    return plan_staging(lo, op, &plan) || store_is_transposed(lo, op);
}

int staged_store_bytes(Lowering *lo, TileOp *op)
{
    Staging plan;
    if (store_is_transposed(lo, op)) return transposed_store_bytes(lo, op);
    return plan_staging(lo, op, &plan) ? plan.boxes * box_stride(&plan) * 4 * lo->all.groups : 0;
}

// ---- waiting for them

static void act_store_wait(Lowering *lo, int pending, bool completes)
{
    act(lo, (Action){ .kind = ACTION_STORE_WAIT, .wait = { .pending = pending, .completes = completes } });
}

// What this warp has staged has been read.
void act_staging_done(Lowering *lo) { act_store_wait(lo, 0, false); }

// Shared memory must stay until the last stores have read it.
void end_stores(Lowering *lo)
{
    if (lo->n_staged) act_staging_done(lo);
}

void finish_staged_stores(Lowering *lo)
{
    if (!lo->n_staged) return;
    act(lo, (Action){ .kind = ACTION_STORE_WAIT, .wait = { .pending = 0, .completes = true, .fences = true } });
}

// ---- a store

static void act_group_sync(Lowering *lo)
{
    act(lo, (Action){ .kind = ACTION_BARRIER_SYNC,
                      .barrier = { .barrier = BAR_GROUPS, .threads = WARPGROUP_THREADS, .of = BARRIER_OF_GROUP } });
}

// Fills boxes, or sends them.
static Action *act_boxes(Lowering *lo, Action action, const BoxesPlan *boxes)
{
    const bool sends = action.kind == ACTION_STORE;
    const StorePlan *const store = boxes->store;
    const int units = store->is_transposed ? 1 : box_stride(&store->staging) / SHARED_ALIGN;
    action.print = boxes;
    Action *const added = act(lo, action);
    schedule_access(lo->builder.schedule, added,
                    (TileAccess){ .tile = store->is_transposed ? lo->group_staging : lo->warp_staging,
                                  .reads = sends,
                                  .writes = !sends,
                                  .is_async = sends,
                                  .ahead = store->is_transposed ? 0 : boxes->first % store->staging.boxes * units,
                                  .slots = boxes->n * units });
    return added;
}

static const BoxesPlan *act_fill(Lowering *lo, const StorePlan *store, int first, int n)
{
    const BoxesPlan *const boxes =
        NEW(lo->arena, BoxesPlan, .form = PLAN_BOXES, .store = store, .first = first, .n = n);
    Action *const fill = act_boxes(lo, (Action){ .kind = ACTION_MAP, .map = { .how = MAP_STAGE } }, boxes);
    access_tile(lo, fill, tile_info(lo, store->op->copy.src.buffer), true, false, false);
    return boxes;
}

static void act_send(Lowering *lo, const BoxesPlan *boxes)
{
    act_boxes(lo, (Action){ .kind = ACTION_STORE, .store = { .how = STORE_BOXES } }, boxes);
}

// Before each box, or the boxes that are sent together, a wait until its place is free; the first may follow a store of
// other shape, and waits for all of them. Before them all, where one thread's boxes of another store may still be read
// there.
static void act_warps_boxes(Lowering *lo, StorePlan *plan)
{
    const Staging *const staging = &plan->staging;
    const int together = sent_together(staging), n = staging->n;
    plan->frees_staging = lo->n_transposed;
    if (plan->frees_staging) {
        act_staging_done(lo);
        act_group_sync(lo);
    }
    for (int i = 0; i < n; i += together) {
        if (i == 0 && may_store_again(lo, plan->op)) act_store_wait(lo, 0, true);
        else act_store_wait(lo, i == 0 && lo->n_staged > 1 ? 0 : staging->boxes / together - 1, false);
        act_plain(lo, ACTION_WARP_SYNC);
        const BoxesPlan *const boxes = act_fill(lo, plan, i, together);
        if (i + together >= n) decide_early_issue(lo);
        act_plain(lo, ACTION_FENCE_ASYNC);
        act_plain(lo, ACTION_WARP_SYNC);
        act_send(lo, boxes);
    }
}

static void act_transposed_boxes(Lowering *lo, const StorePlan *plan)
{
    if (!op_info(lo, plan->op)->staging_is_free) {
        act_store_wait(lo, 0, may_store_again(lo, plan->op));
        act_group_sync(lo);
    }
    const BoxesPlan *const boxes = act_fill(lo, plan, 0, 1);
    decide_early_issue(lo);
    act_plain(lo, ACTION_FENCE_ASYNC);
    act_group_sync(lo);
    act_send(lo, boxes);
}

// One box after the other in the order of the registers.
static bool place_boxes(Lowering *lo, StorePlan *plan, const Layout *box)
{
    const Layout *const layout = &tile_info(lo, plan->op->copy.src.buffer)->layout;
    const int n = plan->is_transposed ? 1 : plan->staging.n, registers = layout_registers(box);
    plan->threads = layout_of_threads(layout, plan->is_transposed ? IN_GROUP : IN_WARP);
    plan->place = NEW_ARRAY(lo->arena, BoxCoordinates, n);
    for (int i = 0; i < n; i++) {
        int corner[LAYOUT_MAX_RANK];
        if (!layout_find_box(layout, box, i * registers, corner)) return false;
        plan->place[i] = (BoxCoordinates){ corner[0], corner[1], i * registers };
    }
    return true;
}

// A box holds 16 rows of a warp as tensor cores leave them, or 16 columns of a transposed product's rows; a group's boxes
// all rows, and columns of them. Lanes store whole words: elements of 8 bits change lanes before.
static bool plan_fill(Lowering *lo, StorePlan *plan)
{
    const Partition group = { 1, 4 }, warp = { 1, 1 };
    const bool is_across = plan->is_transposed || plan->staging.transposed;
    const int rows =
        plan->is_transposed ? tile_info(lo, plan->op->copy.src.buffer)->layout.extent[0] : plan->staging.rows;
    const int columns = plan->is_transposed ? GROUP_COLUMNS : plan->staging.columns;
    const int bytes = dtype_bits(plan->op->copy.dst.buffer->type) / 8;
    const TransferOptions options = { .partition = plan->is_transposed ? group : warp,
                                      .element_bytes = bytes,
                                      .is_store = true,
                                      .has_matrices = true,
                                      .least_bytes = 4 };
    Layout layout = is_across ? layout_accumulator(columns, rows, options.partition, DIVIDE_ROWS)
                              : layout_accumulator(rows, columns, warp, DIVIDE_ROWS);
    if (is_across) layout = layout_project(&layout, 2, (int[]){ 1, 0 });
    SharedLayout boxes;
    return shared_panels(rows, columns, bytes, 0, &boxes) &&
           plan_transfer(lo->arena, &layout, &boxes, &options, &plan->fill) && place_boxes(lo, plan, &layout);
}

// Of a view that may end within the tile.
static void plan_window(Lowering *lo, StorePlan *plan)
{
    const Window *const window = op_info(lo, plan->op)->window;
    if (!window) return;
    const int rows = tile_info(lo, plan->op->copy.src.buffer)->layout.extent[0];
    plan->aligned = both(lo, plan->aligned, window->fits);
    if (!window->rows) return;
    if (plan->is_transposed || plan->staging.transposed ||
        lo->n_transposed) { // all rows are a group's, or a warp's, or groups wait
        plan->aligned = both(lo, plan->aligned, expr_binary(lo->arena, X_GE, window->rows, int_const(lo->arena, rows)));
        return;
    }
    plan->rows = window->rows;
    for (int i = 0; i < plan->staging.n; i++)
        if (plan->place[i].row + plan->staging.rows > plan->warp_rows)
            plan->warp_rows = plan->place[i].row + plan->staging.rows;
}

void act_staged_store(Lowering *lo, TileOp *op, Action action)
{
    StorePlan *const plan = NEW(lo->arena, StorePlan, .form = PLAN_STORE, .op = op);
    plan->is_transposed = store_is_transposed(lo, op);
    plan->aligned = slice_is_aligned(lo, &op->copy.dst);
    if (!plan->is_transposed) plan_staging(lo, op, &plan->staging);
    plan->map = plan->is_transposed
                    ? map_of_slice(lo, &op->copy.dst, transposed_columns(op), 0, 128)
                    : map_of_slice(lo, &op->copy.dst, plan->staging.columns, plan->staging.rows, plan->staging.swizzle);
    const bool fills = plan_fill(lo, plan);
    assert(fills && "boxes of accumulators are regular");
    (void)fills;
    plan_window(lo, plan);
    action.print = plan;
    if (op_info(lo, op)->window && may_store_again(lo, op)) { // by threads, this time
        act_store_wait(lo, 0, true);
        act_plain(lo, ACTION_WARP_SYNC);
    }
    record_accesses(lo, open_action(lo, action), op);
    if (plan->is_transposed) act_transposed_boxes(lo, plan);
    else act_warps_boxes(lo, plan);
    if (plan->aligned || plan->rows) plan->elements = plan_map(lo, op);
    close_action(lo);
}
