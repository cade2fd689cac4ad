// SPDX-License-Identifier: MIT
// live.c - how many registers of a thread hold values of fragments at one time, at the least.
//
// A fragment is live from its first use to its last; one that is declared outside of a loop and used in it, in all of
// the loop; in a software pipeline, what its steps declare is live in all of the loop, too. Where one fragment ends and
// another begins (weights that are packed), ptxas uses the same registers.
//
// before: fragments have layouts, the roles are known       after: nothing is changed
#include "lower/gpu/decide/pipeline/pipeline.h"
#include "lower/gpu/decide/memory/register_limits.h"
#include "lower/gpu/facts/registers.h"
#include "lower/gpu/facts/info.h"

typedef struct Interval {
    int first, last; // orders of operations
} Interval;

typedef struct LoopEnd {
    const TileOp *loop;
    int last; // order
} LoopEnd;

typedef struct Uses {
    Lowering *lo;
    TileOp *op;
    Interval *of; // by buffer
    VEC(const TileOp *) piped;
    VEC(LoopEnd) ends; // of loops that were asked about
} Uses;

static bool is_loop(const TileOp *op) { return op->kind == T_FOR || op->kind == T_WHILE || op->kind == T_PIPELINE; }

static bool see_order(Lowering *lo, TileOp *op, void *context)
{
    const int order = op_info(lo, op)->order;
    if (order > *(int *)context) *(int *)context = order;
    return op->kind == T_FORALL;
}

static int last_of(Uses *uses, TileOp *loop)
{
    for (int i = 0; i < uses->ends.count; i++)
        if (uses->ends.items[i].loop == loop) return uses->ends.items[i].last;
    int last = 0;
    visit_op(uses->lo, loop, see_order, &last);
    VEC_PUSH(uses->lo->arena, &uses->ends, ((LoopEnd){ loop, last }));
    return last;
}

static void widen(Interval *of, int first, int last)
{
    of->first = first < of->first ? first : of->first;
    of->last = last > of->last ? last : of->last;
}

static bool is_piped(const Uses *uses, const TileOp *loop)
{
    for (int i = 0; i < uses->piped.count; i++)
        if (uses->piped.items[i] == loop) return true;
    return false;
}

static bool see_pipeline(Lowering *lo, TileOp *op, void *context)
{
    Uses *const uses = context;
    if (op->kind == T_PIPELINE && can_software_pipeline(lo, op)) VEC_PUSH(lo->arena, &uses->piped, op);
    return op->kind == T_FORALL;
}

static void see_use(const TileUse *use, void *context)
{
    Uses *const uses = context;
    Lowering *const lo = uses->lo;
    const TileInfo *const tile = tile_info(lo, buffer_root(use->buffer));
    if (!tile || !tile_words(tile)) return;
    Interval *const of = &uses->of[tile->buffer->id];
    const int order = op_info(lo, uses->op)->order;
    widen(of, order, order);
    for (TileOp *loop = op_info(lo, uses->op)->parent; loop; loop = op_info(lo, loop)->parent) {
        if (!is_loop(loop)) continue;
        if (!is_piped(uses, loop) && is_within(lo, tile->declared, loop)) continue;
        widen(of, op_info(lo, loop)->order, last_of(uses, loop));
    }
}

static bool see_op(Lowering *lo, TileOp *op, void *context)
{
    Uses *const uses = context;
    if (op->kind == T_TILE) return false;
    uses->op = op;
    if (op->kind == T_FORALL) each_use(lo, op, see_use, uses);
    else tile_uses(op, see_use, uses);
    return op->kind == T_FORALL;
}

typedef struct Most {
    const Interval *of;
    int group;
    bool sums_only;
    LiveWords words;
} Most;

static bool see_point(Lowering *lo, TileOp *op, void *context)
{
    Most *const most = context;
    const int at = op_info(lo, op)->order;
    int through = 0, ending = 0, beginning = 0;
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        const Interval *const of = &most->of[tile->buffer->id];
        const bool counts = is_of_group(tile, most->group) && (tile->is_accumulator || !most->sums_only);
        const int words = counts ? tile_words(tile) : 0;
        if (of->first < at && of->last > at) through += words;
        else if (of->first == at && of->last > at) beginning += words;
        else if (of->last == at) ending += words;
    }
    const int both = beginning + ending, either = beginning > ending ? beginning : ending;
    const int words = through + (op->kind == T_MATMUL ? both : either);
    LiveWords *const all = &most->words;
    if (words > all->words) {
        all->words = words;
        all->at = op;
    }
    if (op->kind == T_MATMUL && words > all->product_words) {
        all->product_words = words;
        all->product = op;
    }
    return op->kind == T_FORALL;
}

LiveWords live_words(Lowering *lo, int group, bool sums_only)
{
    Interval *const of = NEW_ARRAY(lo->arena, Interval, lo->kernel->n_buffers + 1);
    for (int i = 0; i < lo->kernel->n_buffers; i++) of[i] = (Interval){ INT32_MAX, -1 };
    Uses uses = { .lo = lo, .of = of };
    each_op(lo, lo->kernel->body, see_pipeline, &uses);
    each_op(lo, lo->kernel->body, see_op, &uses);
    Most most = { .of = of, .group = group, .sums_only = sums_only, .words = { .of = of } };
    each_op(lo, lo->kernel->body, see_point, &most);
    return most.words;
}

bool is_live(Lowering *lo, const LiveWords *live, const TileInfo *tile, const TileOp *op)
{
    const Interval *const of = &live->of[tile->buffer->id];
    const int at = op_info(lo, op)->order;
    return of->first <= at && of->last >= at;
}
