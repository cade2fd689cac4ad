// SPDX-License-Identifier: MIT
// print_multistage.h - copies that run ahead by cp.async.
#ifndef KILN_LOWER_GPU_PRINT_COPIES_PRINT_MULTISTAGE_H
#define KILN_LOWER_GPU_PRINT_COPIES_PRINT_MULTISTAGE_H

#include "lower/gpu/print/build/printer.h"
#include "lower/gpu/plans/multistage.h"

void begin_multistage(Printer *pr, const Action *action);
void end_multistage(Printer *pr, const Action *action);
void print_commit(Printer *pr, const Action *action);
void print_pieces(Printer *pr, const Pieces *pieces);

#endif
