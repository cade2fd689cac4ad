// SPDX-License-Identifier: MIT
// print_registers.h - setting how many registers the threads of each role have (setmaxnreg).
#ifndef KILN_LOWER_GPU_PRINT_PRINT_REGISTERS_H
#define KILN_LOWER_GPU_PRINT_PRINT_REGISTERS_H

#include "lower/gpu/print/printer.h"

void emit_producer_registers(Printer *pr);
void emit_consumer_registers(Printer *pr);
void emit_group_registers(Printer *pr, int group);

#endif
