// SPDX-License-Identifier: MIT
// print_register_prefetch.c - printing: the rows that the next step converts, in registers before their step
// (register_prefetch.c).
//
// before: the pipeline's loop begins       after: until it ends, pr->register_prefetch is what it has in registers. In each
//         step point_register_prefetch() points it at the next step's rows, and convert_register_prefetch() converts
//         this step's and loads the next.
#include "lower/gpu/print/print_rows.h"

// Registers of the pipeline, for all its conversions: they have one form, and one is made in each step.
typedef struct RegisterPrefetch {
    const PrefetchedRows *plan;
    Rows rows, tail; // with the lines of the next step
    Set set[SETS], tail_set;
} RegisterPrefetch;

// ---- pointers to the next step's

// `row`, or zeros of its length.
static Expr *row_or_zeros(Printer *pr, Var *row, int bytes, Expr *inside)
{
    return call_expr(pr, row->type, arena_printf(pr->arena, "row_or_zeros<%d>", bytes), 2, var_of(pr, row), inside);
}

static Line prefetch_line(Printer *pr, const Expr *load, int64_t bytes)
{
    const Buffer *const root = buffer_root(load->load.buffer);
    Var *const tensor = pr->tensors[root->id];
    const Line line = { .size = dtype_bits(load->load.buffer->type) / dtype_bits(root->type),
                        .bytes = (int)bytes,
                        .pointer = loop_new_pointer(pr->unit, tensor->type, "next_line_at") };
    emit_definition(pr, line.pointer, row_or_zeros(pr, tensor, line.bytes, expr_bool(pr->arena, false)));
    return line;
}

static void declare_lines(Printer *pr, Rows *rows)
{
    for (int i = 0; i < rows->n_runs; i++) {
        const Expr *const load = rows->runs[i].load;
        rows->runs[i].line = prefetch_line(pr, load, rows->n_columns * dtype_bits(load->type) / 8);
    }
    for (int i = 0; i < rows->n_each; i++) {
        const int64_t by = rows->each[i].by;
        rows->each[i].line =
            prefetch_line(pr, rows->each[i].load, (by ? rows->n_columns / by : 1) * (int)sizeof(uint32_t));
    }
}

void declare_register_prefetch(Printer *pr, const PrefetchedRows *plan)
{
    RegisterPrefetch *const prefetch = pr->register_prefetch =
        NEW(pr->arena, RegisterPrefetch, .plan = plan, .rows = plan->rows, .tail = plan->tail);
    declare_lines(pr, &prefetch->rows);
    for (int i = 0; i < plan->chunks; i++) declare_set(pr, &prefetch->rows, &prefetch->set[i], plan->units);
    if (!plan->tail.units) return;
    declare_lines(pr, &prefetch->tail);
    declare_set(pr, &prefetch->tail, &prefetch->tail_set, prefetch->tail.units);
}

static void point_lines(Printer *pr, const Rows *prefetched, Rows *rows, Expr *begin)
{
    declare_line_at(pr, rows, "first_line", begin);
    begin_lines(pr, rows);
    for (int i = 0; i < n_lines(prefetched); i++) {
        const Line *const to = nth_line(prefetched, i), *const from = nth_line(rows, i);
        emit_assign(pr, to->pointer, row_or_zeros(pr, from->pointer, to->bytes, var_of(pr, from->inside)));
    }
}

void point_register_prefetch(Printer *pr, const StepRows *step)
{
    const RegisterPrefetch *const prefetch = pr->register_prefetch;
    Rows rows = step->rows, tail = step->tail;
    Expr *begin;
    Nest block;
    if (!step->is_spread || rows.is_copy) return;
    const Partition partition = pr->lo->partition;
    pr->lo->partition = rows.it.partition;
    begin_block(pr, &block);
    lines_here(pr, &rows, &begin);
    point_lines(pr, &prefetch->rows, &rows, begin);
    if (prefetch->tail.units && step->has_tail) point_lines(pr, &prefetch->tail, &tail, begin);
    end_nest(pr, &block);
    pr->lo->partition = partition;
}

// ---- loads and conversions

static void add_to_lines(Printer *pr, const Rows *prefetched, Expr *zero)
{
    for (int i = 0; i < n_lines(prefetched); i++)
        emit_assign(pr, nth_line(prefetched, i)->pointer, in_line(pr, nth_line(prefetched, i), zero));
}

// After the elements of lists: loads share a scoreboard, and what waits for an element would wait for rows, too.
static void load_sets(Printer *pr, const RegisterPrefetch *prefetch, Expr *column)
{
    Expr *const zero = emit_i32(pr, "zero", await_lists(pr, prefetch->plan->pipeline));
    add_to_lines(pr, &prefetch->rows, zero);
    add_to_lines(pr, &prefetch->tail, zero);
    for (int i = 0; i < prefetch->plan->chunks; i++)
        load_set(pr, &prefetch->rows, &prefetch->set[i], i * prefetch->plan->units, prefetch->plan->units, column);
    load_set(pr, &prefetch->tail, &prefetch->tail_set, 0, prefetch->tail.units, column);
}

void load_register_prefetch(Printer *pr)
{
    if (!pr->register_prefetch) return;
    Rows rows = pr->register_prefetch->plan->rows;
    Nest block;
    begin_block(pr, &block);
    declare_line_at(pr, &rows, "first_line", i32_const(pr, 0));
    load_sets(pr, pr->register_prefetch, column_of(pr, &rows));
    end_nest(pr, &block);
}

// As it was loaded.
static void store_tail(Printer *pr, const RowsPlan *plan)
{
    const RegisterPrefetch *const prefetch = pr->register_prefetch;
    Rows rows = plan->tail;
    Expr *begin;
    Nest block;
    Columns piece;
    if (!plan->has_tail) return;
    begin_block(pr, &block);
    lines_here(pr, &rows, &begin);
    declare_line_at(pr, &rows, "first_line", begin);
    for (int u = 0; u < prefetch->tail.units; u++) {
        begin_columns(pr, &rows, &piece, u * 4 * PIECE);
        Expr *words[4];
        for (int w = 0; w < COUNT(words); w++)
            words[w] = expr_index(pr->arena, prefetch->tail_set.raw[u][0], i32_const(pr, w));
        emit_call(pr, "store_piece", 5, piece_address(pr, &rows), words[0], words[1], words[2], words[3]);
        end_columns(pr, &rows, &piece);
    }
    end_nest(pr, &block);
}

void convert_register_prefetch(Printer *pr, const RowsPlan *plan)
{
    const RegisterPrefetch *const prefetch = pr->register_prefetch;
    Rows rows = plan->rows;
    const int columns = (int)(rows.n_columns + prefetch->tail.n_columns);
    Expr *begin;
    begin_exchange(pr, &rows);
    lines_here(pr, &rows, &begin);
    declare_line_at(pr, &rows, "first_line", begin);
    for (int i = 0; i < prefetch->plan->chunks; i++) {
        convert_set(pr, &rows, &prefetch->set[i], i * prefetch->plan->units, prefetch->plan->units);
        if (i == 0) // which has waited for all rows
            load_lists(pr);
    }
    store_tail(pr, plan);
    send_line(pr, &rows, columns);
    load_sets(pr, prefetch, column_of(pr, &rows));
}
