// SPDX-License-Identifier: MIT
// html.h - the little that writing HTML needs: text with its special characters escaped, and numbers as people read them.
#ifndef KILN_TOOLS_PAGE_HTML_H
#define KILN_TOOLS_PAGE_HTML_H

#include "base/text.h"

// As text or as a value in double quotes. Bytes that are no UTF-8, and control characters, become U+FFFD.
void html_text(Text *out, const char *text);
void html_text_n(Text *out, const char *text, size_t n);
void html_print(Text *out, const char *format, ...) __attribute__((format(printf, 2, 3))); // printed, then escaped
const char *html_amount(Arena *arena, double x, const char *unit);                         // "137 Gop"
const char *html_time(Arena *arena, double seconds);                                       // "192 us"

#endif
