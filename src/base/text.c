// SPDX-License-Identifier: MIT
// text.c - a growing text in an arena.
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
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

static void add_number(Text *text, uint64_t magnitude, bool is_negative)
{
    char digits[24], *const end = digits + sizeof digits, *first = end;
    do *--first = (char)('0' + magnitude % 10);
    while ((magnitude /= 10) > 0);
    if (is_negative) *--first = '-';
    text_add(text, first, (size_t)(end - first));
}

static void add_signed(Text *text, int64_t value)
{
    add_number(text, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
}

static void print_by_library(Text *text, const char *format, va_list args)
{
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

// Most of what is printed is plain text, strings and whole numbers; from the first other conversion on the library prints.
void text_vprint(Text *text, const char *format, va_list args)
{
    for (;;) {
        const char *const begin = format;
        while (*format && *format != '%') format++;
        text_add(text, begin, (size_t)(format - begin));
        if (!*format) return;
        if (format[1] == 's') {
            const char *const string = va_arg(args, const char *);
            text_add(text, string ? string : "(null)", string ? strlen(string) : 6);
            format += 2;
        } else if (format[1] == 'd') {
            add_signed(text, va_arg(args, int));
            format += 2;
        } else if (strncmp(format + 1, "lld", 3) == 0) {
            add_signed(text, va_arg(args, long long));
            format += 4;
        } else {
            print_by_library(text, format, args);
            return;
        }
    }
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
