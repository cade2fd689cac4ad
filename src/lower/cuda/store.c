// store.c - accumulators to tensors through swizzled staging and TMA.
//
// Every warp stores its own 16 rows, a chunk of at most 128 bytes of columns at a time, from boxes of staging that it
// shares with nobody: no barrier is needed. Two boxes rotate, so that one is filled while the other is read.
#include "lower/cuda/cuda.h"

typedef struct Staging {
    const TileInfo *tile;
    DType type;                      // as stored
    int   columns;                   // of a chunk
    int   chunks;                    // of a warp's 16 rows in one block of rows
    int   row_blocks;
    int   boxes, box_bytes, swizzle;
} Staging;

// The accumulator layout of a whole fragment, stored as a box; false: the general path.
static bool plan_staging(Lowering *lo, const TileOp *op, Staging *plan)
{
    const TileInfo *const tile = tile_info(lo, op->copy.src.buffer);
    if (lo->no_staging || (op->kind != T_COPY && op->kind != T_ATOMIC_TILE) || !tile || tile->home != HOME_REGISTERS || tile->buffer->rank != 2 || lo->crew.warps != 4 ||
        !region_is_whole(&op->copy.src) || region_rank(&op->copy.dst) != 2)
        return false;
    const int rows = tile->layout.extent[0], columns = tile->layout.extent[1];
    bool matches = false;
    for (Division d = DIVIDE_ROWS; d <= DIVIDE_COLUMNS && !matches; d++) {
        const Layout layout = layout_accumulator(rows, columns, lo->crew, d);
        matches = layout_equal(&layout, &tile->layout);
    }
    const DType from = tile->buffer->type, to = op->copy.dst.buffer->type;
    const int bits = dtype_bits(to);
    if (op->kind == T_ATOMIC_TILE && (to != DTYPE_F32 || from != DTYPE_F32))
        return false;
    if (!matches || (bits != 16 && bits != 32) || (bits == 32 && from != to) ||
        (bits == 16 && from != to && (from != DTYPE_F32 || !dtype_is_float(to))))
        return false;
    plan->tile = tile;
    plan->type = to;
    // Columns of one group: registers / 2 per block of 64 rows.
    int blocks = 1;
    for (int i = 0; i < tile->layout.n; i++)
        if (tile->layout.digit[i].input == IN_REGISTER && tile->layout.digit[i].dim == 0 && tile->layout.digit[i].stride >= 64)
            blocks = tile->layout.digit[i].extent;
    plan->row_blocks = blocks;
    const int wide = layout_registers(&tile->layout) / blocks * 2;
    plan->swizzle = 128;
    while (plan->swizzle >= 32 && wide * bits / 8 % plan->swizzle != 0)
        plan->swizzle /= 2;
    if (plan->swizzle < 32 || columns % 8 != 0 || rows % 16 != 0)
        return false;
    plan->columns = plan->swizzle * 8 / bits;
    if (!slice_is_box(lo, &op->copy.dst, 16, plan->columns))
        return false;
    plan->chunks = wide / plan->columns;
    plan->boxes = plan->chunks * plan->row_blocks % 2 == 0 && !lo->one_box ? 2 : 1;
    plan->box_bytes = 16 * plan->swizzle;
    return true;
}

// ---- transposed accumulators: a group's 64 columns of the tensor, rows as they are

typedef struct Turned { const TileInfo *tile; int rows, boxes, group_bytes; } Turned;

// f32 sums that were computed transposed (products.c), added to a tensor: boxes of 32 columns by all rows.
static bool plan_turned(Lowering *lo, const TileOp *op, Turned *plan)
{
    const TileInfo *const tile = tile_info(lo, op->copy.src.buffer);
    if (lo->no_staging || op->kind != T_ATOMIC_TILE || !tile || tile->home != HOME_REGISTERS || tile->buffer->rank != 2 ||
        lo->crew.warps != 4 || tile->buffer->type != DTYPE_F32 || op->copy.dst.buffer->type != DTYPE_F32 ||
        !region_is_whole(&op->copy.src) || region_rank(&op->copy.dst) != 2)
        return false;
    const int rows = tile->layout.extent[0], columns = tile->layout.extent[1];
    Layout layout = layout_accumulator(columns, rows, lo->crew, DIVIDE_ROWS);
    layout = layout_project(&layout, 2, (int[]){ 1, 0 });
    if (!layout_equal(&layout, &tile->layout) || columns != 64 * lo->crew.groups || rows > 256 || rows % 8 != 0 ||
        !slice_is_box(lo, &op->copy.dst, rows, 32))
        return false;
    *plan = (Turned){ tile, rows, 2, 2 * rows * 128 };
    return true;
}

static Expr *first_of_group(Lowering *lo)
{
    return i32_op(lo, X_EQ, i32_op(lo, X_MOD, var_of(lo, lo->thread), WARPGROUP_THREADS), 0);
}

static void wait_for_stores(Lowering *lo, const char *how)
{
    Nest one;
    begin_if(lo, &one, is_zero(lo, lo->lane));
    emit_call(lo, how, 1, i32_const(lo, 0));
    end_nest(lo, &one);
}

// What this warp has staged has been read.
void emit_staging_done(Lowering *lo) { wait_for_stores(lo, "tma_wait_read"); }

// Shared memory must stay until the last stores have read it.
void end_stores(Lowering *lo)
{
    if (lo->n_staged)
        emit_staging_done(lo);
}

// The group's staging is free: every thread's stores have been read, and all of the group know it.
static void emit_group_done(Lowering *lo)
{
    emit_staging_done(lo);
    emit_call(lo, "bar_sync", 2, i32_add(lo, var_of(lo, lo->group), i32_const(lo, BAR_TEAMS)), i32_const(lo, WARPGROUP_THREADS));
}

static void emit_turned_add(Lowering *lo, TileOp *op, const Turned *plan)
{
    Arena *const a = lo->arena;
    const int map = map_of_slice(lo, &op->copy.dst, 32, 0, 128), rank = op->copy.dst.buffer->rank;
    Nest block, one, loops[2];
    begin_block(lo, &block);
    Var *const stage = emit_declare(lo, DTYPE_U32, "stage", expr_binary(a, X_ADD, call_expr(lo, DTYPE_U32, "shared_base", 0),
        cast(lo, DTYPE_U32, i32_add(lo, i32_const(lo, lo->staging_offset), i32_mul(lo, var_of(lo, lo->group), lo->staging_bytes / lo->all.groups)))));
    Expr *const is_first = first_of_group(lo), *const barrier = i32_add(lo, var_of(lo, lo->group), i32_const(lo, BAR_TEAMS));
    if (!op_info(lo, op)->staging_is_free)
        emit_group_done(lo);
    // Registers: pair (next row), half (8 columns on), blocks of 8 rows.
    Var *const u = loop_new_var(lo->unit, DTYPE_I32, "u"), *const r = loop_new_var(lo->unit, DTYPE_I32, "r");
    begin_for(lo, &loops[0], r, i32_const(lo, 0), i32_const(lo, 4), i32_const(lo, 1), LOOP_UNROLL);
    Var *const at = emit_declare(lo, DTYPE_U32, "at", call_expr(lo, DTYPE_U32, arena_printf(a, "turned_at<%d>", plan->rows), 4,
                                 var_of(lo, stage), var_of(lo, lo->warp), var_of(lo, lo->lane), var_of(lo, r)));
    begin_for(lo, &loops[1], u, i32_const(lo, 0), i32_const(lo, plan->rows / 8), i32_const(lo, 1), LOOP_UNROLL);
    Expr *const value = expr_index(a, plan->tile->registers, i32_add(lo, i32_mul(lo, var_of(lo, u), 4), var_of(lo, r)));
    emit_call(lo, "stage_turned", 2, expr_binary(a, X_ADD, var_of(lo, at), cast(lo, DTYPE_U32, i32_mul(lo, var_of(lo, u), 1024))), value);
    end_nest(lo, &loops[1]);
    end_nest(lo, &loops[0]);
    emit_call(lo, "fence_async", 0);
    emit_call(lo, "bar_sync", 2, barrier, i32_const(lo, WARPGROUP_THREADS));
    begin_if(lo, &one, is_first);
    for (int box = 0; box < plan->boxes; box++) {
        Expr *at[5];
        slice_coordinates(lo, &op->copy.dst, at, 0, NULL, i32_add(lo, i32_mul(lo, var_of(lo, lo->group), 64), i32_const(lo, 32 * box)));
        Expr *args[8] = { map_address(lo, map), expr_binary(a, X_ADD, var_of(lo, stage), u32_const(lo, box * plan->rows * 128)) };
        for (int i = 0; i < rank; i++)
            args[2 + i] = at[i];
        loop_add(lo->out, (LoopStmt){ .kind = L_CALL, .call = { expr_call(a, DTYPE_NONE, arena_printf(a, "tma_add_%dd", rank), 2 + rank, args) } });
    }
    emit_call(lo, "tma_commit", 0);
    end_nest(lo, &one);
    end_nest(lo, &block);
}

// The copy engine's stores are in order with other accesses to the tensor where all consumers meet: before it they are
// waited for. Signals between groups do not do that.
static bool is_ordered_by_signals(Lowering *lo, const TileOp *op)
{
    if (!lo->has_teams || op->kind != T_COPY)
        return false;
    const Buffer *const root = buffer_root(op->copy.dst.buffer);
    return root->kind == BUFFER_TENSOR && (root->access == ACCESS_INOUT || find_rewritten(lo)[root->id]);
}

void finish_staged_stores(Lowering *lo)
{
    if (!lo->n_staged)
        return;
    wait_for_stores(lo, "tma_wait_written");
    emit_call(lo, "fence_async_tensors", 0);
}

// In another turn of a loop it may store the same elements, which the copy engine does not keep in order.
static bool may_store_again(Lowering *lo, const TileOp *op)
{
    if (op->kind != T_COPY)
        return false;
    const TileOp *parent = op;
    while ((parent = op_info(lo, parent)->parent) != NULL)
        if (parent->kind == T_FOR || parent->kind == T_WHILE || parent->kind == T_PIPELINE)
            return true;
    return false;
}

bool store_is_staged(Lowering *lo, TileOp *op)
{
    if (lo->kernel->checked || is_ordered_by_signals(lo, op))
        return false;
    Staging plan;
    Turned turned;
    return plan_staging(lo, op, &plan) || plan_turned(lo, op, &turned);
}

bool store_is_turned(Lowering *lo, TileOp *op)
{
    if (lo->kernel->checked)
        return false;
    Turned turned;
    return plan_turned(lo, op, &turned);
}

int staged_store_bytes(Lowering *lo, TileOp *op)
{
    Staging plan;
    Turned turned;
    if (plan_turned(lo, op, &turned))
        return turned.group_bytes * lo->all.groups;
    return plan_staging(lo, op, &plan) ? plan.boxes * (plan.box_bytes < 1024 ? 1024 : plan.box_bytes) * 4 * lo->all.groups : 0;
}

// The word of two neighbouring registers, converted.
static Expr *pair(Lowering *lo, const Staging *plan, int reg)
{
    Expr *const even = expr_index(lo->arena, plan->tile->registers, i32_const(lo, reg));
    Expr *const odd = expr_index(lo->arena, plan->tile->registers, i32_const(lo, reg + 1));
    const char *const pack = dtype_bits(plan->tile->buffer->type) == 16 ? "pack_bits"
                           : arena_printf(lo->arena, "pack_%s", dtype_name(plan->type));
    return call_expr(lo, DTYPE_U32, pack, 2, even, odd);
}

static void fill_box(Lowering *lo, const Staging *plan, Expr *box, int block, int chunk)
{
    const int columns_registers = layout_registers(&plan->tile->layout) / plan->row_blocks;
    const int first = block * columns_registers + chunk * plan->columns / 2;       // 4 registers per 8 columns
    Expr *const lane = var_of(lo, lo->lane);
    if (dtype_bits(plan->type) == 16) {
        for (int c = 0; c < plan->columns / 16; c++)
            emit_call(lo, arena_printf(lo->arena, "stage_16<%d>", plan->swizzle), 7, box, lane, i32_const(lo, c),
                      pair(lo, plan, first + 8 * c), pair(lo, plan, first + 8 * c + 2), pair(lo, plan, first + 8 * c + 4),
                      pair(lo, plan, first + 8 * c + 6));
        return;
    }
    const int blocks = plan->columns / 8;
    for (int c = 0; c < blocks && blocks % 4 == 0; c += c % 2 ? 3 : 1)
        for (int half = 0; half < 2; half++) {
            Expr *value[4];
            for (int i = 0; i < 4; i++)
                value[i] = expr_index(lo->arena, plan->tile->registers, i32_const(lo, first + 4 * (c + i / 2 * 2) + 2 * half + i % 2));
            emit_call(lo, arena_printf(lo->arena, "stage_32_pair<%d>", plan->swizzle), 8, box, lane, i32_const(lo, c), i32_const(lo, half), value[0], value[1], value[2], value[3]);
        }
    for (int c = 0; c < blocks && blocks % 4 != 0; c++)
        for (int half = 0; half < 2; half++) {
            Expr *const even = expr_index(lo->arena, plan->tile->registers, i32_const(lo, first + 4 * c + 2 * half));
            Expr *const odd = expr_index(lo->arena, plan->tile->registers, i32_const(lo, first + 4 * c + 2 * half + 1));
            emit_call(lo, arena_printf(lo->arena, "stage_32<%d>", plan->swizzle), 6, box, lane, i32_const(lo, c), i32_const(lo, half), even, odd);
        }
}

void emit_staged_store(Lowering *lo, TileOp *op)
{
    Staging plan;
    Turned turned;
    if (plan_turned(lo, op, &turned)) {
        emit_turned_add(lo, op, &turned);
        return;
    }
    if (!plan_staging(lo, op, &plan))
        return;
    if (lo->n_turned)                // one thread's boxes of another store may still be read there
        emit_group_done(lo);
    Arena *const a = lo->arena;
    const Region *const dst = &op->copy.dst;
    const int map = map_of_slice(lo, dst, plan.columns, 16, plan.swizzle), rank = dst->buffer->rank;
    const int stride = plan.box_bytes < 1024 ? 1024 : plan.box_bytes;
    // A warp's boxes lie in its own part, whatever the store: it waits for its own stores only before it writes there.
    const int of_warp = lo->staging_bytes / lo->all.groups / 4 / 1024 * 1024;
    int row_dim = 0;                 // of the box: the range that is not the last
    for (int d = 0; d < rank - 1; d++)
        if (dst->subs[d].is_range)
            row_dim = rank - 1 - d;
    Nest block;
    begin_block(lo, &block);
    Var *const stage = emit_declare(lo, DTYPE_U32, "stage", expr_binary(a, X_ADD, call_expr(lo, DTYPE_U32, "shared_base", 0),
        cast(lo, DTYPE_U32, i32_add(lo, i32_const(lo, lo->staging_offset), i32_add(lo, i32_mul(lo, var_of(lo, lo->group), lo->staging_bytes / lo->all.groups), i32_mul(lo, var_of(lo, lo->warp), of_warp))))));
    const int row_stride = 64;
    int group_rows = 0, group_columns = 0;
    for (int i = 0; i < plan.tile->layout.n; i++) {
        const Digit *const digit = &plan.tile->layout.digit[i];
        if (digit->input == IN_GROUP && digit->dim == 0) group_rows = digit->stride;
        if (digit->input == IN_GROUP && digit->dim == 1) group_columns = digit->stride;
    }
    Expr *row = i32_mul(lo, var_of(lo, lo->warp), 16), *column = i32_const(lo, 0);
    if (group_rows)
        row = i32_add(lo, row, i32_mul(lo, var_of(lo, lo->group), group_rows));
    if (group_columns)
        column = i32_mul(lo, var_of(lo, lo->group), group_columns);
    Var *const row_var = emit_declare(lo, DTYPE_I32, "row", row), *const column_var = emit_declare(lo, DTYPE_I32, "column", column);
    Expr *const is_first = is_zero(lo, lo->lane);
    const bool padded = plan.tile->layout.extent[0] < layout_coverage(&plan.tile->layout, 0);
    const bool padded_columns = plan.tile->layout.extent[1] < layout_coverage(&plan.tile->layout, 1);
    int n = 0;
    for (int b = 0; b < plan.row_blocks; b++)
        for (int chunk = 0; chunk < plan.chunks; chunk++, n++) {
            Expr *const box = expr_binary(a, X_ADD, var_of(lo, stage), u32_const(lo, n % plan.boxes * stride));
            Nest one;
            begin_if(lo, &one, is_first);
            // The first box of a store may follow a store of other shape: wait for all of them.
            if (n == 0 && may_store_again(lo, op))
                emit_call(lo, "tma_wait_written", 1, i32_const(lo, 0));
            else
                emit_call(lo, "tma_wait_read", 1, i32_const(lo, n == 0 && lo->n_staged > 1 ? 0 : plan.boxes - 1));
            end_nest(lo, &one);
            emit_call(lo, "__syncwarp", 0);
            fill_box(lo, &plan, box, b, chunk);
            emit_call(lo, "fence_async", 0);
            emit_call(lo, "__syncwarp", 0);
            Expr *inside = NULL;
            if (padded)
                inside = i32_op(lo, X_LT, i32_add(lo, var_of(lo, row_var), i32_const(lo, b * row_stride)), plan.tile->layout.extent[0]);
            if (padded_columns) {
                Expr *const columns = i32_op(lo, X_LT, i32_add(lo, var_of(lo, column_var), i32_const(lo, chunk * plan.columns)), plan.tile->layout.extent[1]);
                inside = inside ? expr_binary(a, X_AND, inside, columns) : columns;
            }
            Nest some;
            begin_if(lo, &one, is_first);
            if (inside)
                begin_if(lo, &some, inside);
            Expr *at[5];
            slice_coordinates(lo, dst, at, row_dim, i32_add(lo, var_of(lo, row_var), i32_const(lo, b * row_stride)),
                              i32_add(lo, var_of(lo, column_var), i32_const(lo, chunk * plan.columns)));
            Expr *args[8] = { map_address(lo, map), box };
            for (int i = 0; i < rank; i++)
                args[2 + i] = at[i];
            loop_add(lo->out, (LoopStmt){ .kind = L_CALL, .call = { expr_call(a, DTYPE_NONE, arena_printf(a, "tma_%s_%dd", op->kind == T_ATOMIC_TILE ? "add" : "store", rank), 2 + rank, args) } });
            if (inside)
                end_nest(lo, &some);
            emit_call(lo, "tma_commit", 0);          // also without a store: waits count boxes
            end_nest(lo, &one);
        }
    end_nest(lo, &block);
}
