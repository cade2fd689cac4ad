// SPDX-License-Identifier: MIT
// print_gather.c - printing: rows that are looked up, copied as they lie, and prefetched (gather.c).
//
// before: the partition is that of the rows      after: from a look-up to its copy op_info()->lines are the lines
#include "lower/gpu/print/expressions/expressions.h"
#include "lower/gpu/print/copies/print_rows.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/ring_counts.h"
#include "lower/gpu/facts/info.h"

// ---- looked up

static void look_up_again(Printer *pr, const LookUp *one, Line *lines)
{
    const Line *const before = op_vars(pr, info_of(pr->lo, one->same))->lines;
    for (int i = 0; i < one->rows.lines; i++) {
        lines[i] = before[i];
        lines[i].pointer = loop_new_pointer(pr->unit, before[i].pointer->type, "line_at");
        emit_definition(pr, lines[i].pointer, in_line(pr, &before[i], i32_const(pr, one->shift)));
    }
}

// Each of the warp's rows by one lane, as the first of those that copy it would; then from lane to lane.
static void look_up_shared(Printer *pr, Rows *rows, Line *lines)
{
    const int down = WARP_LANES / rows->across;
    const bool by_rows = rows->across > 4; // lanes beside each other: of a row, or of rows (choose_row_pieces())
    const int beside = by_rows ? rows->across : down;
    Var *const lane = pr->lane;
    Expr *const row_of_line = var_of(
        pr, emit_declare(pr, DTYPE_I32, "row_of_line", i32_op(pr, by_rows ? X_DIV : X_MOD, var_of(pr, lane), beside)));
    Expr *const piece =
        var_of(pr, emit_declare(pr, DTYPE_I32, "piece", i32_op(pr, by_rows ? X_MOD : X_DIV, var_of(pr, lane), beside)));
    pr->lane = emit_declare(pr, DTYPE_I32, "first_lane",
                            i32_mul(pr, i32_op(pr, X_MOD, var_of(pr, lane), down), by_rows ? rows->across : 1));
    declare_line_at(pr, rows, "line", i32_op(pr, X_DIV, var_of(pr, lane), down));
    begin_lines(pr, rows);
    const Line own = rows->runs[0].line;
    pr->lane = lane;
    for (int i = 0; i < rows->lines; i++) {
        Expr *const from = i32_add(pr, row_of_line, i32_const(pr, i * down));
        Expr *const pointer = call_expr(pr, own.pointer->type, "shuffle_pointer", 2, var_of(pr, own.pointer), from);
        lines[i] = own;
        lines[i].inside = emit_declare(pr, DTYPE_BOOL, "inside",
                                       call_expr(pr, DTYPE_BOOL, "shuffle_inside", 2, var_of(pr, own.inside), from));
        lines[i].pointer = loop_new_pointer(pr->unit, own.pointer->type, "line_at");
        emit_definition(pr, lines[i].pointer, pointer);
        emit_assign(pr, lines[i].pointer, in_line(pr, &lines[i], i32_mul(pr, piece, rows->unit)));
    }
}

static void look_up(Printer *pr, const LookUp *one)
{
    Rows rows = one->rows;
    Line *const lines = op_vars(pr, info_of(pr->lo, one->op))->lines = NEW_ARRAY(pr->arena, Line, rows.lines);
    if (one->same) {
        look_up_again(pr, one, lines);
        return;
    }
    const Partition partition = pr->lo->partition;
    set_partition(pr, rows.it.partition);
    if (one->is_shared) look_up_shared(pr, &rows, lines);
    for (int i = 0; i < rows.lines && !one->is_shared; i++) {
        declare_line_at(pr, &rows, "line", i32_const(pr, i));
        begin_lines(pr, &rows);
        lines[i] = rows.runs[0].line;
    }
    set_partition(pr, partition);
}

void print_look_ups(Printer *pr, const LookUps *all)
{
    for (int i = 0; i < all->count; i++) look_up(pr, all->items[i]);
}

// ---- copied

static void copy_line(Printer *pr, const Rows *rows, const Line *line)
{
    Columns block;
    for (int u = 0; u < rows->units; u++) {
        const int columns = u * rows->across * rows->unit;
        begin_columns(pr, rows, &block, columns);
        emit_call(pr, "cp_async_16", 3, piece_address(pr, rows), in_line(pr, line, i32_const(pr, columns)),
                  var_of(pr, line->inside));
        end_columns(pr, rows, &block);
    }
}

void copy_rows(Printer *pr, const TileOp *op, Rows *rows)
{
    const Line *const lines = op_vars(pr, info_of(pr->lo, op))->lines;
    op_vars(pr, info_of(pr->lo, op))->lines = NULL;
    for (int i = 0; i < rows->lines && lines; i++) {
        declare_line_at(pr, rows, "line", i32_const(pr, i));
        copy_line(pr, rows, &lines[i]);
    }
    if (lines) return;
    Nest loop;
    Var *const line = loop_new_var(pr->unit, DTYPE_I32, "line");
    const bool few = pr->register_prefetch && rows->lines * rows->units <= 4;
    begin_for(pr, &loop, line, i32_const(pr, 0), i32_const(pr, rows->lines), i32_const(pr, 1),
              few ? LOOP_UNROLL : LOOP_NO_UNROLL);
    declare_line(pr, rows, line);
    begin_lines(pr, rows);
    copy_line(pr, rows, &rows->runs[0].line);
    end_nest(pr, &loop);
}

// ---- prefetched

// Into the L2 cache. A row is one lane's, where the tensor's rows may be prefetched as they lie.
void prefetch_rows(Printer *pr, const StepRows *step)
{
    Rows rows = step->rows;
    if (only_gathers(pr->lo) || !step->is_rows) return;
    const Iteration it = own_iteration();
    Nest nest;
    begin_row(pr, &rows.forall->forall.indices[0], &nest);
    *var_slot(pr, rows.column) = emit_declare(pr, DTYPE_I32, rows.column->name, i32_const(pr, 0));
    for (int i = 0; i < rows.n_runs; i++) {
        const Expr *const load = rows.runs[i].load;
        const int size = dtype_bits(load->type) / 8;
        if (size < 1 || rows.n_columns * size % PIECE_BYTES != 0 ||
            expr_multiple(first_column(pr->lo, &rows, last_sub(load))) * size % PIECE_BYTES != 0 ||
            place_alignment(load->load.buffer, last_sub(load), PIECE_BYTES / size) < PIECE_BYTES)
            continue;
        const Line line = begin_line(pr, load, &it);
        emit_call(pr, "prefetch_row", 3, var_of(pr, line.pointer), i32_const(pr, rows.n_columns * size),
                  var_of(pr, line.inside));
    }
    end_nest(pr, &nest);
}

// ---- a plan

void print_rows(Printer *pr, const RowsPlan *plan)
{
    if (plan->how == ROWS_WENT_BEFORE) return;
    Rows rows = plan->rows;
    const Partition partition = pr->lo->partition;
    set_partition(pr, rows.it.partition);
    Nest block;
    begin_block(pr, &block);
    if (plan->how == ROWS_COPIED) copy_rows(pr, plan->op, &rows);
    else if (plan->how == ROWS_FROM_REGISTERS) convert_register_prefetch(pr, plan);
    else convert_rows(pr, &rows);
    end_nest(pr, &block);
    set_partition(pr, partition);
}
