// SPDX-License-Identifier: MIT
// lsp_layouts.h - where the tiles of a kernel are kept on sm_90a, for `kiln lsp`: found once for a kernel of a text.
#ifndef KILN_TOOLS_LSP_LAYOUTS_H
#define KILN_TOOLS_LSP_LAYOUTS_H

#include "tools/places.h"
#include "tools/tool.h"

// What was found, by kernel; NULL: nothing yet. All of it is memory_alloc'ed.
typedef struct KernelLayouts KernelLayouts;

void layouts_free(KernelLayouts *layouts);

typedef struct LayoutQuestion {
    const char *path, *text; // the file's name, and all of it
    const Folders *folders;
    const Place *place; // of a name that is local to a kernel
} LayoutQuestion;

// Adds, as Markdown, how the tile of that name is kept: where, which lane, warp and register has which element, or the bytes and
// banks of its first rows. Nothing, if the kernel has no such tile, or cannot be compiled. The first question of a kernel compiles it: with its
// build parameters' own values, or, where these do not go together, with those of its first check.
void layouts_describe(KernelLayouts **layouts, Text *out, const LayoutQuestion *question);

#endif
