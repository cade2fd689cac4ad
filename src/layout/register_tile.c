// SPDX-License-Identifier: MIT
// register_tile.c - the layout of a product by multiply-adds: every thread computes a rectangle from shared memory.
#include "layout/layout.h"

enum { LOAD_COST = 3, ROW_LANES = 4, COLUMN_LANES = 8 }; // a load of 16 bytes next to a multiply-add

typedef struct Split {
    int run, lanes, warps, groups;
} Split; // of one dimension

static bool divides(const Split *s, int extent) { return extent % (s->run * s->lanes * s->warps * s->groups) == 0; }
static int each_thread(const Split *s, int extent) { return extent / (s->lanes * s->warps * s->groups); }

// Loads of four steps of the contraction; more than eight lanes with 16 bytes each take several passes.
static int load_cost(const Split *s, int extent, bool in_runs)
{
    const int lines = each_thread(s, extent), loads = in_runs ? 4 * lines / s->run : lines;
    return LOAD_COST * loads * (s->lanes > 8 ? s->lanes / 8 : 1);
}

static RegisterTile register_tile(int rows, int columns, Partition partition, const Split *r, const Split *c)
{
    RegisterTile tile = {
        .row_run = r->run,
        .row_stride = r->run * r->lanes * r->warps,
        .row_runs = each_thread(r, rows) / r->run,
        .column_run = c->run,
        .column_stride = c->run * c->lanes * c->warps,
        .column_runs = each_thread(c, columns) / c->run,
    };
    Layout *const layout = &tile.layout;
    *layout = layout_new(2, (int[]){ rows, columns });
    layout_add(layout, IN_REGISTER, tile.column_run, 1, 1);
    layout_add(layout, IN_REGISTER, tile.row_run, 0, 1);
    layout_add(layout, IN_REGISTER, tile.column_runs, 1, tile.column_stride);
    layout_add(layout, IN_REGISTER, tile.row_runs, 0, tile.row_stride);
    layout_add(layout, IN_LANE, c->lanes, 1, c->run);
    layout_add(layout, IN_LANE, r->lanes, 0, r->run);
    layout_add(layout, IN_LANE, WARP_LANES / (r->lanes * c->lanes), REPLICATED, 0);
    layout_add(layout, IN_WARP, r->warps, 0, r->run * r->lanes);
    layout_add(layout, IN_WARP, c->warps, 1, c->run * c->lanes);
    layout_add(layout, IN_WARP, partition.warps / (r->warps * c->warps), REPLICATED, 0);
    layout_add(layout, IN_GROUP, r->groups, 0, rows / r->groups);
    layout_add(layout, IN_GROUP, c->groups, 1, columns / c->groups);
    layout_add(layout, IN_GROUP, partition.groups / (r->groups * c->groups), REPLICATED, 0);
    return tile;
}

// The cheapest split of rows and columns over lanes, warps and groups: few loads for many multiply-adds. What cannot be
// split further is computed by several threads.
bool layout_register_tile(int rows, int columns, Partition partition, int row_run, int column_run, bool keep_rows,
                          int registers, RegisterTile *tile)
{
    // Where row statistics pass between products all must divide the rows alike: warps and groups one below the other.
    const Split plain_rows = { 1, ROW_LANES, partition.warps, partition.groups };
    for (int run = column_run; keep_rows && run >= 1; run /= 2) {
        const Split c = { run, COLUMN_LANES, 1, 1 };
        if (!divides(&plain_rows, rows) || !divides(&c, columns) ||
            each_thread(&plain_rows, rows) * each_thread(&c, columns) > registers)
            continue;
        *tile = register_tile(rows, columns, partition, &plain_rows, &c);
        return true;
    }
    int best = -1;
    Split r, c;
    for (r.run = row_run; r.run >= 1; r.run /= 2)
        for (c.run = column_run; c.run >= 1; c.run /= 2)
            for (r.lanes = 1; r.lanes <= WARP_LANES; r.lanes *= 2)
                for (c.lanes = 1; r.lanes * c.lanes <= WARP_LANES; c.lanes *= 2)
                    for (r.warps = 1; r.warps <= partition.warps; r.warps *= 2)
                        for (c.warps = 1; r.warps * c.warps <= partition.warps; c.warps *= 2)
                            for (int g = 0; g < 3; g++) {
                                r.groups = g == 0 ? partition.groups : 1;
                                c.groups = g == 1 ? partition.groups : 1;
                                if (!divides(&r, rows) || !divides(&c, columns)) continue;
                                const int m = each_thread(&r, rows), n = each_thread(&c, columns);
                                if (m * n > registers) continue;
                                const int cost = 4 * m * n + load_cost(&r, rows, row_run > 1) +
                                                 load_cost(&c, columns, column_run > 1) + m / 8 + 2 * (c.warps - 1) +
                                                 2 * (c.groups - 1);
                                if (best >= 0 && cost >= best) continue;
                                best = cost;
                                *tile = register_tile(rows, columns, partition, &r, &c);
                            }
    return best >= 0;
}
