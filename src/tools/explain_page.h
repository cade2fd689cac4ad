// SPDX-License-Identifier: MIT
// explain_page.h - `kiln explain --html`.
#ifndef KILN_TOOLS_EXPLAIN_PAGE_H
#define KILN_TOOLS_EXPLAIN_PAGE_H

#include "tools/page/page.h"
#include "tools/tool.h"

typedef struct PageOptions {
    const char *out; // a file; "-": standard output
    const char *file, *at, *card;
    const char *measured; // a time, as "182us"; NULL: measured where there is a device, else left out
    const char *profile;  // a file of `kiln profile --json`; NULL: none
    const TargetOptions *target;
} PageOptions;

// The page of a bound request. Returns the exit status, after a message where it is not EXIT_OK.
int explain_page(ToolRequest *request, Arena *arena, const PageOptions *options);

// explain_trace.c: what `kiln profile --json` printed into the file at `path`, on the page. -1, or the exit status after a message.
int explain_trace(Page *page, const char *path);

#endif
