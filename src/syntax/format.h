// SPDX-License-Identifier: MIT
// format.h - a source in its canonical form, for `kiln fmt`.
//
// Changed are blanks and line ends only, never words or comments, so the meaning stays. Set are: indentation by 4,
// a line per statement, spaces around operators, one blank line at most, comments after code in one column. Kept
// are: the author's line breaks within a statement and before the statement that another one controls, blocks of
// one statement on one line, blank lines between statements, and `a*b` beside `a * b`. Formatting twice changes
// nothing more.
#ifndef KILN_SYNTAX_FORMAT_H
#define KILN_SYNTAX_FORMAT_H

#include "syntax/ast.h"

bool format_source(Arena *arena, Diags *diags, const Source *source, Text *out); // false: it has syntax errors

#endif
