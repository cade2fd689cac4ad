// SPDX-License-Identifier: MIT
// scans.c - the line that a scan goes along: its extent, and the modes of a layout that count it through.
#include "lower/gpu/facts/scans.h"

bool static_widths(const Region *region, int64_t *widths)
{
    const int rank = region_rank(region);
    for (int d = 0; d < rank; d++)
        if (!expr_as_int(region_extent(region, d), &widths[d])) return false;
    return true;
}

bool order_modes(const Layout *layout, int axis, int *order, int *n)
{
    int reached = 1, next;
    for (*n = 0;; reached *= layout->mode[next].extent) {
        next = -1;
        for (int i = 0; i < layout->n; i++)
            if (layout->mode[i].dim == axis && layout->mode[i].stride == reached) next = i;
        if (next < 0) break;
        order[(*n)++] = next;
    }
    int along = 0;
    for (int i = 0; i < layout->n; i++) along += layout->mode[i].dim == axis;
    return along == *n;
}

bool is_of_warps(const LayoutMode *mode) { return mode->input == IN_WARP || mode->input == IN_GROUP; }
