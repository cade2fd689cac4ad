// SPDX-License-Identifier: MIT
// print_action.h - printing the schedule's actions.
#ifndef KILN_LOWER_CUDA_PRINT_ACTION_H
#define KILN_LOWER_CUDA_PRINT_ACTION_H

#include "lower/cuda/actions.h"

void print_block(Lowering *lo, const Action *action);
void print_part(Lowering *lo, ActionKind kind); // the next part of the action at hand, which is of this kind
// The next parts up to the first of this kind: of a barrier, with the waits and fences before it.
void print_parts_through(Lowering *lo, ActionKind kind);
void print_parts(Lowering *lo); // all that are left
// The statement that print_begin() begins and print_end() ends; the last is the innermost.
Nest *push_nest(Lowering *lo);
Nest *top_nest(Lowering *lo);
void pop_nest(Lowering *lo); // ends it, too

#endif
