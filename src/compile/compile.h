// SPDX-License-Identifier: MIT
// compile.h - the whole compiler on one screen: file to program, program to kernel, kernel to source text.
//
// The target's row (target/target.c) has its passes in their order; every pass name is also a stage of `kiln dump`.
#ifndef KILN_COMPILE_COMPILE_H
#define KILN_COMPILE_COMPILE_H

#include "check/check.h"
#include "target/target.h"

// Reads a file and its imports (paths are relative to the importing file). Never returns NULL; errors are in diags.
Program *program_load(Arena *arena, Diags *diags, const char *path);
Program *program_from_text(Arena *arena, Diags *diags, const char *path, const char *text, size_t length);
// The same with folders that are looked in, in their order, for what is not beside the importing file.
typedef struct ImportFolders {
    const char *const *items;
    int n;
} ImportFolders;
Program *program_load_with(Arena *arena, Diags *diags, const char *path, const ImportFolders *folders);
Program *program_from_text_with(Arena *arena, Diags *diags, const char *path, const char *text, size_t length,
                                const ImportFolders *folders);
// The same where all files are texts in memory, which outlive the program: `find` gives the text of "mla/decode.tile", or NULL.
typedef const char *FindText(const char *path);
Program *program_from_texts(Arena *arena, Diags *diags, const char *path, FindText *find);

typedef struct Compiled {
    const TileKernel *kernel; // as the last pass left it
    const LoopUnit *unit;
    const char *source; // C or CUDA C, complete
    LaunchPlan *plan;
    const char *explanation; // for `kiln explain`; "" if the target had nothing to say
    const char *cost;        // the last part of it: what the code is expected to cost; "" if there is no model
} Compiled;

// Runs passes, lowering and emission on a checked kernel. NULL when a diagnostic was reported.
// `stage` non-NULL: the text of that stage ("tile", a pass name, "schedule", "loop", "source") is added to `dump`.
Compiled *compile_kernel(TileKernel *kernel, const Target *target, const char *stage, Text *dump);
int compile_stages(const Target *target, const char **names, int max); // in their order; how many

#endif
