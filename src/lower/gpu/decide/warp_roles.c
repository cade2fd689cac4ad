// SPDX-License-Identifier: MIT
// warp_roles.c - statements placed on warp groups by `on`.
//
// A kernel with placed statements is printed once per warp group: the walk of a group holds the statements that run on
// it, so that each group's products stay in flight along its own straight code. A fragment that placed statements of
// one group use lives in the registers of that group; one that several groups use and a placed statement writes lives
// in shared memory; all other fragments are there once per group, and what computes them is done by every group. A
// statement without fragments and without a place is divided among all threads. Scalars are every group's.
#include "lower/gpu/facts/elementwise.h"

static uint32_t all_groups(const Lowering *lo) { return (1u << lo->all.groups) - 1; }

bool is_single(uint32_t mask) { return mask && !(mask & (mask - 1)); }

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

typedef struct FragmentGroups {
    Lowering *lo;
    uint32_t mask;
    bool fragments, conflict, writes_copy;
    TileInfo *last;
} FragmentGroups;

static void fragment_use(const TileUse *use, void *context)
{
    FragmentGroups *const found = context;
    TileInfo *const tile = tile_info(found->lo, buffer_root(use->buffer));
    if (!tile || tile->storage != TILE_IN_REGISTERS) return;
    found->fragments = true;
    if (!tile->groups) {
        found->writes_copy |= use->writes || use->atomic;
        return;
    }
    found->conflict |= found->mask && found->mask != tile->groups;
    found->mask = tile->groups;
    found->last = tile;
}

static FragmentGroups fragment_groups(Lowering *lo, TileOp *op)
{
    FragmentGroups found = { .lo = lo };
    each_use(lo, op, fragment_use, &found);
    return found;
}

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

bool uses_fragments(Lowering *lo, TileOp *op) { return fragment_groups(lo, op).fragments; }

uint32_t op_groups(Lowering *lo, TileOp *op)
{
    const uint32_t all = all_groups(lo), placed = op->groups & all;
    if (!lo->is_specialised) return all;
    switch (op->kind) {
    case T_FORALL:
    case T_COPY:
    case T_FILL:
    case T_ATOMIC_TILE:
    case T_MATMUL: {
        const FragmentGroups found = fragment_groups(lo, op);
        return found.mask ? found.mask : is_single(placed) ? placed : all;
    }
    case T_SCAN: return is_single(placed) ? placed : all;
    case T_STORE:
    case T_PRINT:
    case T_EXTERN: return is_single(placed) ? placed : 1;
    case T_ATOMIC: // ordered after what all groups did: they synchronise around it
        return all;
    case T_UPDATE: return op->update.var ? all : is_single(placed) ? placed : 1;
    case T_TILE:
    case T_LET:
    case T_SET:
    case T_FOR:
    case T_WHILE:
    case T_PIPELINE:
    case T_IF:
    case T_BREAK:
    case T_CONTINUE:
    case T_RETURN:
    case T_ASSERT: return all;
    }
    return all;
}

// What the iterations of a map are divided among.
Partition map_partition(Lowering *lo, TileOp *map)
{
    const bool placed = is_single(map->groups & all_groups(lo));
    return lo->is_specialised && !placed && !uses_fragments(lo, map) ? lo->all : lo->partition;
}

// ---- registers

static bool see_product(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind == T_MATMUL) *(uint32_t *)context |= op_groups(lo, op);
    return op->kind == T_FORALL;
}

// Groups without products: they move and convert, and leave registers to the others.
uint32_t light_groups(Lowering *lo)
{
    uint32_t with_products = 0;
    if (lo->is_specialised) each_op(lo, lo->kernel->body, see_product, &with_products);
    return with_products ? all_groups(lo) & ~with_products : 0;
}
