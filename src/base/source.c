// SPDX-License-Identifier: MIT
// source.c - places in a source.
#include "base/source.h"

void source_find_lines(Arena *arena, Source *source)
{
    const char *const end = source->text + source->length;
    int n = 1;
    for (const char *at = source->text; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++) n++;
    int *const lines = NEW_ARRAY(arena, int, n);
    source->lines = lines;
    for (const char *at = source->text; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++)
        lines[++source->n_lines] = (int)(at + 1 - source->text);
    source->n_lines++;
}

// The last line that begins at or before `offset`.
static Position find_line(const Source *source, int offset)
{
    int line = 0, past = source->n_lines;
    while (past - line > 1) {
        const int middle = line + (past - line) / 2;
        if (source->lines[middle] <= offset) line = middle;
        else past = middle;
    }
    return (Position){ line + 1, offset - source->lines[line] + 1 };
}

Position source_position(const Source *source, int offset)
{
    Position position = { 1, 1 };
    if (offset > source->length) offset = source->length;
    if (source->lines) return find_line(source, offset);
    const char *line = source->text;
    for (const char *end; (end = memchr(line, '\n', (size_t)(source->text + offset - line))) != NULL; line = end + 1)
        position.line++;
    position.column = (int)(source->text + offset - line) + 1;
    return position;
}

Span span_join(Span a, Span b)
{
    if (!a.source) return b;
    if (a.source != b.source || b.end < a.begin) return a;
    return (Span){ a.source, a.begin, b.end };
}

const char *span_where(Arena *arena, Span span)
{
    if (!span.source) return "code made by the compiler";
    const Position at = source_position(span.source, span.begin);
    return arena_printf(arena, "%s:%d:%d", span.source->path, at.line, at.column);
}
