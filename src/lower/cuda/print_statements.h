// SPDX-License-Identifier: MIT
// print_statements.h - printing of loops, jumps and scalars, and of what stands around them.
#ifndef KILN_LOWER_CUDA_PRINT_STATEMENTS_H
#define KILN_LOWER_CUDA_PRINT_STATEMENTS_H

#include "lower/cuda/actions.h"

void print_loop(Lowering *lo, const Action *action); // its nests are open until
void end_loop(Lowering *lo, const Action *action);
void print_scalar(Lowering *lo, const Action *action);
void print_atomic(Lowering *lo, const Action *action);
void print_jump(Lowering *lo, const Action *action);
void print_threads(Lowering *lo);
void print_coordinates(Lowering *lo);

// The thread numbers at the beginning of an action with a body are those after it, too.
void save_threads(Lowering *lo);
void return_to_threads(Lowering *lo); // those that were saved last
void restore_threads(Lowering *lo);   // and they are saved no more

#endif
