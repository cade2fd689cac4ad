// SPDX-License-Identifier: MIT
// escape.c - string literals and comments of any bytes.
#include "emit/escape.h"

#include <stdbool.h>

static bool is_plain(char c) { return c >= 32 && c <= 126; }

// Three octal digits always, so that a digit after them is none of theirs. `?` may begin a trigraph.
void escape_string(Text *out, const char *bytes, size_t n)
{
    text_add(out, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        const char c = bytes[i];
        if (c == '\n') text_add(out, "\\n", 2);
        else if (c == '"' || c == '\\' || (c == '?' && i > 0 && bytes[i - 1] == '?')) text_print(out, "\\%c", c);
        else if (is_plain(c)) text_add(out, &c, 1);
        else text_print(out, "\\%03o", (unsigned char)c);
    }
    text_add(out, "\"", 1);
}

// A backslash at the end of a line, or the trigraph that means one, would draw the next line into the comment.
void escape_comment(Text *out, const char *bytes, size_t n)
{
    char last = ' ';
    for (size_t i = 0; i < n; i++) {
        const char c = is_plain(bytes[i]) && bytes[i] != '\\' ? bytes[i] : ' ';
        const bool joins = (last == '*' && c == '/') || (last == '/' && c == '*') || (last == '?' && c == '?');
        if (joins) text_add(out, " ", 1);
        text_add(out, &c, 1);
        last = c;
    }
}
