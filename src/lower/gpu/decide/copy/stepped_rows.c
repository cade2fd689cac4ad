// SPDX-License-Identifier: MIT
// stepped_rows.c - rows that TMA walks, where the launch's numbers do not allow that: the producer's threads copy them, each
// a few whole rows, whose addresses they compute once before the pipeline.
//
//     a[i][j] = X[p / OW / OH][p / OW % OH * stride - pad + kh*dilation][..][c*64 + j]      with p = m*128 + i
//
// A subscript is the sum of what the row gives and what the step gives. So a row's place is the sum of two numbers, of which
// the second is the same for all rows: a step divides nothing, and tests and adds a few numbers for each row. The first
// pieces of the next step's rows are loaded before this step is handed over, so that they are on their way while the
// producer waits for a buffer.
//
// before: the producer moves elements (use_elements)       after: a SteppedRows says what printing must know
#include "lower/gpu/decide/copy/rows.h"
#include "lower/gpu/decide/copy/delinearize.h"
#include "lower/gpu/facts/im2col.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/registers.h"
#include "lower/gpu/facts/slices.h"

enum { HELD_MAX = 16 }; // registers of what is loaded ahead

// ---- what the row gives, and what the step gives

typedef struct Inside {
    Lowering *lo;
    const TileOp *pipeline;
} Inside;

static bool is_index_of(const TileOp *pipeline, const Var *var)
{
    for (int i = 0; i < pipeline->pipeline.n; i++)
        if (pipeline->pipeline.indices[i].var == var) return true;
    return false;
}

bool is_made_inside(const Expr *x, void *pipeline)
{
    if (x->kind == E_LOAD) return true;
    if (x->kind != E_VAR || x->var.var->kind != VAR_LOCAL) return false;
    if (x->var.var->assigned) return true;
    for (const TileOp *op = ((const TileOp *)pipeline)->pipeline.body; op; op = op->next)
        if (op->kind == T_LET && op->let.var == x->var.var) return true;
    return false;
}

static bool moves_with_step(const Expr *x, void *context)
{
    const Inside *const inside = context;
    return (x->kind == E_VAR && is_index_of(inside->pipeline, x->var.var)) ||
           is_made_inside(x, (void *)inside->pipeline);
}

static bool divide_subscript(const Inside *inside, SteppedRows *rows, int d, Expr *sub)
{
    Arena *const a = inside->lo->arena;
    Terms terms = { 0 };
    if (!add_terms(&terms, sub, false)) return false;
    for (int i = 0; i < terms.n; i++) {
        const bool of_row = expr_uses(terms.list[i].x, rows->row);
        Expr **const part = of_row ? &rows->of_row[d] : &rows->of_step[d];
        if (of_row ? expr_any(terms.list[i].x, moves_with_step, (void *)inside)
                   : expr_any(terms.list[i].x, is_made_inside, (void *)inside->pipeline))
            return false;
        *part = add_term(a, *part ? *part : int_const(a, 0), &terms.list[i]);
    }
    return true;
}

static bool divide_subscripts(const Inside *inside, SteppedRows *rows, const TileOp *op, Expr *const *subs)
{
    const int last = rows->tensor->rank - 1;
    Expr *const column = rows->of_step[last] = op->copy.src.subs[last].start;
    const Range from = expr_range(column);
    for (int d = 0; d < last; d++)
        if (!divide_subscript(inside, rows, d, subs[d])) return false;
    return from.has_lo && from.lo >= 0 && !expr_any(column, is_made_inside, (void *)inside->pipeline);
}

// ---- among the threads

// Whole rows of a thread lie in different banks of a swizzled tile; of fewer rows than threads several have one.
static bool lay_lines(SteppedRows *rows)
{
    const int size = dtype_bits(rows->tensor->type) / 8;
    rows->piece = size == 4 ? 4 : STEPPED_ELEMENTS;
    rows->across = rows->rows < WARPGROUP_THREADS ? WARPGROUP_THREADS / rows->rows : 1;
    rows->lines = (rows->rows + WARPGROUP_THREADS - 1) / WARPGROUP_THREADS;
    const int elements = rows->across * rows->piece;
    rows->units = rows->columns / elements;
    return size <= 4 && rows->rows * rows->across == rows->lines * WARPGROUP_THREADS && rows->rows % WARP_LANES == 0 &&
           rows->columns % elements == 0 && rows->lines <= STEPPED_LINES && stepped_registers(rows) <= HELD_MAX;
}

// Bounds by an index of the same loops would move with the others.
static bool bounds_are_fixed(const Inside *inside)
{
    for (int i = 0; i < inside->pipeline->pipeline.n; i++) {
        const LoopIndex *const index = &inside->pipeline->pipeline.indices[i];
        if (expr_any(index->lo, moves_with_step, (void *)inside) ||
            expr_any(index->hi, moves_with_step, (void *)inside))
            return false;
    }
    return true;
}

static bool plan_steps(Lowering *lo, const TileOp *pipeline, const TileOp *op, SteppedRows *rows)
{
    const Im2col *const im2col = op->kind == T_COPY && is_fetch(lo, op) ? op_info(lo, op)->im2col : NULL;
    const Inside inside = { lo, pipeline };
    if (!im2col) return false;
    *rows = (SteppedRows){ .form = STEPS_OF_STEPPED_ROWS,
                           .pipeline = pipeline,
                           .op = op,
                           .tile = tile_info(lo, op->copy.dst.buffer),
                           .tensor = op->copy.src.buffer,
                           .row = im2col->row,
                           .column = im2col->column,
                           .rows = im2col->rows,
                           .columns = im2col->columns };
    return lay_lines(rows) && bounds_are_fixed(&inside) && divide_subscripts(&inside, rows, op, im2col->subs);
}

bool is_whole_group(const Lowering *lo) { return !lo->has_producer_group && lo->partition.warps == 4; }

// Of the first such copy of a step; NULL: none.
const SteppedRows *find_stepped_rows(Lowering *lo, const TileOp *pipeline)
{
    SteppedRows *const rows = NEW(lo->arena, SteppedRows);
    const int registers = producer_registers(lo);
    if (!is_whole_group(lo) || lo->shares || (registers && registers < STEPPING_REGISTERS)) return NULL;
    for (const TileOp *op = pipeline->pipeline.body; op; op = op->next)
        if (plan_steps(lo, pipeline, op, rows)) return rows;
    return NULL;
}

const SteppedCopy *plan_stepped_copy(Lowering *lo, const SteppedRows *rows)
{
    return NEW(lo->arena, SteppedCopy, .form = PLAN_STEPPED_ROWS, .rows = rows);
}
