// SPDX-License-Identifier: MIT
// print_register_prefetch.c - printing: the rows that the next step converts, in registers before their step
// (register_prefetch.c).
//
// before: the pipeline's loop begins       after: until it ends, pr->register_prefetch is what it has in registers. In each
//         step point_register_prefetch() points it at the next step's rows, and convert_register_prefetch() converts
//         this step's and loads the next.
#include "lower/gpu/print/build/build.h"
#include "lower/gpu/print/rings/print_rings.h"
#include "lower/gpu/print/copies/print_rows.h"

// Registers of the pipeline, for all its conversions: they have one form, and one is made in each step. Of each line that
// they hold: where the next one is loaded from, and what has been loaded.
typedef struct HeldLine {
    Rows rows, tail;
    Set set[SETS], tail_set;
} HeldLine;
typedef struct RegisterPrefetch {
    const PrefetchedRows *plan;
    HeldLine line[LINES_HELD];
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

// With tail_bytes, the tail is loaded from there as well: its columns are not more.
static void declare_lines(Printer *pr, Rows *rows, int tail_bytes)
{
    for (int i = 0; i < rows->n_runs; i++)
        rows->runs[i].line = prefetch_line(pr, rows->runs[i].load, line_bytes(rows, i) + tail_bytes);
    for (int i = 0; i < rows->n_each; i++)
        rows->each[i].line = prefetch_line(pr, rows->each[i].load, line_bytes(rows, rows->n_runs + i));
}

// Lines of the next step, whose addresses are computed before it.
static int pointed_lines(const PrefetchedRows *plan) { return plan->alternates ? 1 : plan->held; }

static void declare_sets(Printer *pr, const PrefetchedRows *plan, HeldLine *line)
{
    for (int i = 0; i < plan->chunks; i++) declare_set(pr, &line->rows, &line->set[i], plan->units);
    if (plan->tail.units) declare_set(pr, &line->tail, &line->tail_set, line->tail.units);
}

void declare_register_prefetch(Printer *pr, const PrefetchedRows *plan)
{
    RegisterPrefetch *const prefetch = pr->register_prefetch = NEW(pr->arena, RegisterPrefetch, .plan = plan);
    for (int l = 0; l < plan->held; l++) {
        HeldLine *const line = &prefetch->line[l];
        *line = (HeldLine){ .rows = plan->rows, .tail = plan->tail };
        declare_sets(pr, plan, line);
        if (l >= pointed_lines(plan)) continue;
        declare_lines(pr, &line->rows, plan->tail_bytes);
        if (plan->tail.units && !plan->tail_bytes) declare_lines(pr, &line->tail, 0);
    }
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
    set_partition(pr, rows.it.partition);
    begin_block(pr, &block);
    lines_here(pr, &rows, &begin);
    const bool in_lanes = prefetch->plan->in_lanes;
    for (int l = in_lanes ? pr->lane_row : 0; l < (in_lanes ? pr->lane_row + 1 : pointed_lines(prefetch->plan)); l++) {
        Expr *const line = i32_add(pr, begin, i32_const(pr, l));
        point_lines(pr, &prefetch->line[l].rows, &rows, line);
        if (prefetch->plan->tail.units && step->has_tail && !prefetch->plan->tail_bytes)
            point_lines(pr, &prefetch->line[l].tail, &tail, line);
    }
    end_nest(pr, &block);
    set_partition(pr, partition);
}

// ---- loads and conversions

static void add_to_lines(Printer *pr, const Rows *prefetched, Expr *zero)
{
    for (int i = 0; i < n_lines(prefetched); i++)
        emit_assign(pr, nth_line(prefetched, i)->pointer, in_line(pr, nth_line(prefetched, i), zero));
}

// `from`: whose pointers say where; `to`: whose registers take it.
static void load_line(Printer *pr, const HeldLine *from, const HeldLine *to, Expr *column)
{
    const PrefetchedRows *const plan = pr->register_prefetch->plan;
    for (int i = 0; i < plan->chunks; i++) load_set(pr, &from->rows, &to->set[i], i * plan->units, plan->units, column);
    Rows tail = from->tail;
    if (plan->tail_bytes) {
        const Line *const row = &from->rows.runs[0].line;
        Line *const at = &tail.runs[0].line;
        Buffer *const buffer = tail.runs[0].load->load.buffer;
        *at = (Line){ .size = dtype_bits(buffer->type) / dtype_bits(buffer_root(buffer)->type),
                      .pointer = loop_new_pointer(pr->unit, row->pointer->type, "tail_at") };
        const int bytes = dtype_bits(buffer_root(buffer)->type) / 8;
        emit_definition(pr, at->pointer,
                        expr_address(pr->arena, row->pointer, i32_const(pr, plan->tail_bytes / bytes)));
    }
    load_set(pr, &tail, &to->tail_set, 0, plan->tail.units, column);
}

// After the elements of lists: loads share a scoreboard, and what waits for an element would wait for rows, too.
static void load_after_lists(Printer *pr, Expr *column)
{
    const RegisterPrefetch *const prefetch = pr->register_prefetch;
    Expr *const zero = emit_i32(pr, "zero", await_lists(pr, prefetch->plan->pipeline));
    for (int l = 0; l < pointed_lines(prefetch->plan); l++) {
        add_to_lines(pr, &prefetch->line[l].rows, zero);
        if (!prefetch->plan->tail_bytes) add_to_lines(pr, &prefetch->line[l].tail, zero);
        load_line(pr, &prefetch->line[l], &prefetch->line[l], column);
    }
}

static const Buffer *tensor_of(const Rows *rows, int i)
{
    const Expr *const load = i < rows->n_runs ? rows->runs[i].load : rows->each[i - rows->n_runs].load;
    return buffer_root(load->load.buffer);
}

static void point_at_zeros(Printer *pr, const Rows *rows)
{
    for (int i = 0; i < n_lines(rows); i++) {
        const Line *const line = nth_line(rows, i);
        Var *const tensor = pr->tensors[tensor_of(rows, i)->id];
        emit_assign(pr, line->pointer, row_or_zeros(pr, tensor, line->bytes, expr_bool(pr->arena, false)));
    }
}

// Its addresses are known when its indices are, and nothing of them is kept but those.
void load_lane_row(Printer *pr, int l, bool first)
{
    const RegisterPrefetch *const prefetch = pr->register_prefetch;
    const HeldLine *const held = &prefetch->line[l];
    Rows rows = prefetch->plan->rows;
    Nest block;
    begin_block(pr, &block);
    declare_line_at(pr, &rows, "lane_line", i32_const(pr, 0));
    Expr *const column = column_of(pr, &rows);
    point_at_zeros(pr, &held->rows);
    if (prefetch->plan->tail.units && !prefetch->plan->tail_bytes) point_at_zeros(pr, &held->tail);
    point_lane_row(pr, l, first);
    load_line(pr, held, held, column);
    end_nest(pr, &block);
}

void load_register_prefetch(Printer *pr)
{
    if (!pr->register_prefetch) return;
    Rows rows = pr->register_prefetch->plan->rows;
    Nest block;
    begin_block(pr, &block);
    declare_line_at(pr, &rows, "first_line", i32_const(pr, 0));
    load_after_lists(pr, column_of(pr, &rows));
    end_nest(pr, &block);
}

// Where a step has one line: the next one's, while this one's is in the other registers.
void load_next_line(Printer *pr)
{
    const RegisterPrefetch *const prefetch = pr->register_prefetch;
    if (!prefetch || !prefetch->plan->alternates) return;
    Rows rows = prefetch->plan->rows;
    Nest block;
    begin_block(pr, &block);
    declare_line_at(pr, &rows, "ahead_line", i32_const(pr, 0));
    load_line(pr, &prefetch->line[0], &prefetch->line[1], column_of(pr, &rows));
    end_nest(pr, &block);
}

static void move_set(Printer *pr, const Rows *rows, const Set *to, const Set *from, int units)
{
    for (int u = 0; u < units; u++) {
        for (int i = 0; i < rows->n_runs; i++)
            for (int w = 0; w < rows->unit * dtype_bits(rows->runs[i].load->type) / 32; w++)
                emit_element(pr, to->raw[u][i], i32_const(pr, w),
                             expr_index(pr->arena, from->raw[u][i], i32_const(pr, w)));
        for (int i = 0; i < rows->n_each; i++)
            if (u == 0 || to->each[u][i] != to->each[u - 1][i])
                emit_assign(pr, to->each[u][i], var_of(pr, from->each[u][i]));
    }
}

static void move_next_line(Printer *pr, const RegisterPrefetch *prefetch)
{
    const PrefetchedRows *const plan = prefetch->plan;
    const HeldLine *const to = &prefetch->line[0], *const from = &prefetch->line[1];
    for (int i = 0; i < plan->chunks; i++) move_set(pr, &to->rows, &to->set[i], &from->set[i], plan->units);
    move_set(pr, &to->tail, &to->tail_set, &from->tail_set, plan->tail.units);
}

// As it was loaded.
static void store_tail(Printer *pr, const RowsPlan *plan, const HeldLine *held, Expr *line)
{
    Rows rows = plan->tail;
    Nest block;
    Columns piece;
    if (!plan->has_tail) return;
    begin_block(pr, &block);
    declare_line_at(pr, &rows, "line", line);
    for (int u = 0; u < rows.units; u++) {
        begin_columns(pr, &rows, &piece, u * 4 * PIECE);
        Expr *words[4];
        for (int w = 0; w < COUNT(words); w++)
            words[w] = expr_index(pr->arena, held->tail_set.raw[u][0], i32_const(pr, w));
        emit_call(pr, "store_piece", 5, piece_address(pr, &rows), words[0], words[1], words[2], words[3]);
        end_columns(pr, &rows, &piece);
    }
    end_nest(pr, &block);
}

// ptxas would put loads off to where the registers are wanted; the end of a basic block holds them, and a wait for a
// buffer that the producer has is one.
static void hold_loads(Printer *pr, const Rows *rows)
{
    const Ring *const ring = tile_of_rows(pr->lo, rows)->ring;
    emit_call(pr, "mbar_wait", 2, empty_barrier(pr, ring), var_of(pr, ring_vars(pr, ring->ring_state)->phase));
}

static void convert_held_line(Printer *pr, const RowsPlan *plan, Rows *rows, int l, Expr *line)
{
    const RegisterPrefetch *const prefetch = pr->register_prefetch;
    const HeldLine *const held = &prefetch->line[l];
    const int units = prefetch->plan->units, columns = (int)(rows->n_columns + prefetch->plan->tail.n_columns);
    declare_line_at(pr, rows, "line", line);
    if (!rows->n_away) store_tail(pr, plan, held, line);
    for (int i = 0; i < prefetch->plan->chunks; i++) {
        convert_set(pr, rows, &held->set[i], i * units, units);
        if (l == 0 && i == 0 && !prefetch->plan->in_lanes) // which has waited for all rows
            load_lists(pr);
    }
    if (rows->n_away) store_tail(pr, plan, held, line);
    send_line(pr, rows, columns);
    if (prefetch->plan->in_lanes && l + 1 < prefetch->plan->held) load_lane_row(pr, l, false);
    if (prefetch->plan->alternates || prefetch->plan->in_lanes) return;
    load_line(pr, held, held, column_of(pr, rows));
    hold_loads(pr, rows);
}

void convert_register_prefetch(Printer *pr, const RowsPlan *plan)
{
    Rows rows = plan->rows;
    Expr *begin;
    begin_exchange(pr, &rows);
    const int lines = lines_here(pr, &rows, &begin);
    for (int l = 0; l < lines; l++) convert_held_line(pr, plan, &rows, l, i32_add(pr, begin, i32_const(pr, l)));
    if (pr->register_prefetch->plan->alternates) move_next_line(pr, pr->register_prefetch);
}
