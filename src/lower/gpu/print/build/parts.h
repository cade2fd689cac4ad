// SPDX-License-Identifier: MIT
// parts.h - the parts of the action at hand, and the statements of Loop IR that are open around it.
#ifndef KILN_LOWER_GPU_PRINT_BUILD_PARTS_H
#define KILN_LOWER_GPU_PRINT_BUILD_PARTS_H

#include "lower/gpu/print/build/printer.h"

void print_part(Printer *pr, ActionKind kind); // the next part of the action at hand, which is of this kind
// The next parts up to the first of this kind: of a barrier, with the waits and fences before it.
void print_parts_through(Printer *pr, ActionKind kind);
void print_parts(Printer *pr); // all that are left

// The statement that the beginning of an action opens and its end closes; the last is the innermost.
Nest *push_nest(Printer *pr);
Nest *top_nest(Printer *pr);
void pop_nest(Printer *pr); // ends it, too

void print_place(Printer *pr, Span span); // "at gemm.tile:22", for who maps instructions to lines (tools/sass_lines.h)

#endif
