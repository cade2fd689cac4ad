// SPDX-License-Identifier: MIT
// print_gather.c - printing: rows that are looked up, copied as they lie, and prefetched (gather.c).
//
// before: the partition is that of the rows      after: from a look-up to its copy op_info()->lines are the lines
#include "lower/cuda/print_rows.h"
#include "lower/cuda/elementwise.h"

// ---- looked up

static void look_up_again(Lowering *lo, const LookUp *one, Line *lines)
{
    const Line *const before = op_info(lo, one->same)->lines;
    for (int i = 0; i < one->rows.lines; i++) {
        lines[i] = before[i];
        lines[i].pointer = loop_new_pointer(lo->unit, before[i].pointer->type, "line_at");
        emit_definition(lo, lines[i].pointer, in_line(lo, &before[i], i32_const(lo, one->shift)));
    }
}

static void look_up(Lowering *lo, const LookUp *one)
{
    Rows rows = one->rows;
    Line *const lines = op_info(lo, one->op)->lines = NEW_ARRAY(lo->arena, Line, rows.lines);
    if (one->same) {
        look_up_again(lo, one, lines);
        return;
    }
    const Partition partition = lo->partition;
    lo->partition = rows.it.partition;
    for (int i = 0; i < rows.lines; i++) {
        declare_line_at(lo, &rows, "line", i32_const(lo, i));
        begin_lines(lo, &rows);
        lines[i] = rows.runs[0].line;
    }
    lo->partition = partition;
}

void print_look_ups(Lowering *lo, const LookUps *all)
{
    for (int i = 0; i < all->count; i++) look_up(lo, all->items[i]);
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

void copy_rows(Lowering *lo, const TileOp *op, Rows *rows)
{
    const Line *const lines = op_info(lo, op)->lines;
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
void prefetch_rows(Lowering *lo, const StepRows *step)
{
    Rows rows = step->rows;
    if (only_gathers(lo) || !step->is_rows) return;
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

// ---- a plan

void print_rows(Lowering *lo, const RowsPlan *plan)
{
    if (plan->how == ROWS_WENT_BEFORE) return;
    Rows rows = plan->rows;
    const Partition partition = lo->partition;
    lo->partition = rows.it.partition;
    Nest block;
    begin_block(lo, &block);
    if (plan->how == ROWS_COPIED) copy_rows(lo, plan->op, &rows);
    else if (plan->how == ROWS_FROM_REGISTERS) convert_register_prefetch(lo, plan);
    else convert_rows(lo, &rows);
    end_nest(lo, &block);
    lo->partition = partition;
}
