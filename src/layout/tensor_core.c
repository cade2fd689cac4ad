// SPDX-License-Identifier: MIT
// tensor_core.c - the layouts that tensor-core instructions fix.
#include "layout/layout.h"

#include <assert.h>

// Lane 4*r + c holds columns 2c and 2c+1 of rows r and r+8 of every 16 x 8 block; the four warps of a group stand
// below each other. Registers: pair, row half, block of columns, block of 64 rows.
Layout layout_accumulator(int rows, int columns, Partition partition, Division division)
{
    return layout_accumulator_bytes(rows, columns, partition, division, false, false);
}

Layout layout_left_bytes(int rows, int columns, Partition partition)
{
    Layout layout = layout_new(2, (int[]){ rows, columns });
    const int step = 16 * partition.warps,
              row_blocks = (rows + step * partition.groups - 1) / (step * partition.groups);
    layout_add(&layout, IN_REGISTER, 4, 1, 1);
    layout_add(&layout, IN_REGISTER, 2, 0, 8);
    layout_add(&layout, IN_REGISTER, columns / 16, 1, 16);
    layout_add(&layout, IN_REGISTER, row_blocks, 0, step);
    layout_add(&layout, IN_LANE, 4, 1, 4);
    layout_add(&layout, IN_LANE, 8, 0, 1);
    layout_add(&layout, IN_WARP, partition.warps, 0, 16);
    layout_add(&layout, IN_GROUP, partition.groups, 0, step * row_blocks);
    return layout;
}

bool layout_is_accumulator(const Layout *layout, Partition partition, Division *division)
{
    for (*division = DIVIDE_ROWS; *division <= DIVIDE_COLUMNS && layout->rank == 2; ++*division) {
        const Layout wanted = layout_accumulator(layout->extent[0], layout->extent[1], partition, *division);
        if (layout_equal(&wanted, layout)) return true;
    }
    return false;
}

// Two instructions side by side have the even and the odd columns of 16; of an instruction's rows r and r+8 are 2r,
// 2r+1.
Layout layout_accumulator_bytes(int rows, int columns, Partition partition, Division division, bool odd_rows,
                                bool odd_columns)
{
    Layout layout = layout_new(2, (int[]){ rows, columns });
    const int step = 16 * partition.warps;
    const int row_groups = division == DIVIDE_ROWS ? partition.groups : 1;
    const int column_groups = division == DIVIDE_COLUMNS ? partition.groups : 1;
    const int row_blocks = (rows + step * row_groups - 1) / (step * row_groups);
    const int column_blocks = (columns + 8 * column_groups - 1) / (8 * column_groups);
    layout_add(&layout, IN_REGISTER, 2, 1, odd_columns ? 2 : 1);
    layout_add(&layout, IN_REGISTER, 2, 0, odd_rows ? 1 : 8);
    if (odd_columns) layout_add(&layout, IN_REGISTER, 2, 1, 1);
    layout_add(&layout, IN_REGISTER, odd_columns ? column_blocks / 2 : column_blocks, 1, odd_columns ? 16 : 8);
    layout_add(&layout, IN_REGISTER, row_blocks, 0, step);
    layout_add(&layout, IN_LANE, 4, 1, odd_columns ? 4 : 2);
    layout_add(&layout, IN_LANE, 8, 0, odd_rows ? 2 : 1);
    layout_add(&layout, IN_WARP, partition.warps, 0, 16);
    if (row_groups > 1) layout_add(&layout, IN_GROUP, row_groups, 0, step * row_blocks);
    else if (division == DIVIDE_CONTRACTION) layout_add(&layout, IN_GROUP, partition.groups, REPLICATED, 0);
    else layout_add(&layout, IN_GROUP, column_groups, 1, 8 * column_blocks);
    return layout;
}
