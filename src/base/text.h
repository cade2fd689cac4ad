// SPDX-License-Identifier: MIT
// text.h - a growing text in an arena, and text output with indentation.
#ifndef KILN_BASE_TEXT_H
#define KILN_BASE_TEXT_H

#include "base/arena.h"

#include <stdarg.h>

typedef struct Text {
    Arena *arena;
    char *data; // NUL-terminated once anything was written; NULL before
    size_t length, capacity;
} Text;

void text_print(Text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_vprint(Text *text, const char *format, va_list args) __attribute__((format(printf, 2, 0), nonnull(2)));
void text_add(Text *text, const char *bytes, size_t n);
void text_indent(Text *text, int depth); // 4 * depth spaces
const char *text_cstr(const Text *text); // "" when empty

#endif
