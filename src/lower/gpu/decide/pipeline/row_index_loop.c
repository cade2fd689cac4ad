// SPDX-License-Identifier: MIT
// row_index_loop.c - the loop of a pipeline whose producer group knows which rows it gathers (row_indices.c).
//
// In line with the rows, their numbers make each step begin with two waits for memory, one after the other. So a step
// is
//
//     barrier;  row indices(t + 1), from registers;  prefetch rows(t + 1) into L2;  load the list for t + 2;  rows(t)
//
// A thread works out the row indices of one row, so they need no barrier among themselves. The one at the head lies
// between a buffer's rows and its next row indices, and between row indices and their rows.
//
// Rows that are converted in one line of a step need no L2 prefetch: when it is converted, its registers take the
// next step's (register_prefetch.c), and the lists for t + 2 are loaded while it is. Copies beside it have the time of
// a conversion. There a row belongs to the warp that gathers it: what the producer group's statements access at row r,
// in any tile of its own, no other warp does, and the barriers are those of a warp.
//
// A lane that has its rows' indices in registers (register_prefetch.c) works out those of the next step as it loads the rows:
//
//     convert row 0;  row indices(t + 1) and load of row 0;  convert row 1;  the same of row 1;  load the list for t + 2
//
// before: the pipeline's row indices are known       after: its loop, what is made before it and at the head of each step
//         are actions
#include "lower/gpu/decide/copy/rows.h"
#include "lower/gpu/decide/pipeline/producer_group.h"
#include "lower/gpu/facts/info.h"

static bool add_rows(Lowering *lo, TileOp *op, void *context)
{
    RowIndexLoop *const loop = context;
    const OpInfo *const info = op_info(lo, op);
    if (!info->fills || info->is_row_index) return op->kind == T_FORALL;
    StepRows *const rows = NEW(lo->arena, StepRows, .op = op);
    rows->is_rows = plan_rows(lo, op, &rows->rows);
    rows->is_spread = rows->is_rows && lay_rows(lo, &rows->rows);
    rows->has_tail = loop->prefetched && loop->prefetched->tail.units && tail_of(lo, op, &rows->tail);
    VEC_PUSH(lo->arena, &loop->rows, rows);
    return true;
}

static Action *declare(Lowering *lo, DeclareKind what, const RowIndexLoop *loop)
{
    return act(lo, (Action){ .kind = ACTION_DECLARE, .declare = { .what = what }, .print = loop });
}

static bool access_indices(Lowering *lo, TileOp *op, void *context)
{
    if (op_info(lo, op)->is_row_index) record_accesses(lo, context, op);
    return op->kind == T_FORALL;
}

// Row indices of this step, or of one after it.
static void declare_indices(Lowering *lo, DeclareKind what, const RowIndexLoop *loop, int ahead)
{
    Action *const indices = declare(lo, what, loop);
    each_op(lo, loop->op->pipeline.body, access_indices, indices);
    for (int i = 0; i < indices->n_accesses; i++) indices->accesses[i].ahead = ahead;
}

// `rows` adds the rest of a step.
void decide_row_index_loop(Lowering *lo, TileOp *op, void rows(Lowering *, TileOp *))
{
    RowIndexLoop *const loop = NEW(lo->arena, RowIndexLoop, .form = STEPS_OF_ROW_INDICES, .op = op);
    loop->prefetched = lo->prefetched_rows = prefetched_rows_of(lo, op);
    each_op(lo, op->pipeline.body, add_rows, loop);
    declare(lo, DECLARE_FIRST_LISTS, loop);
    const bool in_lanes = loop->prefetched && loop->prefetched->in_lanes;
    if (!in_lanes) sync_row_writers(lo);
    open_action(lo, (Action){ .kind = ACTION_SCOPE, .scope = { .kind = SCOPE_FIRST_STEP, .source = op } });
    declare_indices(lo, DECLARE_FIRST_ROW_INDICES, loop, 0);
    close_action(lo);
    open_action(lo,
                (Action){ .kind = ACTION_LOOP, .op = op, .loop = { .part = LOOP_ALL, .source = op }, .print = loop });
    if (!in_lanes) {
        sync_row_writers(lo);
        declare_indices(lo, DECLARE_NEXT_ROW_INDICES, loop, 1);
    }
    rows(lo, op->pipeline.body);
    if (in_lanes) declare_indices(lo, DECLARE_NEXT_ROW_INDICES, loop, 0);
    close_action(lo);
    act_declare(lo, DECLARE_OUTER); // they were numbered anew before the loop
    lo->prefetched_rows = NULL;
}
