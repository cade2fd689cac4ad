// SPDX-License-Identifier: MIT
// gather.c - rows that are copied as they lie, and rows that are prefetched.
//
// Copies go by cp.async: no register stands in between, and all of a row are in flight. Where a producer group does
// nothing but copy, a step's rows are *looked up* while its tiles are waited for: their numbers are read and their
// addresses made, once for all tiles that take parts of the same rows, so that after the wait there are the copies
// alone.
//
// before: the tile's buffer is free      after: copies are in flight, until a full barrier counts them or
//         wait_for_copies(); print_gather.c prints them
#include "lower/gpu/decide/copy/rows.h"
#include "lower/gpu/facts/ring_counts.h"
#include "lower/gpu/facts/info.h"

enum { LOOKED_UP_MAX = 8 }; // lines of all that are looked up together: a pointer of each is kept

// ---- looked up

static bool see_other_place(const Expr *x, void *context)
{
    const TileInfo *const tile = x->kind == E_LOAD ? tile_info(context, buffer_root(x->load.buffer)) : NULL;
    return tile && !tile->is_double_buffered;
}

static bool may_look_up(Lowering *lo, TileOp *op, Rows *rows)
{
    return op_info(lo, op)->fills && spread_rows(lo, op, rows) && rows->is_copy && rows->lines <= LOOKED_UP_MAX &&
           !expr_any(rows->store->store.value, see_other_place, lo);
}

// Do both read the same rows of one tensor, b's columns a constant after a's?
static bool reads_same_rows(Lowering *lo, const Rows *a, const Rows *b, int64_t *shift)
{
    const Expr *const x = a->runs[0].load, *const y = b->runs[0].load;
    if (x->load.buffer != y->load.buffer) return false;
    const LoopIndex *const from = b->forall->forall.indices, *const to = a->forall->forall.indices;
    const int last = x->load.buffer->rank - 1;
    for (int d = 0; d <= last; d++) {
        Expr *sub = y->load.subs[d];
        for (int i = 0; i < 2; i++) sub = expr_replace(lo->arena, sub, from[i].var, expr_var(lo->arena, to[i].var));
        if (d < last ? !expr_equal(sub, x->load.subs[d])
                     : !expr_as_int(int_sub(lo->arena, sub, x->load.subs[d]), shift))
            return false;
    }
    return true;
}

// A gather from `first` on whose lines are those of `rows` but for `shift` columns; NULL: none has them.
static TileOp *looked_up_before(Lowering *lo, TileOp *first, TileOp *op, const Rows *rows, int64_t *shift)
{
    for (TileOp *at = first; at != op; at = at->next) {
        Rows before;
        if (op_info(lo, at)->is_looked_up && spread_rows(lo, at, &before) && before.lines == rows->lines &&
            before.across == rows->across && reads_same_rows(lo, &before, rows, shift))
            return at;
    }
    return NULL;
}

// Whether it is another stage's, whose copies may be those of another step, or depends on a scalar made after `first`.
static bool comes_too_late(TileOp *first, TileOp *op, const Rows *rows)
{
    bool late = op->stage != first->stage;
    for (TileOp *at = first; at != op && !late; at = at->next)
        late = at->kind == T_LET && expr_uses(rows->store->store.value, at->let.var);
    return late;
}

// A warp's rows are at most its lanes. A list that is always read, all lanes read at once; under a condition they would wait
// for one row's number after the other's.
static bool is_shared(const Rows *rows)
{
    const Expr *const load = rows->runs[0].load;
    bool divides = false, loads = false;
    for (int d = 0; d < load->load.buffer->rank; d++) {
        divides |= expr_has_division(load->load.subs[d]);
        loads |= expr_loads(load->load.subs[d]);
    }
    return (loads ? row_is_chosen(load) : divides) && rows->lines <= rows->across;
}

void look_up_rows(Lowering *lo, TileOp *op)
{
    if (!only_gathers(lo) || op_info(lo, op)->is_looked_up) return;
    LookUps *const all = NEW(lo->arena, LookUps);
    int lines = 0;
    for (TileOp *at = op; at; at = at->next) {
        LookUp *const one = NEW(lo->arena, LookUp, .op = at);
        if (may_look_up(lo, at, &one->rows)) {
            if (comes_too_late(op, at, &one->rows)) break;
            one->same = looked_up_before(lo, op, at, &one->rows, &one->shift);
            one->is_shared = is_shared(&one->rows);
            lines += one->same ? 0 : one->rows.lines;
            if (lines > LOOKED_UP_MAX) break; // those from here on, before their own tile
            op_info(lo, at)->is_looked_up = true;
            VEC_PUSH(lo->arena, all, one);
        } else if (at == op) {
            return;
        }
    }
    act(lo, (Action){ .kind = ACTION_DECLARE, .declare = { .what = DECLARE_ROWS }, .print = all });
}
