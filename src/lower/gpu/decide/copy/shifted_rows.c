// SPDX-License-Identifier: MIT
// shifted_rows.c - rows that begin at any element: the producer's threads copy them, by the words that they lie in.
//
// A slice may begin, or a row end, within a piece of 16 bytes; then no box can be made. cp.async brings the pieces that a row
// lies in to where the row will be in its slot, a step ahead where there are slots for it, and the piece after them, which the
// slot has no room for, is loaded by the lane that shifts the row there by 16 bytes at a time. Each warp copies, shifts and
// arrives for its own rows, so that warps wait for their own copies alone. Copies whose own rows are aligned in this launch stay
// boxes beside them. CTAs of a cluster copy the rows each for itself.
//
// before: the producer moves elements (use_elements)       after: a ShiftedRows says what printing must know
#include "lower/gpu/decide/copy/rows.h"
#include "lower/gpu/facts/box.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/facts/registers.h"
#include "lower/gpu/facts/slices.h"

enum {
    PRODUCER_WARPS = WARPGROUP_THREADS / WARP_LANES,
    PANEL_ROW = 128,
    PIECES_OF_LANE = 8, // at most, that a lane shifts at a time
    LEAST_BLOCK = 8,    // rows that a warp shifts at a time, where the number of rows is free
    AHEAD_BUFFERS = 3 // a slot is filled before the one before it is handed over, and consumers hold one a step longer
};

// The step before must know where they are.
static bool is_known_before(const TileOp *pipeline, const Box *box)
{
    for (int d = 0; d < box->tensor->rank; d++) {
        const Range from = expr_range(box->start[d]);
        if (!from.has_lo || from.lo < 0 || expr_any(box->start[d], is_made_inside, (void *)pipeline)) return false;
    }
    return true;
}

// Of each warp, but that the last ones may have fewer, or none: as many as are copied together, or eight, divide.
static int rows_of_warp(int rows, int at_once)
{
    const int each = (rows + PRODUCER_WARPS - 1) / PRODUCER_WARPS, unit = at_once < LEAST_BLOCK ? LEAST_BLOCK : at_once;
    return rows % PRODUCER_WARPS == 0 && each % at_once == 0 ? each : (each + unit - 1) / unit * unit;
}

// Rows of 16 bytes or more, of which the lanes of a warp copy some at a time, and shift some at a time.
static bool lay_pieces(ShiftedCopy *copy)
{
    const int size = dtype_bits(copy->tensor->type) / 8, bytes = copy->columns * size, pieces = bytes / PIECE_BYTES;
    const int line = bytes < PANEL_ROW ? bytes : PANEL_ROW;
    if (size > 4 || pieces == 0 || pieces > WARP_LANES || (bytes & (bytes - 1)) != 0 ||
        copy->tile->shared.swizzle_bytes != line)
        return false;
    copy->of_warp = rows_of_warp(copy->rows, WARP_LANES / pieces);
    copy->shares = pieces > PIECES_OF_LANE ? pieces / PIECES_OF_LANE : 1;
    while (copy->of_warp % (WARP_LANES / copy->shares) != 0) copy->shares *= 2;
    copy->tail_words = PIECE_BYTES / 4 * copy->of_warp * copy->shares / WARP_LANES;
    return copy->shares <= pieces;
}

// The one dimension of rows.
static bool find_along(const Box *box, ShiftedCopy *copy)
{
    const int last = box->tensor->rank - 1;
    copy->along = -1;
    for (int d = 0; d < last; d++) {
        if (box->width[d] == 1) continue;
        if (copy->along >= 0) return false;
        copy->along = d;
    }
    if (copy->along < 0) return false;
    copy->rows = (int)box->width[copy->along];
    copy->columns = (int)box->width[last];
    return true;
}

static bool is_filled_alone(const TileInfo *tile)
{
    return tile && tile->ring && !tile->ring->by_lanes && !tile->ring->is_filled && tile->buffer->rank == 2 &&
           tile->wants_panels;
}

static bool plan_shifted(Lowering *lo, const TileOp *pipeline, TileOp *op, ShiftedCopy *copy)
{
    Box box;
    Expr *first;
    if (op->kind != T_COPY || !is_fetch(lo, op) || op_info(lo, op)->im2col || op_info(lo, op)->fills) return false;
    const TileInfo *const tile = tile_info(lo, op->copy.dst.buffer);
    if (!is_filled_alone(tile) || !is_rows_of_tile(&op->copy.dst, &first) || first ||
        !find_box(lo, &op->copy.src, &box) || box.cut >= 0 || box_has_steps(&box) || box.tensor->kind != BUFFER_TENSOR)
        return false;
    *copy = (ShiftedCopy){ .form = PLAN_SHIFTED_ROWS, .op = op, .tile = tile, .tensor = box.tensor };
    memcpy(copy->start, box.start, sizeof copy->start);
    copy->aligned = copy_is_aligned(lo, op);
    return copy->aligned && find_along(&box, copy) && is_known_before(pipeline, &box) && lay_pieces(copy);
}

static ShiftedRows *plan_shifted_rows(Lowering *lo, const TileOp *pipeline)
{
    ShiftedRows *const rows = NEW(lo->arena, ShiftedRows, .form = STEPS_OF_SHIFTED_ROWS, .pipeline = pipeline);
    for (TileOp *op = pipeline->pipeline.body; op && rows->n < SHIFTED_MAX; op = op->next)
        if (plan_shifted(lo, pipeline, op, &rows->copies[rows->n])) {
            rows->copies[rows->n].index = rows->n;
            rows->n++;
        }
    return rows->n > 0 ? rows : NULL;
}

static bool find_in_pipeline(Lowering *lo, TileOp *op, void *context)
{
    *(bool *)context |= op->kind == T_PIPELINE && plan_shifted_rows(lo, op);
    return op->kind == T_FORALL;
}

// A product that holds operands in registers.
static bool find_holder(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind == T_MATMUL) *(bool *)context |= !is_wgmma(lo, op) || op_info(lo, op)->product->a_in_registers;
    return op->kind == T_FORALL;
}

// Where consumers hold sums alone, the producer has the registers.
bool may_shift_rows(Lowering *lo)
{
    bool any = false, holds = false;
    each_op(lo, lo->kernel->body, find_holder, &holds);
    if (is_whole_group(lo) && !holds) each_op(lo, lo->kernel->body, find_in_pipeline, &any);
    return any && can_shift_rows(lo);
}

// To one next slot, of rings that advance together with the pipeline.
static bool may_fetch_ahead(const ShiftedRows *rows)
{
    const RingState *const state = rows->copies[0].tile->ring->ring_state;
    for (int i = 1; i < rows->n; i++)
        if (rows->copies[i].tile->ring->ring_state != state) return false;
    return state->block == rows->pipeline->pipeline.body && state->buffers >= AHEAD_BUFFERS;
}

const ShiftedRows *find_shifted_rows(Lowering *lo, const TileOp *pipeline)
{
    ShiftedRows *const rows = lo->may_shift_rows ? plan_shifted_rows(lo, pipeline) : NULL;
    if (rows) rows->ahead = may_fetch_ahead(rows);
    return rows;
}

const ShiftedCopy *shifted_copy_of(const Lowering *lo, const TileOp *op)
{
    for (int i = 0; lo->shifted_rows && i < lo->shifted_rows->n; i++)
        if (lo->shifted_rows->copies[i].op == op) return &lo->shifted_rows->copies[i];
    return NULL;
}
