// SPDX-License-Identifier: MIT
// shifted_rows.c - rows that begin at any element: the producer's threads copy them, by the words that they lie in.
//
// A slice may begin, or a row end, within a piece of 16 bytes; then no box can be made. Lanes load words that lie side by
// side, each with the word after it, of which a word of the tile is shifted together. So many rounds of rows stay loaded: what
// a step stores is loaded anew with what comes next, at last with the next step's, if that is inside the tensor as a whole.
// Each warp arrives for its own rows. Copies whose own rows are aligned in this launch stay boxes beside them. CTAs of a
// cluster copy the rows each for itself.
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
    HELD_WORDS = 64, // pairs of words of a thread, for all copies of a step
    FEW_HELD_WORDS = 32
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

// Rows of 16 bytes or more, in panels as wide as what a warp reads of a row at a time.
static bool lay_words(ShiftedCopy *copy)
{
    const int size = dtype_bits(copy->tensor->type) / 8, words = copy->columns * size / 4;
    const int lanes = words < WARP_LANES ? words : WARP_LANES;
    if (size > 4 || lanes < 4 || (words & (words - 1)) != 0 || copy->tile->shared.swizzle_bytes != lanes * 4)
        return false;
    const int rows_at_once = PRODUCER_WARPS * WARP_LANES / lanes;
    copy->parts = words / lanes;
    copy->rounds = copy->rows / rows_at_once;
    return copy->rounds > 0 && copy->rounds * rows_at_once == copy->rows;
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
    return copy->aligned && find_along(&box, copy) && is_known_before(pipeline, &box) && lay_words(copy);
}

static int held_words(const ShiftedCopy *copy) { return copy->held * copy->parts; }

// What is too much is loaded in parts, of the largest first.
static bool share_registers(ShiftedRows *rows, int words)
{
    int all = 0;
    for (int i = 0; i < rows->n; i++) {
        rows->copies[i].held = rows->copies[i].rounds;
        all += held_words(&rows->copies[i]);
    }
    while (all > words) {
        ShiftedCopy *most = &rows->copies[0];
        for (int i = 1; i < rows->n; i++)
            if (held_words(&rows->copies[i]) > held_words(most)) most = &rows->copies[i];
        if (most->held % 2 != 0) return false;
        most->held /= 2;
        all -= held_words(most);
    }
    return rows->n > 0;
}

static const ShiftedRows *plan_shifted_rows(Lowering *lo, const TileOp *pipeline)
{
    ShiftedRows *const rows = NEW(lo->arena, ShiftedRows, .form = STEPS_OF_SHIFTED_ROWS, .pipeline = pipeline);
    for (TileOp *op = pipeline->pipeline.body; op && rows->n < SHIFTED_MAX; op = op->next)
        if (plan_shifted(lo, pipeline, op, &rows->copies[rows->n])) {
            rows->copies[rows->n].index = rows->n;
            rows->n++;
        }
    const int words = lo->shifting_registers < SHIFTING_REGISTERS ? FEW_HELD_WORDS : HELD_WORDS;
    return share_registers(rows, words) ? rows : NULL;
}

typedef struct Found {
    bool any, has_parts;
} Found;

static bool find_in_pipeline(Lowering *lo, TileOp *op, void *context)
{
    Found *const found = context;
    const ShiftedRows *const rows = op->kind == T_PIPELINE ? plan_shifted_rows(lo, op) : NULL;
    found->any |= rows != NULL;
    for (int i = 0; rows && i < rows->n; i++) found->has_parts |= rows->copies[i].parts > 1;
    return op->kind == T_FORALL;
}

// A product that holds operands in registers.
static bool find_holder(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind == T_MATMUL) *(bool *)context |= !is_wgmma(lo, op) || op_info(lo, op)->product->a_in_registers;
    return op->kind == T_FORALL;
}

// Whether pipelines have rows to shift by a producer with so many registers, which consumers can spare. Addresses of several
// parts of a row take some, too: with many words ahead beside them ptxas spills.
static bool may_shift_with(Lowering *lo, int registers)
{
    Found found = { false, false };
    if (!can_shift_rows(lo, registers)) return false;
    lo->shifting_registers = registers;
    each_op(lo, lo->kernel->body, find_in_pipeline, &found);
    return found.any && (registers < SHIFTING_REGISTERS || !found.has_parts);
}

// Where consumers hold sums alone, the producer has the registers.
bool may_shift_rows(Lowering *lo)
{
    bool holds = false;
    each_op(lo, lo->kernel->body, find_holder, &holds);
    return is_whole_group(lo) && !holds &&
           (may_shift_with(lo, SHIFTING_REGISTERS) || may_shift_with(lo, FEW_SHIFTING_REGISTERS));
}

const ShiftedRows *find_shifted_rows(Lowering *lo, const TileOp *pipeline)
{
    return lo->may_shift_rows ? plan_shifted_rows(lo, pipeline) : NULL;
}

const ShiftedCopy *shifted_copy_of(const Lowering *lo, const TileOp *op)
{
    for (int i = 0; lo->shifted_rows && i < lo->shifted_rows->n; i++)
        if (lo->shifted_rows->copies[i].op == op) return &lo->shifted_rows->copies[i];
    return NULL;
}
