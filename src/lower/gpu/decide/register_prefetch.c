// SPDX-License-Identifier: MIT
// register_prefetch.c - the rows that the next step converts, in registers before their step: a *register prefetch*.
//
// Where it is known which rows the next step converts (row_indices.c), both sets belong to the whole pipeline and hold a
// step's first line when it begins. A step that converts several lines loads each next one into the registers that it
// has just converted. With the next step's first line they are loaded as soon as this step's last is sent: the fence
// before the sending waits for all loads in flight. A copy of the same rows to the columns after the converted ones is
// their *tail*: loaded, stored and sent with them.
//
// before: it is known which tiles a cluster exchanges, and which rows a warp alone touches
// after:  find_register_prefetches() has marked the copies that are tails, and has_register_prefetch is known;
//         prefetched_rows_of() says what a pipeline has in registers
#include "lower/gpu/decide/rows.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/decide/producer_group.h"
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

static bool has_form(const Rows *a, const Rows *b)
{
    bool same = a->unit == b->unit && a->n_columns == b->n_columns && a->n_runs == b->n_runs && a->n_each == b->n_each;
    for (int i = 0; i < a->n_runs && same; i++) same = a->runs[i].load->type == b->runs[i].load->type;
    for (int i = 0; i < a->n_each && same; i++)
        same = a->each[i].by == b->each[i].by && a->each[i].load->type == b->each[i].load->type;
    return same;
}

enum { LINES_MAX = 4 }; // of a step and instance

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
    const int instances = tile_of_rows(lo, &rows)->is_exchanged ? lo->cluster : 1;
    all->fails |= !lay_rows(lo, &rows) || rows.units == 1 || rows.lines > LINES_MAX * instances;
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

static bool mark_converted(Lowering *lo, TileOp *op, void *context)
{
    Rows rows;
    (void)context;
    if (op_info(lo, op)->fills && plan_rows(lo, op, &rows))
        tile_info(lo, rows.store->store.buffer)->is_from_registers = true;
    return op->kind == T_FORALL;
}

static bool find_in_pipeline(Lowering *lo, TileOp *op, void *context)
{
    Conversions all;
    (void)context;
    if (op->kind != T_PIPELINE || !op_info(lo, op)->has_row_indices || !plan_register_prefetch(lo, op, &all))
        return op->kind == T_FORALL;
    lo->has_register_prefetch = true;
    each_op(lo, op->pipeline.body, mark_converted, NULL);
    if (all.tails == all.n && all.copies == all.n) each_op(lo, op->pipeline.body, mark_tail, NULL);
    return false;
}

void find_register_prefetches(Lowering *lo) { each_op(lo, lo->kernel->body, find_in_pipeline, NULL); }

const PrefetchedRows *prefetched_rows_of(Lowering *lo, TileOp *pipeline)
{
    Conversions all;
    if (!plan_register_prefetch(lo, pipeline, &all)) return NULL;
    const int units = set_units(&all.rows);
    PrefetchedRows *const plan = NEW(lo->arena, PrefetchedRows, .pipeline = pipeline, .rows = all.rows, .units = units,
                                     .chunks = all.rows.units / units);
    if (all.tails && op_info(lo, all.op->next)->is_tail) plan->tail = all.tail;
    return plan;
}
