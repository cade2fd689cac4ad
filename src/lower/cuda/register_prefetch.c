// SPDX-License-Identifier: MIT
// register_prefetch.c - the rows that the next step converts, in registers before their step: a *register prefetch*.
//
// Where it is known which rows the next step converts (row_indices.c) and each step converts one line, both sets belong
// to the whole pipeline and are loaded with the next step's line as soon as this step's is sent: the fence before the
// sending waits for all loads in flight. A copy of the same rows to the columns after the converted ones is their
// *tail*: loaded, stored and sent with them.
//
// before: it is known which tiles a cluster exchanges, and which rows a warp alone touches
// after:  find_tails() has marked the copies that are tails. While a pipeline is printed, lo->register_prefetch is what
//         it has. declare_register_prefetch() declares registers and pointers, in each step point_register_prefetch()
//         points them at the next step's rows, and convert_register_prefetch() converts this step's and loads the next.
#include "lower/cuda/rows.h"

// Of all conversions of the pipeline, which have one form and of which one is made in each step.
typedef struct RegisterPrefetch {
    TileOp *pipeline, *op; // the first
    Rows rows, tail;       // tail.units 0: there is none
    int units, chunks;     // of a set; sets
    Set set[SETS], tail_set;
} RegisterPrefetch;

// ---- which rows

// After a conversion, a copy of the same rows to the columns after its own; NULL: there is none.
static TileOp *tail_of(Lowering *lo, TileOp *op, Rows *tail)
{
    Rows rows;
    int64_t first, after;
    TileOp *const next = op->next;
    if (!next || !op_info(lo, next)->fills || !plan_rows(lo, op, &rows) || rows.is_copy ||
        !spread_rows(lo, next, tail) || !tail->is_copy || tail->n_rows != rows.n_rows ||
        tail->store->store.buffer != rows.store->store.buffer)
        return NULL;
    return expr_as_int(first_column(lo, &rows, rows.store->store.subs[1]), &first) &&
                   expr_as_int(first_column(lo, tail, tail->store->store.subs[1]), &after) &&
                   after == first + rows.n_columns && tail->units <= SET_UNITS && can_send(lo, tail)
               ? next
               : NULL;
}

static bool has_form(const Rows *a, const Rows *b)
{
    bool same = a->unit == b->unit && a->n_columns == b->n_columns && a->n_runs == b->n_runs && a->n_each == b->n_each;
    for (int i = 0; i < a->n_runs && same; i++) same = a->runs[i].load->type == b->runs[i].load->type;
    for (int i = 0; i < a->n_each && same; i++)
        same = a->each[i].by == b->each[i].by && a->each[i].load->type == b->each[i].load->type;
    return same;
}

typedef struct Conversions {
    TileOp *op; // the first
    Rows rows, tail;
    int n, tails, copies; // tails: of the first's form
    bool fails;
} Conversions;

// One, or one in either branch of an if.
static bool see_conversion(Lowering *lo, TileOp *op, void *context)
{
    Conversions *const all = context;
    const OpInfo *const info = op_info(lo, op);
    Rows rows, tail;
    if (!info->fills || info->is_row_index) return op->kind == T_FORALL;
    if (!plan_rows(lo, op, &rows)) return true;
    all->copies += rows.is_copy;
    if (rows.is_copy) return true;
    for (int i = 0; i < rows.n_runs; i++) // strides take the registers
        all->fails |= buffer_root(rows.runs[i].load->load.buffer)->stride[0] != NULL;
    const int instances = tile_of_rows(lo, &rows)->is_exchanged ? lo->cluster : 1;
    all->fails |= !lay_rows(lo, &rows) || rows.units == 1 || rows.lines > instances;
    if (all->n == 0) {
        all->op = op;
        all->rows = rows;
    } else {
        const OpInfo *const first = op_info(lo, all->op);
        all->fails |=
            all->n > 1 || first->parent != info->parent || first->block == info->block || !has_form(&rows, &all->rows);
    }
    if (tail_of(lo, op, &tail)) {
        all->tail = all->n ? all->tail : tail;
        all->tails += has_form(&tail, &all->tail); // one set of registers for both branches' tails
    }
    all->n++;
    return true;
}

static bool is_made_each_step(Lowering *lo, const TileOp *pipeline, const Conversions *all)
{
    const TileOp *const parent = op_info(lo, all->op)->parent;
    return all->n == 2 ? op_info(lo, parent)->parent == pipeline : parent == pipeline;
}

// The conversions of a pipeline whose registers can be loaded a step ahead; false: they cannot.
static bool plan_register_prefetch(Lowering *lo, TileOp *pipeline, Conversions *all)
{
    *all = (Conversions){ .n = 0 };
    each_op(lo, pipeline->pipeline.body, see_conversion, all);
    return all->n > 0 && !all->fails && all->rows.units / set_units(&all->rows) <= SETS &&
           is_made_each_step(lo, pipeline, all) && rows_are_local(lo, pipeline);
}

static bool mark_tail(Lowering *lo, TileOp *op, void *context)
{
    Rows tail;
    (void)context;
    if (op_info(lo, op)->fills && tail_of(lo, op, &tail)) {
        op_info(lo, op->next)->is_tail = true;
        tile_of_rows(lo, &tail)->ring->has_gathers = false;
    }
    return op->kind == T_FORALL;
}

static bool find_tails_of(Lowering *lo, TileOp *op, void *context)
{
    Conversions all;
    (void)context;
    if (op->kind == T_PIPELINE && op_info(lo, op)->has_row_indices && plan_register_prefetch(lo, op, &all) &&
        tile_of_rows(lo, &all.rows)->is_exchanged && all.tails == all.n && all.copies == all.n)
        each_op(lo, op->pipeline.body, mark_tail, NULL);
    return op->kind == T_FORALL;
}

void find_tails(Lowering *lo) { each_op(lo, lo->kernel->body, find_tails_of, NULL); }

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

void declare_register_prefetch(Lowering *lo, TileOp *pipeline)
{
    Conversions all;
    if (!plan_register_prefetch(lo, pipeline, &all)) return;
    const int units = set_units(&all.rows);
    RegisterPrefetch *const register_prefetch = lo->register_prefetch =
        NEW(lo->arena, RegisterPrefetch, .pipeline = pipeline, .op = all.op, .rows = all.rows, .units = units,
            .chunks = all.rows.units / units);
    declare_lines(lo, &register_prefetch->rows);
    for (int i = 0; i < register_prefetch->chunks; i++)
        declare_set(lo, &register_prefetch->rows, &register_prefetch->set[i], units);
    if (!all.tails || !op_info(lo, all.op->next)->is_tail) return;
    register_prefetch->tail = all.tail;
    declare_lines(lo, &register_prefetch->tail);
    declare_set(lo, &register_prefetch->tail, &register_prefetch->tail_set, register_prefetch->tail.units);
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

void point_register_prefetch(Lowering *lo, TileOp *op)
{
    const RegisterPrefetch *const register_prefetch = lo->register_prefetch;
    Rows rows, tail;
    Expr *begin;
    Nest block;
    if (!spread_rows(lo, op, &rows) || rows.is_copy) return;
    const Partition partition = lo->partition;
    lo->partition = rows.it.partition;
    begin_block(lo, &block);
    lines_here(lo, &rows, &begin);
    point_lines(lo, &register_prefetch->rows, &rows, begin);
    if (register_prefetch->tail.units && tail_of(lo, op, &tail))
        point_lines(lo, &register_prefetch->tail, &tail, begin);
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
static void load_sets(Lowering *lo, const RegisterPrefetch *register_prefetch, Expr *column)
{
    Expr *const zero = emit_i32(lo, "zero", await_lists(lo, register_prefetch->pipeline));
    add_to_lines(lo, &register_prefetch->rows, zero);
    add_to_lines(lo, &register_prefetch->tail, zero);
    for (int i = 0; i < register_prefetch->chunks; i++)
        load_set(lo, &register_prefetch->rows, &register_prefetch->set[i], i * register_prefetch->units,
                 register_prefetch->units, column);
    load_set(lo, &register_prefetch->tail, &register_prefetch->tail_set, 0, register_prefetch->tail.units, column);
}

void load_register_prefetch(Lowering *lo)
{
    Rows rows;
    Nest block;
    if (!lo->register_prefetch || !spread_rows(lo, lo->register_prefetch->op, &rows)) return;
    begin_block(lo, &block);
    declare_line_at(lo, &rows, "first_line", i32_const(lo, 0));
    load_sets(lo, lo->register_prefetch, column_of(lo, &rows));
    end_nest(lo, &block);
}

// As it was loaded.
static void store_tail(Lowering *lo, TileOp *op)
{
    const RegisterPrefetch *const register_prefetch = lo->register_prefetch;
    Rows rows;
    Expr *begin;
    Nest block;
    Columns piece;
    if (!register_prefetch->tail.units || !spread_rows(lo, op, &rows)) return;
    begin_block(lo, &block);
    lines_here(lo, &rows, &begin);
    declare_line_at(lo, &rows, "first_line", begin);
    for (int u = 0; u < register_prefetch->tail.units; u++) {
        begin_columns(lo, &rows, &piece, u * 4 * PIECE);
        Expr *words[4];
        for (int w = 0; w < COUNT(words); w++)
            words[w] = expr_index(lo->arena, register_prefetch->tail_set.raw[u][0], i32_const(lo, w));
        emit_call(lo, "store_piece", 5, piece_address(lo, &rows), words[0], words[1], words[2], words[3]);
        end_columns(lo, &rows, &piece);
    }
    end_nest(lo, &block);
}

void convert_register_prefetch(Lowering *lo, TileOp *op, Rows *rows)
{
    const RegisterPrefetch *const register_prefetch = lo->register_prefetch;
    const int columns = (int)(rows->n_columns + register_prefetch->tail.n_columns);
    Expr *begin;
    begin_exchange(lo, rows, columns);
    lines_here(lo, rows, &begin);
    declare_line_at(lo, rows, "first_line", begin);
    for (int i = 0; i < register_prefetch->chunks; i++) {
        convert_set(lo, rows, &register_prefetch->set[i], i * register_prefetch->units, register_prefetch->units);
        if (i == 0) // which has waited for all rows
            load_lists(lo, register_prefetch->pipeline);
    }
    store_tail(lo, op->next);
    send_line(lo, rows, columns);
    load_sets(lo, register_prefetch, column_of(lo, rows));
}
