// SPDX-License-Identifier: MIT
// windows.h - stores to views that end where the program says.
#ifndef KILN_LOWER_GPU_DECIDE_COPY_WINDOWS_H
#define KILN_LOWER_GPU_DECIDE_COPY_WINDOWS_H

#include "lower/gpu/facts/lowering.h"

// Makes a slice of a view one of the tensor under it, and returns what the view has of it; NULL: it stays as it is, since the view is
// no window of a tensor.
const Window *through_window(Lowering *lo, Region *slice);

#endif
