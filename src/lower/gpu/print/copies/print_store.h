// SPDX-License-Identifier: MIT
// print_store.h - stores through staging, box by box.
#ifndef KILN_LOWER_GPU_PRINT_COPIES_PRINT_STORE_H
#define KILN_LOWER_GPU_PRINT_COPIES_PRINT_STORE_H

#include "lower/gpu/print/build/printer.h"
#include "lower/gpu/plans/store.h"

void print_store(Printer *pr, const StorePlan *plan);
void print_store_wait(Printer *pr, const Action *action);
void print_boxes(Printer *pr, const Action *action);

#endif
