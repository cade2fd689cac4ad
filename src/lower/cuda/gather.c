// SPDX-License-Identifier: MIT
// gather.c - rows that are copied as they lie, and rows that are prefetched.
//
// Copies go by cp.async: no register stands in between, and all of a row are in flight. Where a producer group does
// nothing but copy, a step's rows are *looked up* while its tiles are waited for: their numbers are read and their
// addresses made, once for all tiles that take parts of the same rows, so that after the wait there are the copies
// alone.
//
// before: the tile's buffer is free      after: copies are in flight, until a full barrier counts them or
//         wait_for_copies()
#include "lower/cuda/actions.h"
#include "lower/cuda/rows.h"

enum { LOOKED_UP_MAX = 8 }; // lines: a pointer of each is kept

void wait_for_copies(Lowering *lo)
{
    if (lo->copies_in_flight) act_plain(lo, ACTION_COPY_WAIT);
    lo->copies_in_flight = false;
}

// ---- looked up

static bool see_other_place(const Expr *x, void *context)
{
    const TileInfo *const tile = x->kind == E_LOAD ? tile_info(context, buffer_root(x->load.buffer)) : NULL;
    return tile && !tile->is_double_buffered;
}

static bool may_look_up(Lowering *lo, TileOp *op, Rows *rows)
{
    return op_info(lo, op)->fills && spread_rows(lo, op, rows) && rows->is_copy && rows->lines <= LOOKED_UP_MAX &&
           !expr_any(rows->store->store.value, see_other_place, lo);
}

// Do both read the same rows of one tensor, b's columns a constant after a's?
static bool reads_same_rows(Lowering *lo, const Rows *a, const Rows *b, int64_t *shift)
{
    const Expr *const x = a->runs[0].load, *const y = b->runs[0].load;
    if (x->load.buffer != y->load.buffer) return false;
    const LoopIndex *const from = b->forall->forall.indices, *const to = a->forall->forall.indices;
    const int last = x->load.buffer->rank - 1;
    for (int d = 0; d <= last; d++) {
        Expr *sub = y->load.subs[d];
        for (int i = 0; i < 2; i++) sub = expr_replace(lo->arena, sub, from[i].var, expr_var(lo->arena, to[i].var));
        if (d < last ? !expr_equal(sub, x->load.subs[d])
                     : !expr_as_int(int_sub(lo->arena, sub, x->load.subs[d]), shift))
            return false;
    }
    return true;
}

// The lines of a gather from `first` on that are those of `rows` but for `shift` columns; NULL: none are.
static const Line *looked_up_before(Lowering *lo, TileOp *first, TileOp *op, const Rows *rows, int64_t *shift)
{
    for (TileOp *at = first; at != op; at = at->next) {
        Rows before;
        if (op_info(lo, at)->lines && spread_rows(lo, at, &before) && before.lines == rows->lines &&
            before.across == rows->across && reads_same_rows(lo, &before, rows, shift))
            return op_info(lo, at)->lines;
    }
    return NULL;
}

static void look_up(Lowering *lo, TileOp *first, TileOp *op, Rows *rows)
{
    Line *const lines = op_info(lo, op)->lines = NEW_ARRAY(lo->arena, Line, rows->lines);
    int64_t shift;
    const Line *const before = looked_up_before(lo, first, op, rows, &shift);
    for (int i = 0; i < rows->lines && before; i++) {
        lines[i] = before[i];
        lines[i].pointer = loop_new_pointer(lo->unit, before[i].pointer->type, "line_at");
        emit_definition(lo, lines[i].pointer, in_line(lo, &before[i], i32_const(lo, shift)));
    }
    if (before) return;
    const Partition partition = lo->partition;
    lo->partition = rows->it.partition;
    for (int i = 0; i < rows->lines; i++) {
        declare_line_at(lo, rows, "line", i32_const(lo, i));
        begin_lines(lo, rows);
        lines[i] = rows->runs[0].line;
    }
    lo->partition = partition;
}

void look_up_rows(Lowering *lo, TileOp *op)
{
    if (!only_gathers(lo) || op_info(lo, op)->lines) return;
    for (TileOp *at = op; at; at = at->next) {
        Rows rows;
        if (may_look_up(lo, at, &rows)) look_up(lo, op, at, &rows);
        else if (at == op) return;
    }
}

// ---- copied

static void copy_line(Lowering *lo, const Rows *rows, const Line *line)
{
    Columns block;
    for (int u = 0; u < rows->units; u++) {
        const int columns = u * rows->across * PIECE;
        begin_columns(lo, rows, &block, columns);
        emit_call(lo, "cp_async_16", 3, piece_address(lo, rows), in_line(lo, line, i32_const(lo, columns)),
                  var_of(lo, line->inside));
        end_columns(lo, rows, &block);
    }
}

void copy_rows(Lowering *lo, TileOp *op, Rows *rows)
{
    Line *const lines = op_info(lo, op)->lines;
    op_info(lo, op)->lines = NULL;
    for (int i = 0; i < rows->lines && lines; i++) {
        declare_line_at(lo, rows, "line", i32_const(lo, i));
        copy_line(lo, rows, &lines[i]);
    }
    if (lines) return;
    Nest loop;
    Var *const line = loop_new_var(lo->unit, DTYPE_I32, "line");
    const bool few = lo->register_prefetch && rows->lines * rows->units <= 4;
    begin_for(lo, &loop, line, i32_const(lo, 0), i32_const(lo, rows->lines), i32_const(lo, 1),
              few ? LOOP_UNROLL : LOOP_NO_UNROLL);
    declare_line(lo, rows, line);
    begin_lines(lo, rows);
    copy_line(lo, rows, &rows->runs[0].line);
    end_nest(lo, &loop);
}

// ---- prefetched

// Into the L2 cache. A row is one lane's, where the tensor's rows may be prefetched as they lie.
void prefetch_rows(Lowering *lo, TileOp *op)
{
    Rows rows;
    if (only_gathers(lo) || !plan_rows(lo, op, &rows)) return;
    const Iteration it = own_iteration();
    Nest nest;
    begin_row(lo, &rows.forall->forall.indices[0], &nest);
    *var_slot(lo, rows.column) = emit_declare(lo, DTYPE_I32, rows.column->name, i32_const(lo, 0));
    for (int i = 0; i < rows.n_runs; i++) {
        const Expr *const load = rows.runs[i].load;
        const int size = dtype_bits(load->type) / 8;
        if (rows.n_columns * size % PIECE_BYTES != 0 ||
            expr_multiple(first_column(lo, &rows, last_sub(load))) * size % PIECE_BYTES != 0 ||
            place_alignment(load->load.buffer, last_sub(load), PIECE_BYTES / size) < PIECE_BYTES)
            continue;
        const Line line = begin_line(lo, load, &it);
        emit_call(lo, "prefetch_row", 3, var_of(lo, line.pointer), i32_const(lo, rows.n_columns * size),
                  var_of(lo, line.inside));
    }
    end_nest(lo, &nest);
}
