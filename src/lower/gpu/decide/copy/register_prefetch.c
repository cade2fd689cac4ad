// SPDX-License-Identifier: MIT
// register_prefetch.c - the rows that the next step converts, in registers before their step: a *register prefetch*.
//
// Where it is known which rows the next step converts (row_indices.c), and a step converts one line or two, the
// registers of two lines belong to the whole pipeline. With one line a step, the next one's is loaded when a step begins,
// and moved when it ends: its latency has the whole step, of which the fence before the sending, which waits for loads in
// flight, comes late. With two lines, each is loaded anew as soon as it is converted. A copy of the same rows to the
// columns after the converted ones is their *tail*: loaded, stored and sent with them.
//
// Of codes of a byte that become 16 bits a lane has 32 bytes of the tile's row: there, where row indices are made of
// others, four lanes beside each other have one (choose_row_pieces). With two lines of one tensor, a lane has the row
// indices of both in registers, and works out an address where it loads.
//
// before: it is known which tiles a cluster exchanges, and which rows a warp alone touches
// after:  find_register_prefetches() has marked the copies that are tails, and has_register_prefetch is known;
//         is_of_lanes of tiles of row indices;
//         prefetched_rows_of() says what a pipeline has in registers
#include "lower/gpu/decide/copy/fetch.h"
#include "lower/gpu/decide/copy/rows.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/facts/info.h"

// ---- which rows

// After a conversion, a copy of the same rows to the columns after its own; NULL: there is none.
TileOp *tail_of(Lowering *lo, TileOp *op, Rows *tail)
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

// Of the columns that a view's begin with, in what lies under it.
static int64_t view_bytes(const Buffer *view)
{
    int64_t bytes = 0, start = 0;
    for (; view->kind == BUFFER_VIEW; view = view->base.buffer) {
        const Buffer *const under = view->base.buffer;
        expr_as_int(view->base.subs[under->rank - 1].start, &start); // constant, or its alignment would not be known
        bytes += start * dtype_bits(under->type) / 8;
    }
    return bytes;
}

// Of the same row of one tensor, a constant number of bytes after the lane's own.
static int tail_bytes(Lowering *lo, const Rows *rows, const Rows *tail)
{
    const Expr *const x = rows->runs[0].load, *const y = tail->runs[0].load;
    const LoopIndex *const from = tail->forall->forall.indices, *const to = rows->forall->forall.indices;
    const int size = dtype_bits(x->load.buffer->type) / 8, tail_size = dtype_bits(y->load.buffer->type) / 8;
    int64_t first, after;
    if (rows->n_runs != 1 || buffer_root(x->load.buffer) != buffer_root(y->load.buffer) ||
        x->load.buffer->rank != y->load.buffer->rank || rows->unit * size != tail->unit * tail_size ||
        !expr_as_int(first_column(lo, rows, last_sub(x)), &first) ||
        !expr_as_int(first_column(lo, tail, last_sub(y)), &after))
        return 0;
    for (int d = 0; d + 1 < x->load.buffer->rank; d++)
        if (!expr_equal(x->load.subs[d],
                        expr_replace(lo->arena, y->load.subs[d], from[0].var, expr_var(lo->arena, to[0].var))))
            return 0;
    return (int)(view_bytes(y->load.buffer) + after * tail_size - view_bytes(x->load.buffer) - first * size);
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
    int tail_bytes;       // of all alike; 0: not
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
    const int instances = tile_of_rows(lo, &rows)->is_exchanged ? lo->cluster : 1;
    for (int i = 0; i < rows.n_runs; i++) all->fails |= dtype_is_packed(rows.runs[i].load->type);
    all->fails |= !lay_rows(lo, &rows) || rows.units == 1 || rows.lines > LINES_HELD * instances;
    if (all->n == 0) {
        all->op = op;
        all->rows = rows;
    } else {
        const OpInfo *const first = op_info(lo, all->op);
        all->fails |=
            all->n > 1 || first->parent != info->parent || first->block == info->block || !has_form(&rows, &all->rows);
    }
    if (tail_of(lo, op, &tail)) {
        const int bytes = tail_bytes(lo, &rows, &tail);
        all->tail_bytes = all->n == 0 || bytes == all->tail_bytes ? bytes : 0;
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

static bool loads_tile(const Expr *x, void *lo)
{
    return x->kind == E_LOAD && tile_info(lo, buffer_root(x->load.buffer)) != NULL;
}

// One that is worked out of others.
static bool see_link(Lowering *lo, TileOp *op, void *context)
{
    if (op_info(lo, op)->is_row_index) *(bool *)context |= expr_any(op->forall.body->store.value, loads_tile, lo);
    return op->kind == T_FORALL;
}

// Rows whose indices are not made of others, as those of pages, keep their lanes: there registers spill with four beside each other.
static bool mark_converted(Lowering *lo, TileOp *op, void *context)
{
    const bool *const is_chain = context;
    Rows rows;
    if (op_info(lo, op)->fills && plan_rows(lo, op, &rows)) {
        TileInfo *const tile = tile_info(lo, rows.store->store.buffer);
        tile->is_from_registers = true;
        tile->has_rows_beside |=
            *is_chain && !rows.is_copy && rows.unit == 2 * PIECE && dtype_bits(tile->buffer->type) == 16;
    }
    return op->kind == T_FORALL;
}

// ---- row indices in registers of lanes

static bool is_of_step(Lowering *lo, const TileInfo *tile, const TileOp *pipeline)
{
    return tile->is_double_buffered && is_within(lo, tile->declared, pipeline);
}

// Where the group converts all rows of a step itself, a lane has one row of either line. Row indices of which one is made of
// another would be a chain of stores and loads of shared memory, with two barriers of the warp, before each step's
// addresses. Not where CTAs send each other what they convert, which is slower; nor with lists of two tensors, of which a
// step reads one: their numbers take more registers than there are; nor with factors of another tensor, which is not timed.
static bool may_be_in_lanes(Lowering *lo, const TileOp *pipeline, const Conversions *all)
{
    const TileInfo *const to = tile_of_rows(lo, &all->rows);
    bool fits = all->n == 1 && to->has_rows_beside && !to->is_exchanged && all->rows.n_rows == LANE_ROWS_HELD;
    for (int i = 0; i < all->rows.n_each; i++)
        fits &= buffer_root(all->rows.each[i].load->load.buffer) == buffer_root(all->rows.runs[0].load->load.buffer);
    for (int i = 0; i < lo->n_declared && fits; i++) {
        const Buffer *const buffer = lo->declared.items[i]->buffer;
        int64_t extent;
        if (is_of_step(lo, lo->declared.items[i], pipeline))
            fits = buffer->rank == 1 && expr_as_int(buffer->shape[0], &extent) && extent == LANE_ROWS_HELD;
    }
    return fits;
}

static void keep_in_lanes(Lowering *lo, const TileOp *pipeline)
{
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        if (!is_of_step(lo, tile, pipeline)) continue;
        tile->storage = TILE_IN_REGISTERS;
        tile->why = NULL;
        tile->is_double_buffered = false;
        tile->is_of_lanes = tile->has_layout = true;
        tile->layout = layout_new(1, &(int){ LANE_ROWS_HELD });
        layout_add(&tile->layout, IN_REGISTER, LINES_HELD, 0, 8 * 4);
        layout_add(&tile->layout, IN_LANE, 4, REPLICATED, 0);
        layout_add(&tile->layout, IN_LANE, 8, 0, 1);
        layout_add(&tile->layout, IN_WARP, 4, 0, 8);
    }
}

static bool has_lanes_rows(Lowering *lo, const TileOp *pipeline)
{
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        if (tile->is_of_lanes && is_within(lo, tile->declared, pipeline)) return true;
    }
    return false;
}

static bool find_in_pipeline(Lowering *lo, TileOp *op, void *context)
{
    Conversions all;
    (void)context;
    if (op->kind != T_PIPELINE || !op_info(lo, op)->has_row_indices || !plan_register_prefetch(lo, op, &all))
        return op->kind == T_FORALL;
    lo->has_register_prefetch = true;
    bool is_chain = false;
    each_op(lo, op->pipeline.body, see_link, &is_chain);
    each_op(lo, op->pipeline.body, mark_converted, &is_chain);
    if (is_chain && may_be_in_lanes(lo, op, &all)) keep_in_lanes(lo, op);
    if (all.tails == all.n && all.copies == all.n) each_op(lo, op->pipeline.body, mark_tail, NULL);
    return false;
}

void find_register_prefetches(Lowering *lo) { each_op(lo, lo->kernel->body, find_in_pipeline, NULL); }

const PrefetchedRows *prefetched_rows_of(Lowering *lo, TileOp *pipeline)
{
    Conversions all;
    if (!plan_register_prefetch(lo, pipeline, &all)) return NULL;
    const int units = set_units(&all.rows);
    const int lines = all.rows.lines / (tile_of_rows(lo, &all.rows)->is_exchanged ? lo->cluster : 1);
    PrefetchedRows *const plan = NEW(lo->arena, PrefetchedRows, .pipeline = pipeline, .rows = all.rows, .units = units,
                                     .chunks = all.rows.units / units, .held = LINES_HELD, .alternates = lines == 1,
                                     .in_lanes = has_lanes_rows(lo, pipeline));
    if (!all.tails || !op_info(lo, all.op->next)->is_tail) return plan;
    plan->tail = all.tail;
    plan->tail_bytes = all.tail_bytes > 0 ? all.tail_bytes : 0;
    return plan;
}
