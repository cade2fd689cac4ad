// SPDX-License-Identifier: MIT
// warp_roles.c - statements placed on warp groups by `on`.
//
// A kernel with placed statements is printed once per warp group: the walk of a group holds the statements that run on
// it, so that each group's products stay in flight along its own straight code. A fragment that placed statements of
// one group use lives in the registers of that group; one that several groups use and a placed statement writes lives
// in shared memory; all other fragments are there once per group, and what computes them is done by every group. A
// statement without fragments and without a place is divided among all threads. Scalars are every group's.
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/groups.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/decide/layout/warp_roles.h"
#include "lower/gpu/facts/info.h"

static bool is_placed(Lowering *lo, TileOp *op)
{
    return is_single(op->groups & all_groups(lo)) && (op->groups & all_groups(lo)) != all_groups(lo);
}

void find_warp_roles(Lowering *lo)
{
    lo->all = lo->partition;
    if (lo->all.groups > 1 && !lo->kernel->checked) // checked.c: all groups do everything together
        lo->is_specialised = block_has(lo, lo->kernel->body, is_placed);
    if (lo->is_specialised) lo->partition.groups = 1; // of every fragment and every placed statement
}

// ---- fragments

typedef struct Assigning {
    Lowering *lo;
    TileOp *op;
    uint32_t groups;
} Assigning;

static void assign_use(const TileUse *use, void *context)
{
    const Assigning *const assigning = context;
    TileInfo *const tile = tile_info(assigning->lo, buffer_root(use->buffer));
    if (!tile || !assigning->groups) return;
    tile->groups |= assigning->groups;
    tile->group_writes |= use->writes || use->atomic;
}

static bool assign_op(Lowering *lo, TileOp *op, void *context)
{
    Assigning assigning = { lo, op, op->groups & all_groups(lo) };
    if (op->kind != T_TILE) tile_uses(op, assign_use, &assigning);
    return false;
}

// before: fragments in registers       after: those that several groups share are in shared memory
void assign_fragment_groups(Lowering *lo)
{
    if (!lo->is_specialised) return;
    each_op(lo, lo->kernel->body, assign_op, NULL);
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        if (tile->storage != TILE_IN_REGISTERS) {
            tile->groups = 0;
        } else if (!is_single(tile->groups)) {
            if (tile->groups && tile->group_writes) {
                tile->storage = TILE_IN_SHARED;
                tile->why = "several warp groups use it";
            }
            tile->groups = 0; // a copy for every group
        }
    }
}

// ---- statements

static bool separate_op(Lowering *lo, TileOp *op, void *context)
{
    bool *const changed = context;
    if (!is_map(op) && op->kind != T_MATMUL) return false;
    const FragmentGroups found = fragment_groups(lo, op);
    // An unplaced statement between two groups' fragments, or from one group's to a copy that every group has.
    if (found.conflict || (found.writes_copy && found.mask)) {
        found.last->storage = TILE_IN_SHARED;
        found.last->why = "several warp groups use it";
        found.last->groups = 0;
        *changed = true;
    }
    return true;
}

void finish_warp_roles(Lowering *lo)
{
    for (bool changed = lo->is_specialised; changed;) {
        changed = false;
        each_op(lo, lo->kernel->body, separate_op, &changed);
    }
}
