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

// What a line's loads read, of the i-th of nth_line().
static int line_bytes(const Rows *rows, int i)
{
    if (i < rows->n_runs) return (int)rows->n_columns * dtype_bits(rows->runs[i].load->type) / 8;
    const int64_t by = rows->each[i - rows->n_runs].by;
    return (int)(by ? rows->n_columns / by : 1) * (int)sizeof(uint32_t);
}

static void declare_lines(Printer *pr, Rows *rows)
{
    for (int i = 0; i < rows->n_runs; i++)
        rows->runs[i].line = prefetch_line(pr, rows->runs[i].load, line_bytes(rows, i));
    for (int i = 0; i < rows->n_each; i++)
        rows->each[i].line = prefetch_line(pr, rows->each[i].load, line_bytes(rows, rows->n_runs + i));
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

// The rest of this step's lines: loaded into the same registers as soon as they are converted.
static void begin_next_line(Printer *pr, Rows *rows, Expr *line)
{
    declare_line_at(pr, rows, "next_line", line);
    begin_lines(pr, rows);
    for (int i = 0; i < n_lines(rows); i++) {
        const Line *const at = nth_line(rows, i);
        emit_assign(pr, at->pointer, row_or_zeros(pr, at->pointer, line_bytes(rows, i), var_of(pr, at->inside)));
    }
}

// As it was loaded.
static void store_tail(Printer *pr, const RowsPlan *plan, Expr *line, Expr *next)
{
    const RegisterPrefetch *const prefetch = pr->register_prefetch;
    Rows rows = plan->tail;
    Nest block;
    Columns piece;
    if (!plan->has_tail) return;
    begin_block(pr, &block);
    declare_line_at(pr, &rows, "line", line);
    for (int u = 0; u < prefetch->tail.units; u++) {
        begin_columns(pr, &rows, &piece, u * 4 * PIECE);
        Expr *words[4];
        for (int w = 0; w < COUNT(words); w++)
            words[w] = expr_index(pr->arena, prefetch->tail_set.raw[u][0], i32_const(pr, w));
        emit_call(pr, "store_piece", 5, piece_address(pr, &rows), words[0], words[1], words[2], words[3]);
        end_columns(pr, &rows, &piece);
    }
    if (next) {
        begin_next_line(pr, &rows, next);
        load_set(pr, &rows, &prefetch->tail_set, 0, prefetch->tail.units, column_of(pr, &rows));
    }
    end_nest(pr, &block);
}

// One of this step's lines. `next`: the one after it; NULL: there is none
static void convert_line_of(Printer *pr, const RowsPlan *plan, Rows *rows, Expr *line, Expr *next, bool is_first)
{
    const RegisterPrefetch *const prefetch = pr->register_prefetch;
    const int units = prefetch->plan->units, columns = (int)(rows->n_columns + prefetch->tail.n_columns);
    Rows after = *rows;
    if (next) begin_next_line(pr, &after, next);
    declare_line_at(pr, rows, "line", line);
    for (int i = 0; i < prefetch->plan->chunks; i++) {
        convert_set(pr, rows, &prefetch->set[i], i * units, units);
        if (is_first && i == 0) // which has waited for all rows
            load_lists(pr);
        if (next) load_set(pr, &after, &prefetch->set[i], i * units, units, column_of(pr, rows));
    }
    store_tail(pr, plan, line, next);
    send_line(pr, rows, columns);
}

void convert_register_prefetch(Printer *pr, const RowsPlan *plan)
{
    Rows rows = plan->rows;
    Expr *begin;
    begin_exchange(pr, &rows);
    const int lines = lines_here(pr, &rows, &begin);
    for (int l = 0; l < lines; l++)
        convert_line_of(pr, plan, &rows, i32_add(pr, begin, i32_const(pr, l)),
                        l + 1 < lines ? i32_add(pr, begin, i32_const(pr, l + 1)) : NULL, l == 0);
    load_sets(pr, pr->register_prefetch, column_of(pr, &rows));
}
