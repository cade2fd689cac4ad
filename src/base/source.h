// SPDX-License-Identifier: MIT
// source.h - a source file in memory, and places in it.
#ifndef KILN_BASE_SOURCE_H
#define KILN_BASE_SOURCE_H

#include "base/arena.h"

#include <stdbool.h>

typedef struct Source {
    const char *path; // as shown in diagnostics
    const char *text; // NUL-terminated; a leading byte order mark is kept but skipped by the lexer
    int length;
    bool hidden;      // lies outside the program's folder: diagnostics do not show its lines
    const int *lines; // where each begins, of n_lines; NULL: they are counted when asked for
    int n_lines;
} Source;

// A piece of a source. `source` NULL: nowhere (made by the compiler).
typedef struct Span {
    const Source *source;
    int begin, end; // byte offsets; end is exclusive
} Span;

typedef struct Position {
    int line, column;
} Position; // from 1; columns count bytes

void source_find_lines(Arena *arena, Source *source); // where many places are asked for
Position source_position(const Source *source, int offset);
Span span_join(Span a, Span b);                  // from the begin of a to the end of b
const char *span_where(Arena *arena, Span span); // softmax.tile:12:5, for messages of the running kernel

#endif
