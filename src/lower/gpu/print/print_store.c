// SPDX-License-Identifier: MIT
// print_store.c - stores through staging: a warp's boxes, and the waits for them.
//
// before: the store has a plan (store.c)      after: its statements are at the end of pr->out
#include "lower/gpu/print/print_action.h"
#include "lower/gpu/print/print.h"
#include "lower/gpu/decide/store.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/values.h"
#include "lower/gpu/print/tma.h"

// ---- waiting for stores

// All but the last so many of this warp's.
void print_store_wait(Printer *pr, const Action *action)
{
    Nest one;
    begin_if(pr, &one, is_zero(pr, pr->lane));
    emit_call(pr, action->wait.completes ? "tma_wait_written" : "tma_wait_read", 1,
              i32_const(pr, action->wait.pending));
    end_nest(pr, &one);
    if (action->wait.fences) emit_call(pr, "fence_async_tensors", 0);
}

// ---- filling boxes

static Expr *value(Printer *pr, const Staging *plan, int reg)
{
    return expr_index(pr->arena, tile_vars(pr, plan->tile)->registers, i32_const(pr, reg));
}

// The word of two neighbouring registers, converted.
static Expr *pair(Printer *pr, const Staging *plan, int reg)
{
    const char *const pack = dtype_bits(plan->tile->buffer->type) == 16
                                 ? "pack_bits"
                                 : arena_printf(pr->arena, "pack_%s", dtype_name(plan->type));
    return call_expr(pr, DTYPE_U32, pack, 2, value(pr, plan, reg), value(pr, plan, reg + 1));
}

// 16 columns of 1 or 2 bytes, or rows of 16 columns if it is turned: 8 registers, two neighbours side by side.
static void fill_packed(Printer *pr, const Staging *plan, Expr *box, int c, int reg)
{
    const char *const stage =
        plan->turned ? "stage_16_turned" : arena_printf(pr->arena, "stage_%d<%d>", dtype_bits(plan->type), plan->swizzle);
    emit_call(pr, stage, 7, box, var_of(pr, pr->lane), i32_const(pr, c), pair(pr, plan, reg), pair(pr, plan, reg + 2),
              pair(pr, plan, reg + 4), pair(pr, plan, reg + 6));
}

// A warp's registers of a block of rows and a chunk of columns: 4 for 8 columns.
static void fill_box(Printer *pr, const Staging *plan, Expr *box, int block, int chunk)
{
    const int of_block = layout_registers(&plan->tile->layout) / plan->blocks;
    const int along = plan->turned ? plan->rows : plan->columns;
    const int first = block * of_block + chunk * along / 2, blocks = plan->columns / 8;
    Expr *const lane = var_of(pr, pr->lane);
    const char *const pairs = arena_printf(pr->arena, "stage_32_pair<%d>", plan->swizzle);
    const char *const single = arena_printf(pr->arena, "stage_32<%d>", plan->swizzle);
    for (int c = 0; c < along / 16 && dtype_bits(plan->type) < 32; c++)
        fill_packed(pr, plan, box, c, first + 8 * c);
    for (int c = 0; c < blocks && dtype_bits(plan->type) == 32; c += blocks % 4 || c % 2 == 0 ? 1 : 3)
        for (int half = 0; half < 2; half++) {
            const int at = first + 4 * c + 2 * half;
            Expr *const row = i32_const(pr, half), *const column = i32_const(pr, c);
            if (blocks % 4 == 0)
                emit_call(pr, pairs, 8, box, lane, column, row, value(pr, plan, at), value(pr, plan, at + 1),
                          value(pr, plan, at + 8), value(pr, plan, at + 9));
            else emit_call(pr, single, 6, box, lane, column, row, value(pr, plan, at), value(pr, plan, at + 1));
        }
}

// Of a transposed product: pair (next row), half (8 columns on), blocks of 8 rows.
static void fill_transposed(Printer *pr, const TileInfo *tile, Var *stage)
{
    const int rows = tile->layout.extent[0];
    Nest loops[2];
    Var *const r = begin_unrolled(pr, &loops[0], "r", 4);
    Expr *const first = call_expr(pr, DTYPE_U32, arena_printf(pr->arena, "transposed_at<%d>", rows), 4,
                                  var_of(pr, stage), var_of(pr, pr->warp), var_of(pr, pr->lane), var_of(pr, r));
    Var *const at = emit_declare(pr, DTYPE_U32, "at", first);
    Var *const u = begin_unrolled(pr, &loops[1], "u", rows / 8);
    Expr *const value = expr_index(pr->arena, tile_vars(pr, tile)->registers,
                                   i32_add(pr, i32_mul(pr, var_of(pr, u), 4), var_of(pr, r)));
    Expr *const offset = cast(pr, DTYPE_U32, i32_mul(pr, var_of(pr, u), 1024));
    emit_call(pr, "stage_transposed", 2, expr_binary(pr->arena, X_ADD, var_of(pr, at), offset), value);
    end_nests(pr, loops, 2);
}

// ---- where boxes lie

// row and column: of the warp's first box, and not of transposed stores; row_dim: of the slice, the coordinate of rows.
typedef struct StagingVars {
    int row_dim;
    Var *stage, *row, *column;
} StagingVars;

static Expr *staging_address(Printer *pr, Expr *offset) // of the group's part; offset: NULL or more
{
    Expr *const of_group = i32_mul(pr, var_of(pr, pr->group), pr->lo->staging_bytes / pr->lo->all.groups);
    Expr *const from =
        i32_add(pr, i32_const(pr, pr->lo->staging_offset), offset ? i32_add(pr, of_group, offset) : of_group);
    return expr_binary(pr->arena, X_ADD, call_expr(pr, DTYPE_U32, "shared_base", 0), cast(pr, DTYPE_U32, from));
}

static int group_stride(const Layout *layout, int dim)
{
    int stride = 0;
    for (int i = 0; i < layout->n; i++)
        if (layout->mode[i].input == IN_GROUP && layout->mode[i].dim == dim) stride = layout->mode[i].stride;
    return stride;
}

// A warp's boxes lie in its own part, whatever the store: it waits for its own stores only before it writes there.
static void declare_boxes(Printer *pr, const StorePlan *plan, StagingVars *vars)
{
    const Layout *const layout = &plan->staging.tile->layout;
    const Region *const dst = &plan->op->copy.dst;
    const int of_warp = pr->lo->staging_bytes / pr->lo->all.groups / 4 / SHARED_ALIGN * SHARED_ALIGN;
    const int group_rows = group_stride(layout, 0), group_columns = group_stride(layout, 1);
    Expr *const warp = var_of(pr, pr->warp), *const group = var_of(pr, pr->group);
    for (int d = 0; d < dst->buffer->rank - 1; d++)
        if (dst->subs[d].is_range) vars->row_dim = dst->buffer->rank - 1 - d; // the range that is not the last
    vars->stage = emit_declare(pr, DTYPE_U32, "stage", staging_address(pr, i32_mul(pr, warp, of_warp)));
    Expr *const row = i32_mul(pr, warp, 16);
    vars->row = emit_declare(pr, DTYPE_I32, "row", group_rows ? i32_add(pr, row, i32_mul(pr, group, group_rows)) : row);
    vars->column =
        emit_declare(pr, DTYPE_I32, "column", group_columns ? i32_mul(pr, group, group_columns) : i32_const(pr, 0));
}

static Expr *box_address(Printer *pr, const Staging *staging, int n)
{
    const int at = n % staging->boxes * box_stride(staging);
    return expr_binary(pr->arena, X_ADD, var_of(pr, pr->staging_vars->stage), u32_const(pr, at));
}

// ---- sending boxes

static void emit_box_store(Printer *pr, const StorePlan *plan, Expr *box, Expr **coordinates)
{
    const TileOp *const op = plan->op;
    const int rank = op->copy.dst.buffer->rank;
    const char *const name = arena_printf(pr->arena, "tma_%s_%dd", op->kind == T_ATOMIC_TILE ? "add" : "store", rank);
    Expr *args[8] = { map_address(pr, plan->map), box };
    memcpy(args + 2, coordinates, sizeof(Expr *) * (size_t)rank);
    emit_call_if(pr, NULL, expr_call(pr->arena, DTYPE_NONE, name, 2 + rank, args));
}

// Whether a box lies within the tile, where the layout covers more. NULL: it does.
static Expr *box_test(Printer *pr, const Layout *layout, Expr *row, Expr *column)
{
    Expr *inside = NULL;
    if (layout->extent[0] < layout_coverage(layout, 0)) inside = i32_op(pr, X_LT, row, layout->extent[0]);
    if (layout->extent[1] < layout_coverage(layout, 1))
        inside = both(pr->lo, inside, i32_op(pr, X_LT, column, layout->extent[1]));
    return inside;
}

static void send_box(Printer *pr, const StorePlan *store, int n)
{
    const Staging *const plan = &store->staging;
    const StagingVars *const vars = pr->staging_vars;
    Expr *const row = i32_op(pr, X_ADD, var_of(pr, vars->row), 64 * (n / plan->chunks));
    Expr *const column = i32_op(pr, X_ADD, var_of(pr, vars->column), n % plan->chunks * plan->columns);
    Expr *const inside = box_test(pr, &plan->tile->layout, row, column), *coordinates[5];
    Nest some;
    if (inside) begin_if(pr, &some, inside);
    slice_coordinates(pr, &store->op->copy.dst, coordinates, vars->row_dim, row, column);
    emit_box_store(pr, store, box_address(pr, plan, n), coordinates);
    if (inside) end_nest(pr, &some);
}

static void send_group_box(Printer *pr, const StorePlan *plan, int box)
{
    const int bytes = tile_info(pr->lo, plan->op->copy.src.buffer)->layout.extent[0] * BOX_ROW_BYTES;
    Expr *const group = var_of(pr, pr->group);
    Expr *const column = i32_op(pr, X_ADD, i32_mul(pr, group, GROUP_BOXES * BOX_COLUMNS), BOX_COLUMNS * box);
    Expr *const at = expr_binary(pr->arena, X_ADD, var_of(pr, pr->staging_vars->stage), u32_const(pr, box * bytes));
    Expr *coordinates[5];
    slice_coordinates(pr, &plan->op->copy.dst, coordinates, 0, NULL, column);
    emit_box_store(pr, plan, at, coordinates);
}

// By lane 0 of each warp, or the group's first thread.
static void send_boxes(Printer *pr, const BoxesPlan *boxes)
{
    const bool is_transposed = boxes->store->is_transposed;
    Expr *const in_group = is_transposed ? i32_op(pr, X_MOD, var_of(pr, pr->thread), WARPGROUP_THREADS) : NULL;
    Nest one;
    begin_if(pr, &one, is_transposed ? i32_op(pr, X_EQ, in_group, 0) : is_zero(pr, pr->lane));
    for (int i = 0; i < GROUP_BOXES && is_transposed; i++) send_group_box(pr, boxes->store, i);
    for (int i = boxes->first; i < boxes->first + boxes->n && !is_transposed; i++) send_box(pr, boxes->store, i);
    emit_call(pr, "tma_commit", 0); // also without a store: waits count boxes
    end_nest(pr, &one);
}

// ---- stores

void print_boxes(Printer *pr, const Action *action)
{
    const BoxesPlan *const boxes = action->print;
    const Staging *const staging = &boxes->store->staging;
    if (action->kind == ACTION_STORE) {
        send_boxes(pr, boxes);
        return;
    }
    if (boxes->store->is_transposed)
        fill_transposed(pr, tile_info(pr->lo, boxes->store->op->copy.src.buffer), pr->staging_vars->stage);
    for (int i = boxes->first; i < boxes->first + boxes->n && !boxes->store->is_transposed; i++)
        fill_box(pr, staging, box_address(pr, staging, i), i / staging->chunks, i % staging->chunks);
}

static void print_through_staging(Printer *pr, const StorePlan *plan)
{
    StagingVars vars = { 0 };
    Nest block;
    if (plan->frees_staging) print_parts_through(pr, ACTION_BARRIER_SYNC);
    begin_block(pr, &block);
    if (plan->is_transposed) vars.stage = emit_declare(pr, DTYPE_U32, "stage", staging_address(pr, NULL));
    else declare_boxes(pr, plan, &vars);
    pr->staging_vars = &vars;
    print_parts(pr);
    end_nest(pr, &block);
}

void print_store(Printer *pr, const StorePlan *plan)
{
    Nest choice;
    if (plan->aligned) begin_if(pr, &choice, lower_expr(pr, plan->aligned, NULL));
    print_through_staging(pr, plan);
    if (!plan->aligned) return;
    begin_else(pr, &choice);
    print_map(pr, plan->elements);
    end_nest(pr, &choice);
}
