// SPDX-License-Identifier: MIT
// work.h - how much a launch has to do at least, and what this machine can do at most.
#ifndef KILN_TOOLS_WORK_H
#define KILN_TOOLS_WORK_H

#include "tools/cases.h"

// Operations of matrix products (a multiplication and an addition are two), counted by walking the Tile IR with the
// sizes of a case; 0 where it has none or they depend on data.
double count_operations(const TileKernel *kernel, const CheckCase *check);
// Bytes of all tensors, each once: what must move however clever the kernel is. inout counts twice.
double count_bytes(const Case *c);

// The machine's own figures, measured here (CPU) or known for the model (GPU). 0: not known.
typedef struct Ceiling { double bytes_per_second, operations_per_second; const char *what; } Ceiling;
Ceiling ceiling_of(const kiln_device *device, DType type);

#endif
