// SPDX-License-Identifier: MIT
// print_action.h - printing the schedule's actions.
#ifndef KILN_LOWER_GPU_PRINT_PRINT_ACTION_H
#define KILN_LOWER_GPU_PRINT_PRINT_ACTION_H

#include "lower/gpu/print/printer.h"

void print_block(Printer *pr, const Action *action);
void print_part(Printer *pr, ActionKind kind); // the next part of the action at hand, which is of this kind
// The next parts up to the first of this kind: of a barrier, with the waits and fences before it.
void print_parts_through(Printer *pr, ActionKind kind);
void print_parts(Printer *pr); // all that are left
// The statement that print_begin() begins and print_end() ends; the last is the innermost.
Nest *push_nest(Printer *pr);
Nest *top_nest(Printer *pr);
void pop_nest(Printer *pr); // ends it, too

#endif
