// SPDX-License-Identifier: MIT
// escape.h - any bytes as part of C or CUDA C text: whatever a source, a path or a message holds, it stays inside its
// literal or its comment. All text that Kiln did not write itself goes through here.
#ifndef KILN_EMIT_ESCAPE_H
#define KILN_EMIT_ESCAPE_H

#include "base/text.h"

// A string literal, with its quotes, of exactly these bytes.
void escape_string(Text *out, const char *bytes, size_t n);
// As much of the text as can stand in a comment, of either kind: on one line, and without its end.
void escape_comment(Text *out, const char *bytes, size_t n);

#endif
