// SPDX-License-Identifier: MIT
// source.c - places in a source. Lines are counted when asked for: only diagnostics and line tables need them.
#include "base/source.h"

Position source_position(const Source *source, int offset)
{
    Position position = { 1, 1 };
    if (offset > source->length) offset = source->length;
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
