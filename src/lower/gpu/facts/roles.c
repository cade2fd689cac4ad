// SPDX-License-Identifier: MIT
// roles.c - whose code is decided or printed: the producer's or a group of consumers'.
#include "lower/gpu/facts/roles.h"
#include "lower/gpu/facts/box.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/partition.h"
#include "lower/gpu/facts/values.h"

static bool add_alignment(Lowering *lo, TileOp *op, void *context)
{
    Expr **const test = context;
    const OpInfo *const info = op->kind == T_TILE ? NULL : op_info(lo, op);
    if (!info || !info->fetched || info->fills || copy_is_small(lo, op)) return false;
    Box box = { .tensor = op->copy.src.buffer };
    if (!info->im2col && !find_box(lo, &op->copy.src, &box)) return false;
    Expr *const one = copy_is_aligned(lo, op), *const rows = strides_are_aligned(lo, box.tensor);
    lo->begins_anywhere |= one && !(rows && expr_equal(one, rows));
    Expr *const fits = info->im2col ? im2col_fits(lo, box.tensor, info->im2col) : steps_fit(lo, &box);
    if (one && !(*test && expr_equal(*test, one))) *test = both(lo, *test, one);
    if (fits) *test = both(lo, *test, fits);
    return false;
}

// The strides that boxes need, of all tensors that are fetched, and what their maps must hold. NULL: proved.
Expr *fetch_alignment(Lowering *lo)
{
    Expr *test = NULL;
    each_op(lo, lo->kernel->body, add_alignment, &test);
    return test;
}

static bool has_lane_copies(const Lowering *lo)
{
    for (int i = 0; i < lo->rings.count; i++)
        if (lo->rings.items[i]->by_lanes) return true;
    return false;
}

// A producer group's statements take all of its threads.
int producer_issuers(const Lowering *lo)
{
    return lo->has_producer_group ? producer_threads(lo) : has_lane_copies(lo) ? lo->gpu->warp_lanes : 1;
}

// The producer is a partition of its own, of one group.
static void enter_producer(Lowering *lo)
{
    lo->role = ROLE_PRODUCER;
    lo->by_tma = true;
    lo->by_warp = has_lane_copies(lo) && !lo->has_producer_group;
    lo->partition = (Partition){ 1, lo->outside.partition.warps };
    if (!lo->has_producer_group) return;
    lo->all = lo->partition;
    lo->is_specialised = false;
}

void enter_role(Lowering *lo, const ScheduleRole *role)
{
    lo->outside.partition = lo->partition;
    lo->outside.all = lo->all;
    lo->outside.is_specialised = lo->is_specialised;
    if (role->kind == ROLE_OF_PRODUCER) {
        enter_producer(lo);
        return;
    }
    lo->role = ROLE_CONSUMER;
    lo->walk = role->group < 0 ? 0 : role->group;
}

void use_elements(Lowering *lo)
{
    lo->by_tma = false;
    lo->partition = lo->all = (Partition){ 1, lo->outside.partition.warps == 4 ? 4 : 1 };
    lo->is_specialised = false;
}

bool moves_elements(const Lowering *lo) { return lo->role == ROLE_PRODUCER && !lo->by_tma && !lo->has_producer_group; }

void leave_role(Lowering *lo)
{
    lo->partition = lo->outside.partition;
    lo->all = lo->outside.all;
    lo->is_specialised = lo->outside.is_specialised;
    lo->role = ROLE_CONSUMER;
    lo->walk = 0;
    lo->by_tma = lo->by_warp = false;
}
