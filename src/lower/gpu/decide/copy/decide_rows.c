// SPDX-License-Identifier: MIT
// decide_rows.c - how a statement that moves rows is done: copied, converted, or converted from registers that the step
// before has loaded.
//
// before: rows.c says which rows there are       after: a RowsPlan says what printing must know; what the other CTAs of a
//         cluster convert is announced by parts of the action
#include "lower/gpu/decide/copy/rows.h"
#include "lower/gpu/decide/iteration/hints.h"
#include "lower/gpu/decide/mma/products.h"
#include "lower/gpu/facts/info.h"

// ---- within a cluster

bool can_send(Lowering *lo, const Rows *rows)
{
    const TileInfo *const tile = tile_of_rows(lo, rows);
    int64_t extent[2];
    SharedLayout panels;
    return expr_as_int(tile->buffer->shape[0], &extent[0]) && expr_as_int(tile->buffer->shape[1], &extent[1]) &&
           tile_panels(tile, (int)extent[0], (int)extent[1], 2, &panels) &&
           panels.swizzle_bytes == panels.pitch_bytes && rows->n_columns % panels.panel_columns == 0 &&
           expr_multiple(first_column(lo, rows, rows->store->store.subs[1])) % panels.panel_columns == 0;
}

bool fill_divides(Lowering *lo, TileOp *op, int n, bool *converts)
{
    Rows rows;
    if (!plan_rows(lo, op, &rows) || rows.is_bytes) return false;
    *converts |= !rows.is_copy;
    return rows.is_copy || (rows.n_rows % (8 * 4 * n) == 0 && can_send(lo, &rows));
}

// What the other CTAs of the cluster convert arrives as bytes.
static void act_exchange(Lowering *lo, const RowsPlan *plan)
{
    const TileInfo *const tile = tile_of_rows(lo, &plan->rows);
    if (!tile->is_exchanged) return;
    const int columns = (int)(plan->rows.n_columns + (plan->has_tail ? plan->tail.n_columns : 0));
    const int bytes = (lo->cluster - 1) * ((int)plan->rows.n_rows / lo->cluster * columns * PIECE_BYTES / PIECE);
    const int ring = tile->ring->index;
    act(lo, (Action){ .kind = ACTION_EXPECT, .ring = { .ring = ring, .bytes = bytes } });
    Action *const copy =
        act(lo, (Action){ .kind = ACTION_COPY, .copy = { .how = COPY_TMA, .ring = ring, .bytes = bytes } });
    access_tile(lo, copy, tile, false, true, true);
}

// ---- a plan

// The consumers' own copies: in flight until their threads next synchronise.
static bool copies_in_place(Lowering *lo, const Rows *rows)
{
    return lo->role == ROLE_CONSUMER && rows->is_copy && lo->partition.warps == 4 && !tile_of_rows(lo, rows)->ring;
}

const RowsPlan *decide_move(Lowering *lo, TileOp *op)
{
    OpInfo *const info = op_info(lo, op);
    RowsPlan *const plan = NEW(lo->arena, RowsPlan, .form = PLAN_ROWS, .op = op);
    if (info->is_tail) {
        plan->how = ROWS_WENT_BEFORE;
        return plan;
    }
    if (!spread_rows(lo, op, &plan->rows)) return NULL;
    const bool in_place = copies_in_place(lo, &plan->rows);
    if (!in_place && !info->fills) return NULL;
    lo->copies_in_flight |= plan->rows.is_copy && (in_place || !tile_of_rows(lo, &plan->rows)->ring->is_gathered);
    plan->how = plan->rows.is_copy ? ROWS_COPIED : lo->prefetched_rows ? ROWS_FROM_REGISTERS : ROWS_CONVERTED;
    if (plan->how == ROWS_FROM_REGISTERS)
        plan->has_tail = lo->prefetched_rows->tail.units && spread_rows(lo, op->next, &plan->tail);
    info->is_looked_up = false;
    return plan;
}

void act_move(Lowering *lo, const RowsPlan *plan, Action action)
{
    action.print = plan;
    open_action(lo, action);
    if (plan->how == ROWS_CONVERTED || plan->how == ROWS_FROM_REGISTERS) act_exchange(lo, plan);
    close_action(lo);
}
