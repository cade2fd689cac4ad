// SPDX-License-Identifier: MIT
// print_steps.h - printing of what stands around the steps of a loop that a plan describes.
#ifndef KILN_LOWER_GPU_PRINT_CONTROL_PRINT_STEPS_H
#define KILN_LOWER_GPU_PRINT_CONTROL_PRINT_STEPS_H

#include "lower/gpu/print/build/printer.h"

// ---- print_software_pipeline.c, print_early_issue.c, print_product_loop.c: of actions with such a plan
void begin_software_pipeline(Printer *pr, const Action *action);
void end_software_pipeline(Printer *pr, const Action *action);
void keep_crossings(Printer *pr, const Action *action); // of DECLARE_CROSSINGS
void begin_early_issue(Printer *pr, const Action *action);
void end_early_issue(Printer *pr, const Action *action);
void begin_product_loop(Printer *pr, const Action *action);
void end_product_loop(Printer *pr, const Action *action);

#endif
