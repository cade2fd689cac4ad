// SPDX-License-Identifier: MIT
// print_action.h - printing the schedule's actions.
#ifndef KILN_LOWER_GPU_PRINT_ROLES_PRINT_ACTION_H
#define KILN_LOWER_GPU_PRINT_ROLES_PRINT_ACTION_H

#include "lower/gpu/print/build/printer.h"

void print_block(Printer *pr, const Action *action);
void print_tree(Printer *pr, const Action *action); // one, with its parts or its body: new_printer() is given it

#endif
