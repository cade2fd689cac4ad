// SPDX-License-Identifier: MIT
// sass_lines.h - which line of a kernel's source each of its machine instructions is for.
//
// NVRTC can leave a table of lines in a cubin; the code is the same with and without it. A text emitted for Target.places has
// comments that say which line of the .tile file its statements are for; together they lead from instructions to that file.
#ifndef KILN_TOOLS_SASS_LINES_H
#define KILN_TOOLS_SASS_LINES_H

#include "compile/compile.h"
#include "toolchain/toolchain.h"

enum { SASS_BYTES = 16 }; // of an instruction

typedef struct SassPlace {
    const char *path; // NULL: none
    int line;
} SassPlace;
typedef VEC(SassPlace) SassPlaces; // of each instruction of a kernel, in the order of addresses

// Lines of the text itself, from 1; 0: unknown. What was inlined counts where it was called from, at last from the kernel.
// False: the cubin has not one kernel with such a table.
bool sass_text_lines(Arena *arena, const char *cubin, size_t n, const int **lines, int *n_lines);
// For each line of a text with such comments, the first is [1]: the last of them that stands before it.
void sass_places_of_text(Arena *arena, const char *text, SassPlaces *places);
// Both, by NVRTC. `compiled` is for Target.places.
kiln_status sass_places(Arena *arena, const Compiled *compiled, CudaArch arch, SassPlaces *places);

#endif
