// SPDX-License-Identifier: MIT
// print_statements.h - printing of loops, jumps and scalars, and of what stands around them.
#ifndef KILN_LOWER_GPU_PRINT_CONTROL_PRINT_STATEMENTS_H
#define KILN_LOWER_GPU_PRINT_CONTROL_PRINT_STATEMENTS_H

#include "lower/gpu/print/build/printer.h"

void print_loop(Printer *pr, const Action *action); // its nests are open until
void end_loop(Printer *pr, const Action *action);
void print_scalar(Printer *pr, const Action *action);
void print_atomic(Printer *pr, const Action *action);
void print_jump(Printer *pr, const Action *action);
void declare_value(Printer *pr, const TileOp *op);
void print_value(Printer *pr, const TileOp *op);
void print_threads(Printer *pr);
void print_coordinates(Printer *pr);

// The thread numbers at the beginning of an action with a body are those after it, too.
void save_threads(Printer *pr);
void return_to_threads(Printer *pr); // those that were saved last
void restore_threads(Printer *pr);   // and they are saved no more

#endif
