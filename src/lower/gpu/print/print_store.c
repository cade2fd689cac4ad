// SPDX-License-Identifier: MIT
// print_store.c - stores through staging: a warp's boxes, and the waits for them.
//
// before: the store has a plan (store.c)      after: its statements are at the end of pr->out
#include "lower/gpu/print/print_action.h"
#include "lower/gpu/print/print.h"
#include "lower/gpu/decide/store.h"
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

// The group's staging is free: every thread's stores have been read, and all of the group know it.
void print_group_done(Printer *pr)
{
    print_part(pr, ACTION_STORE_WAIT);
    emit_call(pr, "bar_sync", 2, i32_op(pr, X_ADD, var_of(pr, pr->group), BAR_GROUPS),
              i32_const(pr, WARPGROUP_THREADS));
}

// ---- boxes

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

void emit_box_store(Printer *pr, const TileOp *op, int map, Expr *box, Expr **coordinates)
{
    const int rank = op->copy.dst.buffer->rank;
    const char *const name = arena_printf(pr->arena, "tma_%s_%dd", op->kind == T_ATOMIC_TILE ? "add" : "store", rank);
    Expr *args[8] = { map_address(pr, map), box };
    memcpy(args + 2, coordinates, sizeof(Expr *) * (size_t)rank);
    emit_call_if(pr, NULL, expr_call(pr->arena, DTYPE_NONE, name, 2 + rank, args));
}

Expr *staging_address(Printer *pr, Expr *offset)
{
    Expr *const of_group = i32_mul(pr, var_of(pr, pr->group), pr->lo->staging_bytes / pr->lo->all.groups);
    Expr *const from =
        i32_add(pr, i32_const(pr, pr->lo->staging_offset), offset ? i32_add(pr, of_group, offset) : of_group);
    return expr_binary(pr->arena, X_ADD, call_expr(pr, DTYPE_U32, "shared_base", 0), cast(pr, DTYPE_U32, from));
}

// What the boxes of one store have in common; row and column: of the warp's first.
typedef struct Boxes {
    const TileOp *op;
    Staging plan;
    int map;
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
static void declare_boxes(Printer *pr, Boxes *boxes)
{
    const Layout *const layout = &boxes->plan.tile->layout;
    const int of_warp = pr->lo->staging_bytes / pr->lo->all.groups / 4 / SHARED_ALIGN * SHARED_ALIGN;
    const int group_rows = group_stride(layout, 0), group_columns = group_stride(layout, 1);
    Expr *const warp = var_of(pr, pr->warp), *const group = var_of(pr, pr->group);
    boxes->stage = emit_declare(pr, DTYPE_U32, "stage", staging_address(pr, i32_mul(pr, warp, of_warp)));
    Expr *const of_warps = i32_mul(pr, warp, 16), *const none = i32_const(pr, 0), *row = none, *column = none;
    if (boxes->plan.turned) column = of_warps;
    else row = of_warps;
    if (group_rows) row = i32_add(pr, row, i32_mul(pr, group, group_rows));
    if (group_columns) column = i32_add(pr, column, i32_mul(pr, group, group_columns));
    boxes->row = emit_declare(pr, DTYPE_I32, "row", row);
    boxes->column = emit_declare(pr, DTYPE_I32, "column", column);
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

static Expr *box_address(Printer *pr, const Boxes *boxes, int n)
{
    const int at = n % boxes->plan.boxes * box_stride(&boxes->plan);
    return expr_binary(pr->arena, X_ADD, var_of(pr, boxes->stage), u32_const(pr, at));
}

// Among the slice's dimensions but the last.
static void divide_row(Printer *pr, const Region *dst, Expr *row, Expr **rows)
{
    const int rank = dst->buffer->rank;
    int slowest = 0;
    while (!dst->subs[slowest].is_range) slowest++;
    for (int d = rank - 2; d >= slowest; d--) {
        int64_t width;
        if (!dst->subs[d].is_range) continue;
        expr_as_int(dst->subs[d].width, &width);
        rows[rank - 1 - d] = d == slowest ? row : i32_op(pr, X_MOD, row, width);
        row = d == slowest ? row : i32_op(pr, X_DIV, row, width);
    }
}

static void send_box(Printer *pr, const Boxes *boxes, int n)
{
    const Staging *const plan = &boxes->plan;
    const int block = 64 * (n / plan->chunks), chunk = n % plan->chunks;
    Expr *const row = i32_op(pr, X_ADD, var_of(pr, boxes->row), plan->turned ? chunk * plan->rows : block);
    Expr *const column =
        i32_op(pr, X_ADD, var_of(pr, boxes->column), plan->turned ? block : chunk * plan->columns);
    Expr *const inside = box_test(pr, &plan->tile->layout, row, column), *coordinates[5], *rows[5] = { NULL };
    Nest some;
    if (inside) begin_if(pr, &some, inside);
    divide_row(pr, &boxes->op->copy.dst, row, rows);
    slice_coordinates(pr, &boxes->op->copy.dst, coordinates, rows, column);
    emit_box_store(pr, boxes->op, boxes->map, box_address(pr, boxes, n), coordinates);
    if (inside) end_nest(pr, &some);
}

// So many, from number n on.
static void emit_boxes(Printer *pr, const Boxes *boxes, int n, int together)
{
    const Staging *const plan = &boxes->plan;
    print_part(pr, ACTION_STORE_WAIT); // until its place is free
    emit_call(pr, "__syncwarp", 0);
    for (int i = n; i < n + together; i++)
        fill_box(pr, plan, box_address(pr, boxes, i), i / plan->chunks, i % plan->chunks);
    emit_call(pr, "fence_async", 0);
    emit_call(pr, "__syncwarp", 0);
    Nest one;
    begin_if(pr, &one, is_zero(pr, pr->lane));
    for (int i = n; i < n + together; i++) send_box(pr, boxes, i);
    emit_call(pr, "tma_commit", 0); // also without a store: waits count boxes
    end_nest(pr, &one);
}

static void print_boxes(Printer *pr, const StorePlan *plan)
{
    Boxes boxes = { .op = plan->op, .plan = plan->staging, .map = plan->map };
    if (plan->frees_staging) print_group_done(pr);
    Nest block;
    begin_block(pr, &block);
    declare_boxes(pr, &boxes);
    const int together = sent_together(&boxes.plan);
    for (int n = 0; n < boxes.plan.blocks * boxes.plan.chunks; n += together) emit_boxes(pr, &boxes, n, together);
    end_nest(pr, &block);
}

void print_store(Printer *pr, const StorePlan *plan)
{
    Nest choice;
    if (plan->aligned) begin_if(pr, &choice, lower_expr(pr, plan->aligned, NULL));
    if (plan->is_transposed) print_transposed(pr, plan);
    else print_boxes(pr, plan);
    if (!plan->aligned) return;
    begin_else(pr, &choice);
    print_map(pr, plan->elements);
    end_nest(pr, &choice);
}
