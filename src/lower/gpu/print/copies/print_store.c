// SPDX-License-Identifier: MIT
// print_store.c - stores through staging: a warp's boxes, and the waits for them.
//
// before: the store has a plan (store.c)      after: its statements are at the end of pr->out
#include "lower/gpu/print/copies/print_store.h"
#include "lower/gpu/print/build/parts.h"
#include "lower/gpu/print/layout/print_transfer.h"
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/print/copies/tma.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/values.h"

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

// ---- where boxes lie

// row and column: of the warp's first box, and not of transposed stores.
typedef struct StagingVars {
    Var *stage, *row, *column;
} StagingVars;

static Expr *staging_address(Printer *pr, Expr *offset) // of the group's part; offset: NULL or more
{
    Expr *const of_group = i32_mul(pr, var_of(pr, pr->group), pr->lo->staging_bytes / pr->lo->all.groups);
    Expr *const from =
        i32_add(pr, i32_const(pr, pr->lo->staging_offset), offset ? i32_add(pr, of_group, offset) : of_group);
    return expr_binary(pr->arena, X_ADD, call_expr(pr, DTYPE_U32, "shared_base", 0), cast(pr, DTYPE_U32, from));
}

// A warp's boxes lie in its own part, whatever the store: it waits for its own stores only before it writes there.
static void declare_boxes(Printer *pr, const StorePlan *plan, StagingVars *vars)
{
    const int of_warp = pr->lo->staging_bytes / pr->lo->all.groups / 4 / SHARED_ALIGN * SHARED_ALIGN;
    vars->stage = emit_declare(pr, DTYPE_U32, "stage", staging_address(pr, i32_mul(pr, var_of(pr, pr->warp), of_warp)));
    vars->row = emit_declare(pr, DTYPE_I32, "row", thread_part(pr, &plan->threads, 0));
    vars->column = emit_declare(pr, DTYPE_I32, "column", thread_part(pr, &plan->threads, 1));
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

static void send_box(Printer *pr, const StorePlan *store, int n)
{
    const Staging *const plan = &store->staging;
    const StagingVars *const vars = pr->staging_vars;
    Expr *const row = i32_op(pr, X_ADD, var_of(pr, vars->row), store->place[n].row);
    Expr *const column = i32_op(pr, X_ADD, var_of(pr, vars->column), store->place[n].column);
    Expr *const inside = box_test(pr, &plan->tile->layout, row, column), *coordinates[5], *rows[5] = { NULL };
    Nest some;
    if (inside) begin_if(pr, &some, inside);
    divide_row(pr, &store->op->copy.dst, row, rows);
    slice_coordinates(pr, &store->op->copy.dst, coordinates, rows, column);
    emit_box_store(pr, store, box_address(pr, plan, n), coordinates);
    if (inside) end_nest(pr, &some);
}

static void send_group_box(Printer *pr, const StorePlan *plan, int box)
{
    const SharedLayout *const panels = &plan->fill.shared;
    Expr *const column = i32_op(pr, X_ADD, thread_part(pr, &plan->threads, 1), panels->panel_columns * box);
    Expr *const at =
        expr_binary(pr->arena, X_ADD, var_of(pr, pr->staging_vars->stage), u32_const(pr, box * panels->panel_bytes));
    Expr *coordinates[5];
    slice_coordinates(pr, &plan->op->copy.dst, coordinates, NULL, column);
    emit_box_store(pr, plan, at, coordinates);
}

// By lane 0 of each warp, or the group's first thread.
static void send_boxes(Printer *pr, const BoxesPlan *boxes)
{
    const bool is_transposed = boxes->store->is_transposed;
    Expr *const in_group = is_transposed ? i32_op(pr, X_MOD, var_of(pr, pr->thread), WARPGROUP_THREADS) : NULL;
    Nest one;
    begin_if(pr, &one, is_transposed ? i32_op(pr, X_EQ, in_group, 0) : is_zero(pr, pr->lane));
    const SharedLayout *const panels = &boxes->store->fill.shared;
    const int of_group = is_transposed ? panels->columns / panels->panel_columns : 0;
    for (int i = 0; i < of_group; i++) send_group_box(pr, boxes->store, i);
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
    Transfer transfer = { .how = &boxes->store->fill,
                          .tile = tile_info(pr->lo, boxes->store->op->copy.src.buffer),
                          .type = boxes->store->op->copy.dst.buffer->type };
    transfer.at = var_of(pr, pr->staging_vars->stage);
    if (boxes->store->is_transposed) store_transfer(pr, &transfer);
    for (int i = boxes->first; i < boxes->first + boxes->n && !boxes->store->is_transposed; i++) {
        transfer.offset = i % staging->boxes * box_stride(staging);
        transfer.first = boxes->store->place[i].first;
        store_transfer(pr, &transfer);
    }
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

// NULL: always.
static Expr *may_send(Printer *pr, const StorePlan *plan)
{
    Expr *const aligned = plan->aligned ? lower_expr(pr, plan->aligned, NULL) : NULL;
    if (!plan->rows) return aligned;
    Expr *const last = i32_op(pr, X_ADD, thread_part(pr, &plan->threads, 0), plan->warp_rows);
    Expr *const rows = cast(pr, DTYPE_I32, lower_expr(pr, plan->rows, NULL));
    return both(pr->lo, aligned, expr_binary(pr->arena, X_LE, last, rows));
}

void print_store(Printer *pr, const StorePlan *plan)
{
    Nest choice;
    Expr *const test = may_send(pr, plan);
    if (test) begin_if(pr, &choice, test);
    print_through_staging(pr, plan);
    if (!test) return;
    begin_else(pr, &choice);
    print_map(pr, plan->elements);
    end_nest(pr, &choice);
}
