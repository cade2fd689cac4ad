// SPDX-License-Identifier: MIT
// print_roles.h - the kernel, its frame and the threads of each role.
#ifndef KILN_LOWER_GPU_PRINT_ROLES_PRINT_ROLES_H
#define KILN_LOWER_GPU_PRINT_ROLES_PRINT_ROLES_H

#include "lower/gpu/print/build/printer.h"

LoopUnit *print_kernel(const Lowering *lo);          // with the launch plan; NULL: a diagnostic was reported
void begin_boxes(Printer *pr, const Action *action); // SCOPE_ALIGNED, SCOPE_ISSUE
void begin_elements(Printer *pr, const Action *action);
void end_boxes(Printer *pr, const Action *action);

// ---- parameters.c
int declare_parameters(Printer *pr); // returns their words

// ---- launch.c
void fill_unit(Printer *pr, LoopStmt *body, int words, int threads);
void fill_plan(Printer *pr, int threads);

#endif
