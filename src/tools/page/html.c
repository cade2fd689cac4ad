// SPDX-License-Identifier: MIT
// html.c - escaping, and numbers with their units.
#include "tools/page/html.h"

// Bytes of the UTF-8 character that begins here; 0: none does.
static size_t utf8_length(const char *text, size_t n)
{
    const unsigned char c = (unsigned char)*text;
    const size_t length = c < 0x80                ? 1
                          : c >= 0xC2 && c < 0xE0 ? 2
                          : c >= 0xE0 && c < 0xF0 ? 3
                          : c >= 0xF0 && c < 0xF5 ? 4
                                                  : 0;
    if (length > n) return 0;
    for (size_t i = 1; i < length; i++)
        if (((unsigned char)text[i] & 0xC0) != 0x80) return 0;
    return length;
}

void html_text_n(Text *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        const char c = text[i];
        const size_t length = utf8_length(text + i, n - i);
        if (c == '<') text_add(out, "&lt;", 4);
        else if (c == '>') text_add(out, "&gt;", 4);
        else if (c == '&') text_add(out, "&amp;", 5);
        else if (c == '"') text_add(out, "&quot;", 6);
        else if (length == 0 || ((unsigned char)c < 0x20 && c != '\n' && c != '\t')) text_add(out, "\xEF\xBF\xBD", 3);
        else text_add(out, text + i, length);
        i += length ? length : 1;
    }
}

void html_text(Text *out, const char *text) { html_text_n(out, text, strlen(text)); }

void html_print(Text *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    html_text(out, arena_vprintf(out->arena, format, args));
    va_end(args);
}

const char *html_amount(Arena *arena, double x, const char *unit)
{
    static const char *const prefixes[] = { "", "K", "M", "G", "T", "P" };
    int i = 0;
    for (; x >= 1000 && i < 5; i++) x /= 1000;
    return arena_printf(arena, "%.3g %s%s", x, prefixes[i], unit);
}

const char *html_time(Arena *arena, double seconds)
{
    if (seconds < 1e-3) return arena_printf(arena, "%.3g us", 1e6 * seconds);
    return arena_printf(arena, "%.3g ms", 1e3 * seconds);
}
