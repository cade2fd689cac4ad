// SPDX-License-Identifier: MIT
// scans.h - the line that a scan goes along: its extent, and the modes of a layout that count it through.
#ifndef KILN_LOWER_GPU_FACTS_SCANS_H
#define KILN_LOWER_GPU_FACTS_SCANS_H

#include "lower/gpu/facts/lowering.h"

bool static_widths(const Region *region, int64_t *widths);
// The modes of a dimension, the fastest first. False: they do not count it through one after the other.
bool order_modes(const Layout *layout, int axis, int *order, int *n);
bool is_of_warps(const LayoutMode *mode);

#endif
