// SPDX-License-Identifier: MIT
// early.c - copies to registers whose loads are all made before the first of them is finished.
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/plans/map.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/registers.h"
#include "lower/gpu/facts/info.h"

// Is where a region lies known without reading memory?
static bool is_placed(const Region *region)
{
    for (int d = 0; d < region->buffer->rank; d++)
        if (expr_loads(region->subs[d].start)) return false;
    return region->buffer->kind != BUFFER_VIEW || is_placed(&region->buffer->base);
}

// To registers, from a tensor that the kernel does not write.
static bool may_load_early(Lowering *lo, TileOp *op)
{
    const OpInfo *const info = op_info(lo, op);
    const TileInfo *const to = op->kind == T_COPY ? tile_info(lo, op->copy.dst.buffer) : NULL;
    if (!to || to->storage != TILE_IN_REGISTERS || info->fetched || info->barrier_before || lo->is_specialised ||
        lo->role != ROLE_CONSUMER)
        return false;
    const Buffer *const from = buffer_root(op->copy.src.buffer);
    return from->kind == BUFFER_TENSOR && from->access == ACCESS_IN && is_placed(&op->copy.src);
}

// Of a copy, all of whose loads can be made before it; `words` of registers are taken.
static Iteration *loads_of_copy(Lowering *lo, TileOp *op, int *words)
{
    if (!may_load_early(lo, op)) return NULL;
    Iteration *const it = NEW(lo->arena, Iteration, .vector = -1);
    TileOp *const map = as_map(lo, op);
    choose_iteration(lo, map, it);
    if (it->is_linear) return NULL;
    for (int i = 0; i < it->n; i++)
        if (it->dim_of[i] < 0) return NULL;
    choose_moves(lo, map, it);
    const int more = early_words(it);
    if (!more || *words + more > consumer_registers(lo) - fragment_words(lo)) return NULL;
    *words += more;
    return it;
}

// At the first of several copies in a row from tensors that nobody writes: the loads of all are made before it.
void act_early_loads(Lowering *lo, TileOp *first)
{
    EarlyLoads loads = { .n = 0 };
    TileOp *ops[EARLY_COPIES_MAX];
    int words = 0;
    for (TileOp *op = first; op && loads.n < EARLY_COPIES_MAX; op = op->next) {
        if (op->kind == T_TILE || op->kind == T_FILL) continue;
        if (op_info(lo, op)->loads || !(loads.its[loads.n] = loads_of_copy(lo, op, &words))) break;
        ops[loads.n++] = op;
    }
    if (loads.n < 2) return;
    for (int i = 0; i < loads.n; i++) op_info(lo, ops[i])->loads = loads.its[i];
    EarlyLoads *const plan = NEW(lo->arena, EarlyLoads);
    *plan = loads;
    act(lo, (Action){ .kind = ACTION_DECLARE, .declare = { .what = DECLARE_EARLY_LOADS }, .print = plan });
}
