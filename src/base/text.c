// SPDX-License-Identifier: MIT
// text.c - a growing text in an arena.
#include "base/text.h"

#include <stdio.h>

// Makes room for `more` bytes and the terminator.
static void reserve(Text *text, size_t more)
{
    const size_t wanted = text->length + more + 1;
    if (wanted <= text->capacity) return;
    size_t capacity = text->capacity ? 2 * text->capacity : 256;
    if (capacity < wanted) capacity = wanted;
    char *const data = arena_alloc(text->arena, capacity);
    if (text->length) memcpy(data, text->data, text->length);
    text->data = data;
    text->capacity = capacity;
}

void text_add(Text *text, const char *bytes, size_t n)
{
    reserve(text, n);
    if (n) memcpy(text->data + text->length, bytes, n);
    text->length += n;
    text->data[text->length] = 0;
}

// Most of what is printed is plain text or one string, and most of the rest fits.
void text_vprint(Text *text, const char *format, va_list args)
{
    if (!strchr(format, '%')) {
        text_add(text, format, strlen(format));
        return;
    }
    va_list again;
    va_copy(again, args);
    reserve(text, 64);
    const size_t room = text->capacity - text->length;
    const int length = vsnprintf(text->data + text->length, room, format, args);
    if (length >= (int)room) {
        reserve(text, (size_t)length);
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
    }
    text->length += length > 0 ? (size_t)length : 0;
    text->data[text->length] = 0;
    va_end(again);
}

void text_print(Text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    text_vprint(text, format, args);
    va_end(args);
}

void text_indent(Text *text, int depth)
{
    for (int i = 0; i < depth; i++) text_add(text, "    ", 4);
}

const char *text_cstr(const Text *text) { return text->data ? text->data : ""; }
