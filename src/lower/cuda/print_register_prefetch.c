// SPDX-License-Identifier: MIT
// print_register_prefetch.c - printing: the rows that the next step converts, in registers before their step
// (register_prefetch.c).
//
// before: the pipeline's loop begins       after: until it ends, lo->register_prefetch is what it has in registers. In each
//         step point_register_prefetch() points it at the next step's rows, and convert_register_prefetch() converts
//         this step's and loads the next.
#include "lower/cuda/print_rows.h"
#include "lower/cuda/elementwise.h"

// Registers of the pipeline, for all its conversions: they have one form, and one is made in each step.
typedef struct RegisterPrefetch {
    const PrefetchedRows *plan;
    Rows rows, tail; // with the lines of the next step
    Set set[SETS], tail_set;
} RegisterPrefetch;

// ---- pointers to the next step's

// `row`, or zeros of its length.
static Expr *row_or_zeros(Lowering *lo, Var *row, int bytes, Expr *inside)
{
    return call_expr(lo, row->type, arena_printf(lo->arena, "row_or_zeros<%d>", bytes), 2, var_of(lo, row), inside);
}

static Line prefetch_line(Lowering *lo, const Expr *load, int64_t bytes)
{
    const Buffer *const root = buffer_root(load->load.buffer);
    Var *const tensor = lo->tensors[root->id];
    const Line line = { .size = dtype_bits(load->load.buffer->type) / dtype_bits(root->type),
                        .bytes = (int)bytes,
                        .pointer = loop_new_pointer(lo->unit, tensor->type, "next_line_at") };
    emit_definition(lo, line.pointer, row_or_zeros(lo, tensor, line.bytes, expr_bool(lo->arena, false)));
    return line;
}

static void declare_lines(Lowering *lo, Rows *rows)
{
    for (int i = 0; i < rows->n_runs; i++) {
        const Expr *const load = rows->runs[i].load;
        rows->runs[i].line = prefetch_line(lo, load, rows->n_columns * dtype_bits(load->type) / 8);
    }
    for (int i = 0; i < rows->n_each; i++) {
        const int64_t by = rows->each[i].by;
        rows->each[i].line =
            prefetch_line(lo, rows->each[i].load, (by ? rows->n_columns / by : 1) * (int)sizeof(uint32_t));
    }
}

void declare_register_prefetch(Lowering *lo, const PrefetchedRows *plan)
{
    RegisterPrefetch *const prefetch = lo->register_prefetch =
        NEW(lo->arena, RegisterPrefetch, .plan = plan, .rows = plan->rows, .tail = plan->tail);
    declare_lines(lo, &prefetch->rows);
    for (int i = 0; i < plan->chunks; i++) declare_set(lo, &prefetch->rows, &prefetch->set[i], plan->units);
    if (!plan->tail.units) return;
    declare_lines(lo, &prefetch->tail);
    declare_set(lo, &prefetch->tail, &prefetch->tail_set, prefetch->tail.units);
}

static void point_lines(Lowering *lo, const Rows *prefetched, Rows *rows, Expr *begin)
{
    declare_line_at(lo, rows, "first_line", begin);
    begin_lines(lo, rows);
    for (int i = 0; i < n_lines(prefetched); i++) {
        const Line *const to = nth_line(prefetched, i), *const from = nth_line(rows, i);
        emit_assign(lo, to->pointer, row_or_zeros(lo, from->pointer, to->bytes, var_of(lo, from->inside)));
    }
}

void point_register_prefetch(Lowering *lo, const StepRows *step)
{
    const RegisterPrefetch *const prefetch = lo->register_prefetch;
    Rows rows = step->rows, tail = step->tail;
    Expr *begin;
    Nest block;
    if (!step->is_spread || rows.is_copy) return;
    const Partition partition = lo->partition;
    lo->partition = rows.it.partition;
    begin_block(lo, &block);
    lines_here(lo, &rows, &begin);
    point_lines(lo, &prefetch->rows, &rows, begin);
    if (prefetch->tail.units && step->has_tail) point_lines(lo, &prefetch->tail, &tail, begin);
    end_nest(lo, &block);
    lo->partition = partition;
}

// ---- loads and conversions

static void add_to_lines(Lowering *lo, const Rows *prefetched, Expr *zero)
{
    for (int i = 0; i < n_lines(prefetched); i++)
        emit_assign(lo, nth_line(prefetched, i)->pointer, in_line(lo, nth_line(prefetched, i), zero));
}

// After the elements of lists: loads share a scoreboard, and what waits for an element would wait for rows, too.
static void load_sets(Lowering *lo, const RegisterPrefetch *prefetch, Expr *column)
{
    Expr *const zero = emit_i32(lo, "zero", await_lists(lo, prefetch->plan->pipeline));
    add_to_lines(lo, &prefetch->rows, zero);
    add_to_lines(lo, &prefetch->tail, zero);
    for (int i = 0; i < prefetch->plan->chunks; i++)
        load_set(lo, &prefetch->rows, &prefetch->set[i], i * prefetch->plan->units, prefetch->plan->units, column);
    load_set(lo, &prefetch->tail, &prefetch->tail_set, 0, prefetch->tail.units, column);
}

void load_register_prefetch(Lowering *lo)
{
    if (!lo->register_prefetch) return;
    Rows rows = lo->register_prefetch->plan->rows;
    Nest block;
    begin_block(lo, &block);
    declare_line_at(lo, &rows, "first_line", i32_const(lo, 0));
    load_sets(lo, lo->register_prefetch, column_of(lo, &rows));
    end_nest(lo, &block);
}

// As it was loaded.
static void store_tail(Lowering *lo, const RowsPlan *plan)
{
    const RegisterPrefetch *const prefetch = lo->register_prefetch;
    Rows rows = plan->tail;
    Expr *begin;
    Nest block;
    Columns piece;
    if (!plan->has_tail) return;
    begin_block(lo, &block);
    lines_here(lo, &rows, &begin);
    declare_line_at(lo, &rows, "first_line", begin);
    for (int u = 0; u < prefetch->tail.units; u++) {
        begin_columns(lo, &rows, &piece, u * 4 * PIECE);
        Expr *words[4];
        for (int w = 0; w < COUNT(words); w++)
            words[w] = expr_index(lo->arena, prefetch->tail_set.raw[u][0], i32_const(lo, w));
        emit_call(lo, "store_piece", 5, piece_address(lo, &rows), words[0], words[1], words[2], words[3]);
        end_columns(lo, &rows, &piece);
    }
    end_nest(lo, &block);
}

void convert_register_prefetch(Lowering *lo, const RowsPlan *plan)
{
    const RegisterPrefetch *const prefetch = lo->register_prefetch;
    Rows rows = plan->rows;
    const int columns = (int)(rows.n_columns + prefetch->tail.n_columns);
    Expr *begin;
    begin_exchange(lo, &rows);
    lines_here(lo, &rows, &begin);
    declare_line_at(lo, &rows, "first_line", begin);
    for (int i = 0; i < prefetch->plan->chunks; i++) {
        convert_set(lo, &rows, &prefetch->set[i], i * prefetch->plan->units, prefetch->plan->units);
        if (i == 0) // which has waited for all rows
            load_lists(lo);
    }
    store_tail(lo, plan);
    send_line(lo, &rows, columns);
    load_sets(lo, prefetch, column_of(lo, &rows));
}
