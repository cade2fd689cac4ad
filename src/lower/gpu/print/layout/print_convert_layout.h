// SPDX-License-Identifier: MIT
// print_convert_layout.h - fragments in the registers of another layout.
#ifndef KILN_LOWER_GPU_PRINT_LAYOUT_PRINT_CONVERT_LAYOUT_H
#define KILN_LOWER_GPU_PRINT_LAYOUT_PRINT_CONVERT_LAYOUT_H

#include "lower/gpu/print/build/printer.h"
#include "lower/gpu/plans/convert_layout.h"

void print_layout_conversion(Printer *pr, const ConversionPlan *plan);
void print_conversion_part(Printer *pr, const ConversionPart *side);

#endif
