// SPDX-License-Identifier: MIT
// groups.c - which warp groups run a statement, once statements are placed on groups.
#include "lower/gpu/facts/groups.h"
#include "lower/gpu/facts/info.h"

uint32_t all_groups(const Lowering *lo) { return (1u << lo->all.groups) - 1; }

bool is_single(uint32_t mask) { return mask && !(mask & (mask - 1)); }

// ---- statements

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

FragmentGroups fragment_groups(Lowering *lo, TileOp *op)
{
    FragmentGroups found = { .lo = lo };
    each_use(lo, op, fragment_use, &found);
    return found;
}

// Of fragments in registers.
static bool uses_fragments(Lowering *lo, TileOp *op) { return fragment_groups(lo, op).fragments; }

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
