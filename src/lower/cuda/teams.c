// SPDX-License-Identifier: MIT
// teams.c - statements placed on warp groups by `on`.
//
// A kernel with placed statements is printed once per warp group: the walk of a group holds the statements that run on
// it, so that each group's products stay in flight along its own straight code. A fragment that placed statements of
// one group use lives in the registers of that group; one that several groups use and a placed statement writes lives
// in shared memory; all other fragments are there once per group, and what computes them is done by every group. A
// statement without fragments and without a place is divided among all threads. Scalars are every group's.
#include "lower/cuda/cuda.h"

static uint32_t all_groups(const Lowering *lo) { return (1u << lo->all.groups) - 1; }

bool is_single(uint32_t mask) { return mask && !(mask & (mask - 1)); }

static bool is_placed(Lowering *lo, TileOp *op)
{
    return is_single(op->groups & all_groups(lo)) && (op->groups & all_groups(lo)) != all_groups(lo);
}

void find_teams(Lowering *lo)
{
    lo->all = lo->crew;
    if (lo->all.groups > 1 && !lo->kernel->checked) // checked.c: all groups do everything together
        lo->has_teams = block_has(lo, lo->kernel->body, is_placed);
    if (lo->has_teams) lo->crew.groups = 1; // of every fragment and every placed statement
}

// ---- fragments

typedef struct Placing {
    Lowering *lo;
    TileOp *op;
    uint32_t groups;
} Placing;

static void place_use(const TileUse *use, void *context)
{
    const Placing *const placing = context;
    TileInfo *const tile = tile_info(placing->lo, buffer_root(use->buffer));
    if (!tile || !placing->groups) return;
    tile->team |= placing->groups;
    tile->placed_write |= use->writes || use->atomic;
}

static bool place_op(Lowering *lo, TileOp *op, void *context)
{
    Placing placing = { lo, op, op->groups & all_groups(lo) };
    if (op->kind != T_TILE) tile_uses(op, place_use, &placing);
    return false;
}

// before: fragments in registers       after: those that several groups share are in shared memory
void place_fragments(Lowering *lo)
{
    if (!lo->has_teams) return;
    each_op(lo, lo->kernel->body, place_op, NULL);
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        if (tile->home != HOME_REGISTERS) {
            tile->team = 0;
        } else if (!is_single(tile->team)) {
            if (tile->team && tile->placed_write) {
                tile->home = HOME_SHARED;
                tile->why = "several warp groups use it";
            }
            tile->team = 0; // a copy for every group
        }
    }
}

// ---- statements

typedef struct Team {
    Lowering *lo;
    uint32_t mask;
    bool fragments, conflict, writes_copy;
    TileInfo *last;
} Team;

static void team_use(const TileUse *use, void *context)
{
    Team *const team = context;
    TileInfo *const tile = tile_info(team->lo, buffer_root(use->buffer));
    if (!tile || tile->home != HOME_REGISTERS) return;
    team->fragments = true;
    if (!tile->team) {
        team->writes_copy |= use->writes || use->atomic;
        return;
    }
    team->conflict |= team->mask && team->mask != tile->team;
    team->mask = tile->team;
    team->last = tile;
}

static Team team_of(Lowering *lo, TileOp *op)
{
    Team team = { .lo = lo };
    each_use(lo, op, team_use, &team);
    return team;
}

static bool settle_op(Lowering *lo, TileOp *op, void *context)
{
    bool *const changed = context;
    if (!is_map(op) && op->kind != T_MATMUL) return false;
    const Team team = team_of(lo, op);
    // An unplaced statement between two groups' fragments, or from one group's to a copy that every group has.
    if (team.conflict || (team.writes_copy && team.mask)) {
        team.last->home = HOME_SHARED;
        team.last->why = "several warp groups use it";
        team.last->team = 0;
        *changed = true;
    }
    return true;
}

void settle_teams(Lowering *lo)
{
    for (bool changed = lo->has_teams; changed;) {
        changed = false;
        each_op(lo, lo->kernel->body, settle_op, &changed);
    }
}

bool uses_fragments(Lowering *lo, TileOp *op) { return team_of(lo, op).fragments; }

uint32_t op_groups(Lowering *lo, TileOp *op)
{
    const uint32_t all = all_groups(lo), placed = op->groups & all;
    if (!lo->has_teams) return all;
    switch (op->kind) {
    case T_FORALL:
    case T_COPY:
    case T_FILL:
    case T_ATOMIC_TILE:
    case T_MATMUL: {
        const Team team = team_of(lo, op);
        return team.mask ? team.mask : is_single(placed) ? placed : all;
    }
    case T_SCAN: return is_single(placed) ? placed : all;
    case T_STORE:
    case T_PRINT:
    case T_EXTERN: return is_single(placed) ? placed : 1;
    case T_ATOMIC: // ordered after what all groups did: they meet around it
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
Crew map_crew(Lowering *lo, TileOp *map)
{
    const bool placed = is_single(map->groups & all_groups(lo));
    return lo->has_teams && !placed && !uses_fragments(lo, map) ? lo->all : lo->crew;
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
    if (lo->has_teams) each_op(lo, lo->kernel->body, see_product, &with_products);
    return with_products ? all_groups(lo) & ~with_products : 0;
}
