// SPDX-License-Identifier: MIT
// store.c - accumulators to tensors through swizzled staging and TMA.
//
// Every warp stores its own 16 rows, a chunk of at most 128 bytes of columns at a time, from boxes of staging that it
// shares with nobody: no barrier is needed. Two boxes rotate, so that one is filled while the other is read; where
// there are more, all are filled, fenced once and sent together. Transposed accumulators that are added to a tensor go
// by whole groups (transposed_store.c).
#include "lower/cuda/actions.h"

// ---- which stores

const TileInfo *staged_fragment(Lowering *lo, const TileOp *op)
{
    if (lo->no_staging || (op->kind != T_COPY && op->kind != T_ATOMIC_TILE)) return NULL;
    const TileInfo *const tile = tile_info(lo, op->copy.src.buffer);
    if (!tile || tile->storage != TILE_IN_REGISTERS) return NULL;
    return tile->buffer->rank == 2 && lo->partition.warps == 4 && region_is_whole(&op->copy.src) &&
                   region_rank(&op->copy.dst) == 2
               ? tile
               : NULL;
}

typedef struct Staging {
    const TileInfo *tile;
    DType type;  // as stored
    int columns; // of a chunk
    int chunks;  // of a warp's 16 rows in one block of rows
    int row_blocks;
    int boxes, box_bytes, swizzle;
} Staging;

static bool is_accumulator(Lowering *lo, const TileInfo *tile)
{
    for (Division d = DIVIDE_ROWS; d <= DIVIDE_COLUMNS; d++) {
        const Layout layout = layout_accumulator(tile->layout.extent[0], tile->layout.extent[1], lo->partition, d);
        if (layout_equal(&layout, &tile->layout)) return true;
    }
    return false;
}

static bool converts_on_the_way(const TileOp *op, DType from, DType to)
{
    if (op->kind == T_ATOMIC_TILE) return from == DTYPE_F32 && to == DTYPE_F32;
    if (dtype_bits(to) == 32) return from == to;
    return dtype_bits(to) == 16 && (from == to || (from == DTYPE_F32 && dtype_is_float(to)));
}

// Of 64 rows, one below the other in the registers of a thread.
static int row_blocks(const Layout *layout)
{
    int blocks = 1;
    for (int i = 0; i < layout->n; i++)
        if (layout->mode[i].input == IN_REGISTER && layout->mode[i].dim == 0 && layout->mode[i].stride >= 64)
            blocks = layout->mode[i].extent;
    return blocks;
}

// The accumulator layout of a whole fragment, stored as a box; false: the general path.
static bool plan_staging(Lowering *lo, const TileOp *op, Staging *plan)
{
    const TileInfo *const tile = staged_fragment(lo, op);
    if (!tile || !is_accumulator(lo, tile) || !converts_on_the_way(op, tile->buffer->type, op->copy.dst.buffer->type))
        return false;
    const int rows = tile->layout.extent[0], columns = tile->layout.extent[1], blocks = row_blocks(&tile->layout);
    const int wide = layout_registers(&tile->layout) / blocks * 2; // columns of one group
    const DType type = op->copy.dst.buffer->type;
    int swizzle = 128;
    while (swizzle >= 32 && wide * dtype_bits(type) / 8 % swizzle != 0) swizzle /= 2;
    if (swizzle < 32 || columns % 8 != 0 || rows % 16 != 0) return false;
    *plan = (Staging){ .tile = tile,
                       .type = type,
                       .columns = swizzle * 8 / dtype_bits(type),
                       .row_blocks = blocks,
                       .swizzle = swizzle,
                       .box_bytes = 16 * swizzle };
    plan->chunks = wide / plan->columns;
    plan->boxes = plan->chunks * blocks % 2 == 0 && !lo->one_box ? 2 : 1;
    for (int boxes = lo->boxes_most; boxes > 2 && plan->boxes <= 2; boxes /= 2)
        plan->boxes = plan->chunks * blocks % boxes == 0 ? boxes : plan->boxes;
    return slice_is_box(lo, &op->copy.dst, 16, plan->columns);
}

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

// Between boxes: swizzled ones begin at multiples of 1024 bytes.
static int box_stride(const Staging *plan) { return plan->box_bytes < SHARED_ALIGN ? SHARED_ALIGN : plan->box_bytes; }

int staged_store_bytes(Lowering *lo, TileOp *op)
{
    Staging plan;
    if (store_is_transposed(lo, op)) return transposed_store_bytes(lo, op);
    return plan_staging(lo, op, &plan) ? plan.boxes * box_stride(&plan) * 4 * lo->all.groups : 0;
}

// ---- waiting for them

// All but the last so many of this warp's.
static void wait_for_stores(Lowering *lo, int but, bool completes)
{
    act(lo, (Action){ .kind = ACTION_STORE_WAIT, .wait = { .pending = but, .completes = completes } });
}

void print_store_wait(Lowering *lo, const Action *action)
{
    const bool completes = action->wait.completes;
    Nest one;
    begin_if(lo, &one, is_zero(lo, lo->lane));
    emit_call(lo, completes ? "tma_wait_written" : "tma_wait_read", 1, i32_const(lo, action->wait.pending));
    end_nest(lo, &one);
    if (action->wait.fences) emit_call(lo, "fence_async_tensors", 0);
}

// What this warp has staged has been read.
void emit_staging_done(Lowering *lo) { wait_for_stores(lo, 0, false); }

// Shared memory must stay until the last stores have read it.
void end_stores(Lowering *lo)
{
    if (lo->n_staged) emit_staging_done(lo);
}

void finish_staged_stores(Lowering *lo)
{
    if (!lo->n_staged) return;
    act(lo, (Action){ .kind = ACTION_STORE_WAIT, .wait = { .completes = true, .fences = true } });
}

// The group's staging is free: every thread's stores have been read, and all of the group know it.
void emit_group_done(Lowering *lo)
{
    emit_staging_done(lo);
    emit_call(lo, "bar_sync", 2, i32_op(lo, X_ADD, var_of(lo, lo->group), BAR_GROUPS),
              i32_const(lo, WARPGROUP_THREADS));
}

// In another turn of a loop it may store the same elements, which the copy engine does not keep in order.
static bool may_store_again(Lowering *lo, const TileOp *op)
{
    if (op->kind != T_COPY) return false;
    const TileOp *parent = op;
    while ((parent = op_info(lo, parent)->parent) != NULL)
        if (parent->kind == T_FOR || parent->kind == T_WHILE || parent->kind == T_PIPELINE) return true;
    return false;
}

// ---- printing

static Expr *value(Lowering *lo, const Staging *plan, int reg)
{
    return expr_index(lo->arena, plan->tile->registers, i32_const(lo, reg));
}

// The word of two neighbouring registers, converted.
static Expr *pair(Lowering *lo, const Staging *plan, int reg)
{
    const char *const pack = dtype_bits(plan->tile->buffer->type) == 16
                                 ? "pack_bits"
                                 : arena_printf(lo->arena, "pack_%s", dtype_name(plan->type));
    return call_expr(lo, DTYPE_U32, pack, 2, value(lo, plan, reg), value(lo, plan, reg + 1));
}

// A warp's registers of a block of rows and a chunk of columns: 4 for 8 columns.
static void fill_box(Lowering *lo, const Staging *plan, Expr *box, int block, int chunk)
{
    const int of_block = layout_registers(&plan->tile->layout) / plan->row_blocks;
    const int first = block * of_block + chunk * plan->columns / 2, blocks = plan->columns / 8;
    Expr *const lane = var_of(lo, lo->lane);
    const char *const pairs = arena_printf(lo->arena, "stage_32_pair<%d>", plan->swizzle);
    const char *const single = arena_printf(lo->arena, "stage_32<%d>", plan->swizzle);
    for (int c = 0; c < plan->columns / 16 && dtype_bits(plan->type) == 16; c++)
        emit_call(lo, arena_printf(lo->arena, "stage_16<%d>", plan->swizzle), 7, box, lane, i32_const(lo, c),
                  pair(lo, plan, first + 8 * c), pair(lo, plan, first + 8 * c + 2), pair(lo, plan, first + 8 * c + 4),
                  pair(lo, plan, first + 8 * c + 6));
    for (int c = 0; c < blocks && dtype_bits(plan->type) == 32; c += blocks % 4 || c % 2 == 0 ? 1 : 3)
        for (int half = 0; half < 2; half++) {
            const int at = first + 4 * c + 2 * half;
            Expr *const row = i32_const(lo, half), *const column = i32_const(lo, c);
            if (blocks % 4 == 0)
                emit_call(lo, pairs, 8, box, lane, column, row, value(lo, plan, at), value(lo, plan, at + 1),
                          value(lo, plan, at + 8), value(lo, plan, at + 9));
            else emit_call(lo, single, 6, box, lane, column, row, value(lo, plan, at), value(lo, plan, at + 1));
        }
}

void emit_box_store(Lowering *lo, const TileOp *op, int map, Expr *box, Expr **coordinates)
{
    const int rank = op->copy.dst.buffer->rank;
    const char *const name = arena_printf(lo->arena, "tma_%s_%dd", op->kind == T_ATOMIC_TILE ? "add" : "store", rank);
    Expr *args[8] = { map_address(lo, map), box };
    memcpy(args + 2, coordinates, sizeof(Expr *) * (size_t)rank);
    emit_call_if(lo, NULL, expr_call(lo->arena, DTYPE_NONE, name, 2 + rank, args));
}

Expr *staging_address(Lowering *lo, Expr *offset)
{
    Expr *const of_group = i32_mul(lo, var_of(lo, lo->group), lo->staging_bytes / lo->all.groups);
    Expr *const from =
        i32_add(lo, i32_const(lo, lo->staging_offset), offset ? i32_add(lo, of_group, offset) : of_group);
    return expr_binary(lo->arena, X_ADD, call_expr(lo, DTYPE_U32, "shared_base", 0), cast(lo, DTYPE_U32, from));
}

// What the boxes of one store have in common; row and column: of the warp's first.
typedef struct Boxes {
    TileOp *op;
    Staging plan;
    int map, row_dim;
    Var *stage, *row, *column;
} Boxes;

static int group_stride(const Layout *layout, int dim)
{
    int stride = 0;
    for (int i = 0; i < layout->n; i++)
        if (layout->mode[i].input == IN_GROUP && layout->mode[i].dim == dim) stride = layout->mode[i].stride;
    return stride;
}

// A warp's boxes lie in its own part, whatever the store: it waits for its own stores only before it writes there.
static void declare_boxes(Lowering *lo, Boxes *boxes)
{
    const Layout *const layout = &boxes->plan.tile->layout;
    const int of_warp = lo->staging_bytes / lo->all.groups / 4 / SHARED_ALIGN * SHARED_ALIGN;
    const int group_rows = group_stride(layout, 0), group_columns = group_stride(layout, 1);
    Expr *const warp = var_of(lo, lo->warp), *const group = var_of(lo, lo->group);
    boxes->stage = emit_declare(lo, DTYPE_U32, "stage", staging_address(lo, i32_mul(lo, warp, of_warp)));
    Expr *const row = i32_mul(lo, warp, 16);
    boxes->row =
        emit_declare(lo, DTYPE_I32, "row", group_rows ? i32_add(lo, row, i32_mul(lo, group, group_rows)) : row);
    boxes->column =
        emit_declare(lo, DTYPE_I32, "column", group_columns ? i32_mul(lo, group, group_columns) : i32_const(lo, 0));
}

// Whether a box lies within the tile, where the layout covers more. NULL: it does.
static Expr *box_test(Lowering *lo, const Layout *layout, Expr *row, Expr *column)
{
    Expr *inside = NULL;
    if (layout->extent[0] < layout_coverage(layout, 0)) inside = i32_op(lo, X_LT, row, layout->extent[0]);
    if (layout->extent[1] < layout_coverage(layout, 1))
        inside = both(lo, inside, i32_op(lo, X_LT, column, layout->extent[1]));
    return inside;
}

// So many are sent by one commit.
static int sent_together(const Staging *plan) { return plan->boxes > 2 ? plan->boxes : 1; }

// Number n: until its place is free; the first may follow a store of other shape, and waits for all of them.
static void await_box(Lowering *lo, const Boxes *boxes, int n)
{
    if (n == 0 && may_store_again(lo, boxes->op)) wait_for_stores(lo, 0, true);
    else
        wait_for_stores(lo, n == 0 && lo->n_staged > 1 ? 0 : boxes->plan.boxes / sent_together(&boxes->plan) - 1,
                        false);
    emit_call(lo, "__syncwarp", 0);
}

static Expr *box_address(Lowering *lo, const Boxes *boxes, int n)
{
    const int at = n % boxes->plan.boxes * box_stride(&boxes->plan);
    return expr_binary(lo->arena, X_ADD, var_of(lo, boxes->stage), u32_const(lo, at));
}

static void send_box(Lowering *lo, const Boxes *boxes, int n)
{
    const Staging *const plan = &boxes->plan;
    Expr *const row = i32_op(lo, X_ADD, var_of(lo, boxes->row), 64 * (n / plan->chunks));
    Expr *const column = i32_op(lo, X_ADD, var_of(lo, boxes->column), n % plan->chunks * plan->columns);
    Expr *const inside = box_test(lo, &plan->tile->layout, row, column), *coordinates[5];
    Nest some;
    if (inside) begin_if(lo, &some, inside);
    slice_coordinates(lo, &boxes->op->copy.dst, coordinates, boxes->row_dim, row, column);
    emit_box_store(lo, boxes->op, boxes->map, box_address(lo, boxes, n), coordinates);
    if (inside) end_nest(lo, &some);
}

// So many, from number n on.
static void emit_boxes(Lowering *lo, const Boxes *boxes, int n, int together)
{
    const Staging *const plan = &boxes->plan;
    await_box(lo, boxes, n);
    for (int i = n; i < n + together; i++)
        fill_box(lo, plan, box_address(lo, boxes, i), i / plan->chunks, i % plan->chunks);
    emit_call(lo, "fence_async", 0);
    emit_call(lo, "__syncwarp", 0);
    Nest one;
    begin_if(lo, &one, is_zero(lo, lo->lane));
    for (int i = n; i < n + together; i++) send_box(lo, boxes, i);
    emit_call(lo, "tma_commit", 0); // also without a store: waits count boxes
    end_nest(lo, &one);
}

void emit_staged_store(Lowering *lo, TileOp *op)
{
    if (store_is_transposed(lo, op)) {
        emit_transposed_add(lo, op);
        return;
    }
    Boxes boxes = { .op = op };
    if (!plan_staging(lo, op, &boxes.plan)) return;
    if (lo->n_transposed) // one thread's boxes of another store may still be read there
        emit_group_done(lo);
    const Region *const dst = &op->copy.dst;
    boxes.map = map_of_slice(lo, dst, boxes.plan.columns, 16, boxes.plan.swizzle);
    for (int d = 0; d < dst->buffer->rank - 1; d++)
        if (dst->subs[d].is_range) // the range that is not the last
            boxes.row_dim = dst->buffer->rank - 1 - d;
    Nest block;
    begin_block(lo, &block);
    declare_boxes(lo, &boxes);
    const int together = sent_together(&boxes.plan);
    for (int n = 0; n < boxes.plan.row_blocks * boxes.plan.chunks; n += together) emit_boxes(lo, &boxes, n, together);
    end_nest(lo, &block);
}
